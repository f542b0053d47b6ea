#include "cache/sorted_spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace pcrfs {
namespace {

constexpr size_t kReadBytes = size_t{256} << 10;

// In the file: u32 size of the key, u32 size of the value, key, value.
constexpr size_t kHeadBytes = 8;

bool Less(ByteSpan a, ByteSpan b) { return AsText(a) < AsText(b); }

Result<void> WriteAll(int fd, const std::string& path, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemFail("writing a temporary file beside " + Quoted(path), errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

}  // namespace

// Walks one sorted run in the file through a buffer of its own.
class SortedSpool::RunReader {
 public:
  RunReader(int fd, const Run& run, const std::string& path) : fd_(fd), at_(run.begin), end_(run.end), path_(path) {}

  [[nodiscard]] ByteSpan key() const { return key_; }
  [[nodiscard]] ByteSpan value() const { return value_; }

  // To the next record; false behind the last.
  Result<bool> Next() {
    if (position_ == buffer_.size() && at_ == end_) return false;
    if (auto filled = Fill(kHeadBytes); !filled) return PassOn(std::move(filled));
    ByteReader head(ByteSpan(buffer_).subspan(position_, kHeadBytes));
    const uint32_t key_size = head.U32(), value_size = head.U32();
    if (auto filled = Fill(kHeadBytes + uint64_t{key_size} + value_size); !filled) return PassOn(std::move(filled));
    key_ = ByteSpan(buffer_).subspan(position_ + kHeadBytes, key_size);
    value_ = ByteSpan(buffer_).subspan(position_ + kHeadBytes + key_size, value_size);
    position_ += kHeadBytes + key_size + value_size;
    return true;
  }

 private:
  // Has at least `size` bytes in the buffer from position_.
  Result<void> Fill(uint64_t size) {
    if (buffer_.size() - position_ >= size) return {};
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(position_));
    position_ = 0;
    if (size - buffer_.size() > end_ - at_)
      return Fail(ErrorCode::kDamaged, "the temporary file beside " + Quoted(path_) + " is not what was written");
    const size_t have = buffer_.size();
    const uint64_t wanted = std::max<uint64_t>(size - have, kReadBytes);
    buffer_.resize(have + static_cast<size_t>(std::min(wanted, end_ - at_)));
    for (size_t filled = have; filled < buffer_.size();) {
      const ssize_t got = pread(fd_, buffer_.data() + filled, buffer_.size() - filled, static_cast<off_t>(at_));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return SystemFail("reading a temporary file beside " + Quoted(path_), got < 0 ? errno : EIO);
      filled += static_cast<size_t>(got);
      at_ += static_cast<uint64_t>(got);
    }
    return {};
  }

  int fd_;
  uint64_t at_, end_;
  const std::string& path_;
  Bytes buffer_;
  size_t position_ = 0;
  ByteSpan key_, value_;
};

Result<void> SortedSpool::Add(ByteSpan key, ByteSpan value) {
  if (buffer_.size() + key.size() + value.size() + (records_.size() + 1) * sizeof(Record) > memory_ &&
      !records_.empty())
    if (auto written = WriteRun(); !written) return written;
  records_.push_back({buffer_.size(), static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size())});
  buffer_.insert(buffer_.end(), key.begin(), key.end());
  buffer_.insert(buffer_.end(), value.begin(), value.end());
  return {};
}

void SortedSpool::SortBuffer() {
  const auto by_key = [this](const Record& a, const Record& b) { return Less(Key(a), Key(b)); };
  if (!std::ranges::is_sorted(records_, by_key)) std::ranges::stable_sort(records_, by_key);
}

Result<void> SortedSpool::WriteRun() {
  if (!file_.valid()) {
    const std::string name = path_ + ".sort";
    unlink(name.c_str());
    file_ = UniqueFd(open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file_.valid()) return SystemFail("making the temporary file " + Quoted(name), errno);
    unlink(name.c_str());
  }
  SortBuffer();
  ByteWriter out;
  Run run{runs_.empty() ? 0 : runs_.back().end, 0};
  run.end = run.begin;
  const auto write_out = [&]() -> Result<void> {
    run.end += out.size();
    auto written = WriteAll(file_.get(), path_, out.bytes());
    out.Clear();
    return written;
  };
  for (const Record& record : records_) {
    out.U32(record.key_size);
    out.U32(record.value_size);
    out.Append(Key(record));
    out.Append(Value(record));
    if (out.size() >= kReadBytes)
      if (auto written = write_out(); !written) return written;
  }
  if (auto written = write_out(); !written) return written;
  runs_.push_back(run);
  buffer_.clear();
  records_.clear();
  return {};
}

Result<void> SortedSpool::Merge(const std::function<Result<void>(ByteSpan key, ByteSpan value)>& visit) {
  std::vector<RunReader> readers;
  for (const Run& run : runs_) readers.emplace_back(file_.get(), run, path_);
  // The heap's top is the run with the smallest key; of equal keys, the earlier run.
  const auto later = [&](size_t a, size_t b) {
    const auto order = AsText(readers[a].key()).compare(AsText(readers[b].key()));
    return order != 0 ? order > 0 : a > b;
  };
  std::vector<size_t> heap;
  const auto advance = [&](size_t run) -> Result<void> {
    const auto more = readers[run].Next();
    if (!more) return tl::unexpected<Error>(more.error());
    if (!*more) return {};
    heap.push_back(run);
    std::ranges::push_heap(heap, later);
    return {};
  };
  for (size_t run = 0; run < readers.size(); ++run)
    if (auto advanced = advance(run); !advanced) return advanced;
  while (!heap.empty()) {
    std::ranges::pop_heap(heap, later);
    const size_t run = heap.back();
    heap.pop_back();
    if (auto visited = visit(readers[run].key(), readers[run].value()); !visited) return visited;
    if (auto advanced = advance(run); !advanced) return advanced;
  }
  return {};
}

Result<void> SortedSpool::Drain(const std::function<Result<void>(ByteSpan key, ByteSpan value)>& visit) {
  if (!runs_.empty()) {
    if (auto written = WriteRun(); !written) return written;
    return Merge(visit);
  }
  SortBuffer();
  for (const Record& record : records_)
    if (auto visited = visit(Key(record), Value(record)); !visited) return visited;
  return {};
}

}  // namespace pcrfs
