// Walking a data set by its shards' indexes, without a catalog: what info, ls, cat and extract share.
//
// Each call reads the indexes of all shards, one after the other in row order, and keeps one in memory at a time. So it
// also sees what a mount refuses, a path that two shards hold. Paths are relative to the data set's root, without
// scanK, "" being the root. One thread, but for StreamEntry. Errors: those of Dataset and of the read path, kNotFound
// with advice, kDamaged for shards that contradict one another.
#ifndef PCRFS_MOUNT_DATASET_WALK_H_
#define PCRFS_MOUNT_DATASET_WALK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/dataset.h"
#include "format/error.h"
#include "format/file.h"
#include "format/memory_gate.h"
#include "format/shard_index.h"
#include "fs/tree.h"

namespace pcrfs {

struct IndexedShard {
  size_t position = 0;
  std::unique_ptr<FileSource> source;
  ShardIndex index;
};

// Shard after shard until `visit` returns an error, which is passed on.
[[nodiscard]] Result<void> ForEachShard(const Dataset& dataset,
                                        const std::function<Result<void>(const IndexedShard&)>& visit);

// The tree asked for, which must be one of the data set's, or that of its highest level.
[[nodiscard]] Result<Tree> ChooseTree(const Dataset& dataset, std::optional<Tree> tree);

// Without empty and "." parts; kInvalidArgument for "..".
[[nodiscard]] Result<std::string> NormalPath(std::string_view path);

// Whether the absolute `path` is `folder` or below it; both without links and a slash at the end.
[[nodiscard]] bool LiesIn(std::string_view path, const std::string& folder);

// An entry and the shard that holds it, which outlive this.
struct IndexedEntry {
  const ByteSource& shard;
  const Entry& entry;
};

struct FoundEntry {
  std::unique_ptr<FileSource> shard;
  Entry entry;
};
// `path` as the user gave it. kNotFound, kIsDirectory; kNotDirectory for a file with a slash behind its name.
[[nodiscard]] Result<FoundEntry> FindEntry(const Dataset& dataset, const std::string& path);

struct ListedItem {
  std::string name;
  bool is_directory = false;
  Attributes attributes;
  uint64_t size = 0;  // in the tree asked for; 0 for directories
};
// What is directly in the folder `path`, by name; a file gives itself.
[[nodiscard]] Result<std::vector<ListedItem>> ListPath(const Dataset& dataset, const std::string& path, Tree tree);

// The bytes of an entry as `tree` shows it, from first to last, checked before `write` gets them. What is restored
// claims its memory at `gate`. From any thread.
[[nodiscard]] Result<void> StreamEntry(const Dataset& dataset, const IndexedEntry& entry, Tree tree, MemoryGate& gate,
                                       const std::function<Result<void>(ByteSpan)>& write);

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_DATASET_WALK_H_
