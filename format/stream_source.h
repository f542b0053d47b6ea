// An archive that comes through a pipe as the source of a pack: read once, planned as it comes.
//
// A shard is made of what comes next, by the rules of ShardPartition. Labels are numbered in the order in which
// top-level folders come up. Of several members of one path the first counts, since it may be packed already; likewise
// where a path is a file and a folder. A link is packed when its target is in the same shard before it. A folder
// without a member of its own has mode 0755 and the time of the first member below it. Empty folders come last. What is
// not packed goes to `on_skipped`.
//
// Memory: the files of the shard that is being read, and 64 MiB whatever the number of members. Errors: those of
// ArchiveWalk and of temporary files; kLimit (labels).
#ifndef PCRFS_FORMAT_STREAM_SOURCE_H_
#define PCRFS_FORMAT_STREAM_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "format/archive_walk.h"
#include "format/pack_listing.h"
#include "format/pack_source.h"
#include "format/path_table.h"
#include "format/sorted_spool.h"

namespace pcrfs {

// Labels that come up one after the other. Thread-safe.
class GrowingLabels final : public LabelMap {
 public:
  GrowingLabels() : LabelMap({}) {}
  // A top-level folder that is not there yet.
  void Add(const std::string& folder);
  [[nodiscard]] std::optional<int32_t> Of(std::string_view directory) const override;
  [[nodiscard]] const std::vector<std::string>& list() const { return list_; }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, int32_t> positions_;
  std::vector<std::string> list_;
};

class StreamSource final : public PackSource {
 public:
  // `bytes` is borrowed, `name` is for messages.
  [[nodiscard]] static Result<std::unique_ptr<StreamSource>> Open(ByteStream& bytes, const std::string& name,
                                                                  bool nested, ListingOptions options,
                                                                  const ShardLimits& limits, OnSkipped on_skipped);

  [[nodiscard]] Result<std::optional<PlannedShard>> NextShard() override;
  [[nodiscard]] bool in_order() const override { return true; }
  [[nodiscard]] bool planned() const override { return false; }
  [[nodiscard]] Result<std::vector<HeldContent>> Read(const PlannedShard& shard,
                                                      const std::vector<bool>& wanted) override;
  [[nodiscard]] Result<std::unique_ptr<SourceFile>> Open(const SourceRecord& item) const override;
  [[nodiscard]] bool IsCurrent(const SourceRecord& item, const Entry& entry) const override;
  [[nodiscard]] Result<void> CheckThere() const override { return {}; }
  [[nodiscard]] const LabelMap& labels() const override { return labels_; }

  // When the last shard was given out: what a plan would have said, labels in their own order.
  [[nodiscard]] PlanSummary Summary();
  [[nodiscard]] const ListingTotals& totals() const { return totals_; }

 private:
  struct Item {
    SourceRecord record;
    std::optional<Bytes> content;  // nothing: still to come
  };

  StreamSource(ArchiveWalk walk, ListingOptions options, const ShardLimits& limits, OnSkipped on_skipped);

  Result<std::optional<Item>> NextItem();
  Result<std::optional<Item>> NextEmptyFolder();
  Result<std::optional<Item>> ItemOf(ArchiveMember member);
  Result<std::optional<Item>> LinkOf(const ArchiveMember& member);
  Result<std::optional<Item>> FileOf(const ArchiveMember& member);
  Result<void> AddFolder(const ArchiveMember& member);
  Result<std::optional<std::string>> Conflict(const std::string& path);
  Result<void> AddFoldersAbove(std::string_view path, int64_t mtime_ns);
  Result<void> PutNewFolder(std::string_view path, const PathFacts& folder);
  Result<void> Put(Item item, size_t new_directories, PlannedShard& shard);
  Result<void> AddDirectories(std::string_view deepest, size_t count, PlannedShard& shard);
  void Skip(const std::string& path, SkipReason reason, std::string detail);

  ArchiveWalk walk_;
  const ListingOptions options_;
  const ShardLimits limits_;
  const OnSkipped on_skipped_;
  GrowingLabels labels_;
  PathTable paths_;
  SortedSpool folders_;  // members that are folders, by number
  PlanSummarizer summarizer_;
  ListingTotals totals_;
  std::optional<Attributes> root_;
  ShardPartition partition_;
  std::optional<Item> pending_;     // placed in the next shard,
  size_t pending_directories_ = 0;  // with so many new ones
  uint64_t shards_ = 0;
  bool walked_ = false, at_end_ = false;

  // Of the shard that was given out last.
  std::vector<HeldContent> held_;
  std::unordered_map<std::string, size_t> held_at_;
  std::optional<SourceRecord> to_open_;  // a file that is too large to be held, and
  Bytes to_open_start_;                  // its first bytes
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_STREAM_SOURCE_H_
