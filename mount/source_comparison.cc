#include "mount/source_comparison.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "format/jpeg_coefficients.h"
#include "format/jpeg_geometry.h"
#include "format/jpeg_parser.h"
#include "format/jpeg_picture.h"
#include "format/memory_gate.h"
#include "format/pack_options.h"
#include "format/source_file.h"
#include "format/source_tree.h"
#include "format/worker_threads.h"
#include "mount/dataset_walk.h"

namespace pcrfs {
namespace {

constexpr uint64_t kDecodeBytes = uint64_t{1} << 30;
constexpr size_t kReadBytes = size_t{1} << 20;

// Paths by the first half of their SHA-256; folders with '/' at the end.
class PathSet {
 public:
  void Add(std::string_view path) { digests_.push_back(Digest(path)); }
  // After the last Add.
  void Sort() {
    std::sort(digests_.begin(), digests_.end());
    digests_.erase(std::unique(digests_.begin(), digests_.end()), digests_.end());
  }
  [[nodiscard]] bool Contains(std::string_view path) const {
    return std::binary_search(digests_.begin(), digests_.end(), Digest(path));
  }

 private:
  using HalfDigest = std::array<uint8_t, 16>;

  static HalfDigest Digest(std::string_view path) {
    const Sha256Digest whole = Sha256::Of(AsBytes(path));
    HalfDigest half{};
    std::copy_n(whole.begin(), half.size(), half.begin());
    return half;
  }

  std::vector<HalfDigest> digests_;
};

Result<Sha256Digest> DigestOf(const SourceFile& file) {
  Sha256 sha;
  Bytes buffer(static_cast<size_t>(std::min<uint64_t>(file.size(), kReadBytes)));
  uint64_t offset = 0;
  do {  // also for an empty file, which only a read tells from one that has grown
    const auto part = MutableByteSpan(buffer).first(std::min<uint64_t>(buffer.size(), file.size() - offset));
    if (auto read = file.ReadAt(offset, part); !read) return PassOn(std::move(read));
    sha.Update(part);
    offset += part.size();
  } while (offset < file.size());
  return sha.Finish();
}

class Comparison {
 public:
  Comparison(const Dataset& dataset, std::string source_path, UniqueFd source,
             const std::function<void(const std::string&)>& on_difference,
             const std::function<void(uint64_t, uint64_t)>& on_progress)
      : dataset_(dataset),
        source_path_(std::move(source_path)),
        source_(std::move(source)),
        on_difference_(on_difference),
        on_progress_(on_progress) {
    for (const ShardRow& row : dataset.index().rows) bytes_total_ += row.file_size;
  }

  Result<SourceComparison> Run(unsigned jobs) {
    RunOnThreads(jobs, [this] {
      for (size_t i = next_++; i < dataset_.shard_count() && !failed_; i = next_++) CompareShard(i);
    });
    if (failed_) return tl::unexpected<Error>(*std::move(failure_));
    if (auto found = FindUnpacked(); !found) return PassOn(std::move(found));
    return totals_;
  }

 private:
  void CompareShard(size_t position) {
    auto source = dataset_.OpenShard(position);
    auto index = source ? dataset_.ReadShardIndex(position, **source) : PassOn(std::move(source));
    if (!index) {
      if (StopsAt(index.error())) return;
      shards_unread_ = true;
      return Differ("shard " + Quoted(dataset_.index().rows[position].name) +
                    " cannot be read, so its files were not compared: " + index.error().message);
    }
    Remember(*index);
    for (const std::string& folder : index->directories) CompareFolder(folder);
    for (const Entry& entry : index->entries) {
      CompareFile(**source, entry, EntryPath(*index, entry));
      uint64_t stored = entry.layout.tail.size + entry.layout.restore.size;
      for (const Extent& extent : entry.layout.extents) stored += extent.size;
      Done(stored);
    }
  }

  void CompareFolder(const std::string& path) {
    struct stat status {};
    if (fstatat(source_.get(), path.c_str(), &status, 0) != 0) {
      const Error error = SystemFail("looking at it", errno).value();
      if (StopsAt(error)) return;
      Differ("the folder " + Quoted(path) + " is in the data set, but cannot be found in the source: " + error.message);
    } else if (!S_ISDIR(status.st_mode))
      Differ(Quoted(path) + " is a folder in the data set and none in the source");
  }

  void CompareFile(const ByteSource& shard, const Entry& entry, const std::string& path) {
    const auto file = SourceFile::Open(source_.get(), path);
    if (!file && StopsAt(file.error())) return;
    if (!file && file.error().code == ErrorCode::kNotFound)
      return Differ(Quoted(path) + " is in the data set, but not in the source");
    if (!file) return Differ(Quoted(path) + " cannot be read in the source: " + file.error().message);
    if ((*file)->size() != entry.source_size)
      return Differ(Quoted(path) + " has " + std::to_string((*file)->size()) + " bytes in the source, but " +
                    std::to_string(entry.source_size) + " when it was packed");
    const bool converted = entry.layout.kind == EntryKind::kImage && !entry.layout.kept;
    if (auto same = converted ? CompareImage(shard, entry, **file) : CompareDigest(entry, DigestOf(**file)); !same) {
      if (same.error().code != ErrorCode::kDamaged && StopsAt(same.error())) return;
      return Differ(Quoted(path) + " " + same.error().message);
    }
    Compared(entry.source_size);
  }

  static Result<void> CompareDigest(const Entry& entry, const Result<Sha256Digest>& digest) {
    if (!digest) return WithContext("cannot be read in the source", digest.error());
    if (*digest == entry.source_sha256) return {};
    return Fail(ErrorCode::kDamaged, "has other bytes in the source than when it was packed (SHA-256)");
  }

  Result<void> CompareImage(const ByteSource& shard, const Entry& entry, const SourceFile& file) {
    const Level highest = *Level::FromNumber(dataset_.levels());
    const auto head = ReadStored(shard, entry, *Level::FromNumber(1));
    if (!head) return WithContext("cannot be read in the data set", head.error());
    const auto frame = ParseJpegFrame(*head);
    if (!frame) return WithContext("cannot be decoded in the data set", frame.error());
    const auto claim =
        memory_.Enter(CoefficientMemory(*frame) + file.size() + SizeAtLevel(entry.layout, highest, dataset_.levels()));
    const auto source = file.ReadWhole();
    if (!source) return WithContext("cannot be read in the source", source.error());
    if (auto same = CompareDigest(entry, Sha256::Of(*source)); !same) return same;
    const auto stored = ReadStored(shard, entry, highest);
    if (!stored) return WithContext("cannot be read in the data set", stored.error());
    const auto same = SamePicture(*source, *stored);
    if (!same) return tl::unexpected(same.error());
    if (*same) return {};
    return Fail(ErrorCode::kDamaged, "decodes to another picture at the highest level than in the source");
  }

  // Of what libjpeg decodes to no pixels, such as fractional sampling, all that pixels would depend on.
  static Result<bool> SamePicture(ByteSpan source, ByteSpan stored) {
    const auto meant = DecodePicture(source), shown = DecodePicture(stored);
    if (meant && shown) return *meant == *shown;
    const auto meant_content = ReadJpegContent(source), shown_content = ReadJpegContent(stored);
    if (!meant_content) return WithContext("cannot be decoded in the source", meant_content.error());
    if (!shown_content) return WithContext("cannot be decoded at the highest level", shown_content.error());
    return meant.has_value() == shown.has_value() && *meant_content == *shown_content;
  }

  Result<Bytes> ReadStored(const ByteSource& shard, const Entry& entry, Level level) {
    Bytes bytes;
    bytes.reserve(static_cast<size_t>(SizeAtLevel(entry.layout, level, dataset_.levels())));
    auto read = StreamEntry(dataset_, {shard, entry}, level, memory_, [&](ByteSpan part) -> Result<void> {
      bytes.insert(bytes.end(), part.begin(), part.end());
      return {};
    });
    if (!read) return PassOn(std::move(read));
    return bytes;
  }

  // What is in the source and not in the data set.
  Result<void> FindUnpacked() {
    if (shards_unread_) {
      Differ("since a shard could not be read, it was not looked for files that are missing from the data set");
      return {};
    }
    struct stat status {};
    if (stat(dataset_.path().c_str(), &status) != 0) return SystemFail("looking at " + Quoted(dataset_.path()), errno);
    const auto options = ParsePackOptions(dataset_.index().pack_options);  // those of a later release exclude nothing
    auto tree = SourceTree::Open(source_path_,
                                 {.leave_out = FileIdentity{status.st_dev, status.st_ino},
                                  .exclude = options ? options->exclude : ExcludeList()},
                                 [this](const std::string& path, const Skipped& why) { SkippedInSource(path, why); });
    if (!tree) return PassOn(std::move(tree));
    paths_.Sort();
    while (true) {
      auto next = tree->Next();
      if (!next) return PassOn(std::move(next));
      if (!*next) break;
      const SourceRecord* record = &**next;
      const bool folder = record->kind == SourceKind::kEmptyFolder;
      if (record->is_item() && !record->path.empty() && !paths_.Contains(folder ? record->path + '/' : record->path))
        Differ((folder ? "the folder " : "") + Quoted(record->path) + " is in the source, but not in the data set");
    }
    totals_.left_aside += tree->excluded();
    return {};
  }

  void SkippedInSource(const std::string& path, const Skipped& why) {
    if (why.reason == SkipReason::kUnreadable)
      Differ(Quoted(path) + " cannot be read in the source: " + why.detail);
    else
      ++totals_.left_aside;
  }

  void Remember(const ShardIndex& index) {
    const std::lock_guard lock(mutex_);
    for (const Entry& entry : index.entries) paths_.Add(EntryPath(index, entry));
    for (const std::string& folder : index.directories) paths_.Add(folder + '/');
  }

  // Whether an error says nothing of the two that are compared; it then ends the comparison.
  bool StopsAt(const Error& error) {
    Result<void> there;
    if (error.code != ErrorCode::kShortage) there = CheckSourceThere(source_.get(), source_path_);
    if (error.code != ErrorCode::kShortage && there) return false;
    const std::lock_guard lock(mutex_);
    failure_ = there ? error : there.error();
    failed_ = true;
    return true;
  }

  void Differ(const std::string& sentence) {
    const std::lock_guard lock(mutex_);
    ++totals_.differences;
    on_difference_(sentence);
  }

  void Compared(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    ++totals_.files;
    totals_.bytes += bytes;
  }

  void Done(uint64_t stored) {
    const std::lock_guard lock(mutex_);
    bytes_done_ += stored;
    on_progress_(bytes_done_, bytes_total_);
  }

  const Dataset& dataset_;
  const std::string source_path_;
  const UniqueFd source_;
  const std::function<void(const std::string&)>& on_difference_;
  const std::function<void(uint64_t, uint64_t)>& on_progress_;
  MemoryGate memory_{kDecodeBytes};
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> shards_unread_ = false;
  std::atomic<bool> failed_ = false;
  uint64_t bytes_total_ = 0;

  std::mutex mutex_;              // guards what follows, and the calls of the two functions
  std::optional<Error> failure_;  // why it was ended
  PathSet paths_;
  SourceComparison totals_;
  uint64_t bytes_done_ = 0;
};

}  // namespace

Result<SourceComparison> CompareWithSource(const Dataset& dataset, const std::string& source, unsigned jobs,
                                           const std::function<void(const std::string&)>& on_difference,
                                           const std::function<void(uint64_t, uint64_t)>& on_progress) {
  UniqueFd folder(open(source.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return SystemFail("cannot open the source folder " + Quoted(source), errno);
  return Comparison(dataset, source, std::move(folder), on_difference, on_progress).Run(jobs);
}

}  // namespace pcrfs
