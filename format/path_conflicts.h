// Paths that cannot all be shown: files that two shards hold, and files that are folders in another shard. (Within one
// shard DecodeShardIndex refuses them.)
//
// Keeps 8 bytes for each file and some 50 for each folder, and looks at paths themselves only where hashes are equal.
// One thread at a time.
#ifndef PCRFS_FORMAT_PATH_CONFLICTS_H_
#define PCRFS_FORMAT_PATH_CONFLICTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "format/dataset.h"
#include "format/error.h"
#include "format/shard_index.h"

namespace pcrfs {

class PathConflicts {
 public:
  // Of every shard once, in any order.
  void Add(const ShardIndex& index);

  // Calls `on_conflict` with a sentence, kDamaged, for each conflict of what was added. Where hashes are equal it reads
  // the indexes of `dataset` again; shards that cannot be read are passed over.
  void Find(const Dataset& dataset, const std::function<void(const Error&)>& on_conflict);

 private:
  [[nodiscard]] std::unordered_set<uint64_t> Suspects();

  std::vector<uint64_t> files_;
  std::unordered_set<uint64_t> folders_;
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_PATH_CONFLICTS_H_
