// Which items go into which shard: a function of the plan's records alone, so that a continued pack, whatever happened
// to the files meanwhile, draws the same boundaries (FORMAT.md, "A shard closes after ...").
//
// Memory: the paths of one shard. One thread at a time. Sizes are bytes. PlannedShards passes on the errors of reading
// the plan, and kDamaged when its records do not form a tree.
#ifndef PCRFS_FORMAT_SHARD_PARTITION_H_
#define PCRFS_FORMAT_SHARD_PARTITION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "format/entry.h"
#include "format/error.h"
#include "format/pack_plan.h"
#include "format/shard_writer.h"
#include "format/source_tree.h"

namespace pcrfs {

struct ShardLimits {
  uint64_t items = 256;                  // files and empty folders
  uint64_t bytes = uint64_t{64} << 20;   // of source files, as the plan lists them
  uint64_t directories = 65536;          // in the shard's field 5, and
  uint64_t directory_bytes = 16u << 20;  // the sum of their paths' lengths
};

class ShardPartition {
 public:
  struct Step {
    bool starts_shard = false;  // true for the first item of all, too
    size_t new_directories =
        0;  // how many of the deepest folders on its path, itself if it is one, are new in its shard
  };

  explicit ShardPartition(const ShardLimits& limits) : limits_(limits) {}

  // Places the next item, in plan order.
  [[nodiscard]] Step Place(const SourceRecord& item);

 private:
  void CloseShard();
  [[nodiscard]] bool IsFull(const SourceRecord& item, size_t new_directories, uint64_t new_bytes) const;

  ShardLimits limits_;
  uint64_t items_ = 0;
  uint64_t bytes_ = 0;
  std::unordered_set<std::string> directories_;
  uint64_t directory_bytes_ = 0;
};

struct PlannedShard {
  uint64_t number = 0;
  Attributes root;
  std::vector<ShardDirectory> directories;
  std::vector<SourceRecord> items;  // in order; none only in the single shard of an empty source
  uint64_t bytes = 0;               // of the items
};

// The shards of a plan, one after the other.
class PlannedShards {
 public:
  // The first one's number is `first`.
  PlannedShards(PackPlan::Cursor records, const ShardLimits& limits, uint64_t first = 0)
      : records_(std::move(records)), partition_(limits), first_(first) {
    shard_.number = first;
  }

  // The next shard, nothing after the last.
  [[nodiscard]] Result<std::optional<PlannedShard>> Next();

 private:
  Result<std::optional<SourceRecord>> NextItem();
  void Put(SourceRecord item, size_t new_directories);

  PackPlan::Cursor records_;
  ShardPartition partition_;
  std::vector<ShardDirectory> above_;  // folders above the item that was read last
  std::optional<Attributes> root_;
  PlannedShard shard_;  // under way
  const uint64_t first_;
  bool at_end_ = false;
};

// How many shards they make.
[[nodiscard]] Result<uint64_t> CountShards(PackPlan::Cursor records, const ShardLimits& limits);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_SHARD_PARTITION_H_
