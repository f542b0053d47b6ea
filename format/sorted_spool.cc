#include "format/sorted_spool.h"

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
  RunReader(int fd, const Run& run, std::string path)
      : fd_(fd), at_(run.begin), end_(run.end), path_(std::move(path)) {}

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
  std::string path_;
  Bytes buffer_;
  size_t position_ = 0;
  ByteSpan key_, value_;
};

// Of all runs the one with the smallest key; of equal keys, that of the earlier run.
class SortedSpool::Merger {
 public:
  static Result<std::unique_ptr<Merger>> Open(int fd, const std::vector<Run>& runs, const std::string& path) {
    auto merger = std::make_unique<Merger>();
    for (const Run& run : runs) merger->readers_.emplace_back(fd, run, path);
    for (size_t run = 0; run < runs.size(); ++run)
      if (auto advanced = merger->Advance(run); !advanced) return PassOn(std::move(advanced));
    return merger;
  }

  Result<std::optional<Record>> Next() {
    // What was given out last is overwritten only now.
    if (given_)
      if (auto advanced = Advance(*std::exchange(given_, std::nullopt)); !advanced) return PassOn(std::move(advanced));
    if (heap_.empty()) return std::nullopt;
    std::ranges::pop_heap(heap_, later_);
    given_ = heap_.back();
    heap_.pop_back();
    return Record{readers_[*given_].key(), readers_[*given_].value()};
  }

 private:
  Result<void> Advance(size_t run) {
    auto more = readers_[run].Next();
    if (!more) return PassOn(std::move(more));
    if (!*more) return {};
    heap_.push_back(run);
    std::ranges::push_heap(heap_, later_);
    return {};
  }

  std::vector<RunReader> readers_;
  std::function<bool(size_t, size_t)> later_ = [this](size_t a, size_t b) {
    const auto order = AsText(readers_[a].key()).compare(AsText(readers_[b].key()));
    return order != 0 ? order > 0 : a > b;
  };
  std::vector<size_t> heap_;  // of the runs that have a next record
  std::optional<size_t> given_;
};

SortedSpool::SortedSpool(std::string path, size_t memory) : path_(std::move(path)), memory_(memory) {}
SortedSpool::SortedSpool(SortedSpool&&) noexcept = default;
SortedSpool& SortedSpool::operator=(SortedSpool&&) noexcept = default;
SortedSpool::~SortedSpool() = default;

Result<void> SortedSpool::Add(ByteSpan key, ByteSpan value) {
  if (buffer_.size() + key.size() + value.size() + (places_.size() + 1) * sizeof(Place) > memory_ && !places_.empty())
    if (auto written = WriteRun(); !written) return written;
  places_.push_back({buffer_.size(), static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size())});
  buffer_.insert(buffer_.end(), key.begin(), key.end());
  buffer_.insert(buffer_.end(), value.begin(), value.end());
  return {};
}

void SortedSpool::SortBuffer() {
  const auto by_key = [this](const Place& a, const Place& b) { return Less(Key(a), Key(b)); };
  if (!std::ranges::is_sorted(places_, by_key)) std::ranges::stable_sort(places_, by_key);
}

// Nameless from the start where the file system can do that, so that a kill leaves nothing.
Result<void> SortedSpool::OpenFile() {
  auto file = MakeNamelessFile(path_);
  if (!file) return PassOn(std::move(file));
  file_ = std::move(*file);
  return {};
}

Result<void> SortedSpool::WriteRun() {
  if (!file_.valid())
    if (auto opened = OpenFile(); !opened) return opened;
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
  for (const Place& place : places_) {
    out.U32(place.key_size);
    out.U32(place.value_size);
    out.Append(Key(place));
    out.Append(Value(place));
    if (out.size() >= kReadBytes)
      if (auto written = write_out(); !written) return written;
  }
  if (auto written = write_out(); !written) return written;
  runs_.push_back(run);
  buffer_.clear();
  places_.clear();
  return {};
}

Result<void> SortedSpool::StartGivingOut() {
  giving_out_ = true;
  if (runs_.empty()) {
    SortBuffer();
    return {};
  }
  if (auto written = WriteRun(); !written) return written;
  buffer_.shrink_to_fit();
  places_.shrink_to_fit();
  auto merger = Merger::Open(file_.get(), runs_, path_);
  if (!merger) return PassOn(std::move(merger));
  merger_ = std::move(*merger);
  return {};
}

Result<std::optional<SortedSpool::Record>> SortedSpool::Next() {
  if (!giving_out_)
    if (auto started = StartGivingOut(); !started) return PassOn(std::move(started));
  if (merger_) return merger_->Next();
  if (next_place_ == places_.size()) return std::nullopt;
  const Place& place = places_[next_place_++];
  return Record{Key(place), Value(place)};
}

Result<void> SortedSpool::Drain(const std::function<Result<void>(ByteSpan key, ByteSpan value)>& visit) {
  while (true) {
    auto record = Next();
    if (!record) return PassOn(std::move(record));
    if (!*record) return {};
    if (auto visited = visit((*record)->key, (*record)->value); !visited) return visited;
  }
}

}  // namespace pcrfs
