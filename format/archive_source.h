// An archive on disk as the source of a pack, after its plan was made: walked once more, and read in the plan's order.
//
// Owns its descriptor and plan cursor. An archive with another size or mtime than it had when it was opened is not
// believed. Files that are asked for out of order (which is rare: see PackSource) are found by walking the archive
// anew. Memory: the files of the shard that is being read, and one more. Errors: those of ArchiveWalk; kStale.
#ifndef PCRFS_FORMAT_ARCHIVE_SOURCE_H_
#define PCRFS_FORMAT_ARCHIVE_SOURCE_H_

#include <sys/stat.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "format/archive_walk.h"
#include "format/file.h"
#include "format/pack_source.h"

namespace pcrfs {

// The archive itself: an open file, and what it was when it was opened.
class ArchiveFile {
 public:
  [[nodiscard]] static Result<std::unique_ptr<ArchiveFile>> Open(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] int64_t mtime_ns() const;
  // Size and mtime, as text: by which a continued pack knows it again.
  [[nodiscard]] std::string Identity() const;
  // kStale when it was changed.
  [[nodiscard]] Result<void> CheckUnchanged() const;

 private:
  ArchiveFile(std::string path, UniqueFd fd, const struct stat& status)
      : path_(std::move(path)), fd_(std::move(fd)), status_(status) {}

  const std::string path_;
  const UniqueFd fd_;
  const struct stat status_;
};

class ArchiveSource final : public PackSource {
 public:
  // `archive` and `plan` are borrowed.
  ArchiveSource(const ArchiveFile& archive, bool nested, const PackPlan& plan, const ShardLimits& limits);
  ~ArchiveSource() override;

  [[nodiscard]] Result<std::optional<PlannedShard>> NextShard() override { return planned_.Next(); }
  [[nodiscard]] bool in_order() const override { return true; }
  [[nodiscard]] Result<std::vector<HeldContent>> Read(const PlannedShard& shard,
                                                      const std::vector<bool>& wanted) override;
  [[nodiscard]] Result<std::unique_ptr<SourceFile>> Open(const SourceRecord& item) const override;
  [[nodiscard]] bool IsCurrent(const SourceRecord& item, const Entry& entry) const override;
  [[nodiscard]] Result<void> CheckThere() const override { return archive_.CheckUnchanged(); }
  [[nodiscard]] const LabelMap& labels() const override { return labels_; }

 private:
  class Position;

  Result<HeldContent> ReadItem(const PlannedShard& shard, size_t i);

  const ArchiveFile& archive_;
  const bool nested_;
  const ShardLimits limits_;
  const LabelMap labels_;
  PlannedShards planned_;
  std::shared_ptr<Position> position_;  // where the plan's order has come to
  // The file that was read last, since links to it follow.
  uint64_t last_member_ = 0;
  Bytes last_;
  // A file that is to be opened, and its first bytes.
  std::optional<SourceRecord> to_open_;
  Bytes to_open_start_;
};

// A file of an archive that is too large to be held: from front to back, its first bytes as often as one likes. `walk`
// stands behind these, and outlives it.
class MemberFile final : public SourceFile {
 public:
  MemberFile(SourceRecord item, ArchiveWalk& walk, Bytes start, std::shared_ptr<void> keep)
      : item_(std::move(item)), walk_(walk), start_(std::move(start)), keep_(std::move(keep)) {}

  [[nodiscard]] const std::string& name() const override { return item_.path; }
  [[nodiscard]] uint64_t size() const override { return item_.size; }
  [[nodiscard]] Attributes attributes() const override { return item_.attributes; }
  [[nodiscard]] Result<void> ReadAt(uint64_t offset, MutableByteSpan out) const override;

 private:
  const SourceRecord item_;
  ArchiveWalk& walk_;
  const Bytes start_;
  const std::shared_ptr<void> keep_;  // what the walk is part of
  mutable uint64_t position_ = 0;     // of the walk; from start_.size() on, once that was passed
};

// The first bytes of the file that the walk gave last, two where it has so many: whether it is a JPEG.
[[nodiscard]] Result<Bytes> StartOfMember(ArchiveWalk& walk);

struct MemberBytes {
  Bytes bytes;
  bool whole = true;  // false: only the first bytes, since the file is to be streamed
};
// The file that the walk gave last, which must have `size` bytes; of one of more than `most_held` that is opaque
// whatever is in it, only how it starts.
[[nodiscard]] Result<MemberBytes> ReadMember(ArchiveWalk& walk, const std::string& path, uint64_t size,
                                             uint64_t most_held);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_ARCHIVE_SOURCE_H_
