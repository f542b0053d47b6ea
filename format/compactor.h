// Merging the small shards that removing and appending leave, and deleting what no row lists: behind `pcrfs compact`.
//
// A shard that is at most half of what the data set's pack options allow is merged with others of its kind, in the
// order of rows, as long as they fit one shard; entries are ordered as pack orders them and copied as they are stored.
// The new shards get new numbers, and one rename of PCR_index.pb puts them in place. Then all shards in the folder that
// have no row are deleted, and what killed writers left. Killed at any point, the data set is the old or the new one,
// whole, and the same call goes on. A second call finds nothing to do.
// Mounts that are up and not refreshed since cannot open the deleted shards any more.
// Memory: the indexes and images of one new shard. Errors: those of DatasetEdit; kDamaged (a path that two shards
// hold).
#ifndef PCRFS_FORMAT_COMPACTOR_H_
#define PCRFS_FORMAT_COMPACTOR_H_

#include <cstdint>
#include <string>

#include "format/error.h"

namespace pcrfs {

struct CompactSummary {
  uint64_t shards_before = 0, shards_after = 0;
  uint64_t shards_merged = 0;  // of those before
  uint64_t files_deleted = 0;  // shards without a row, the merged ones among them, and leftovers
  uint64_t bytes_deleted = 0;
};

enum class CompactMode { kDo, kOnlyTell };

// With kOnlyTell the summary is of what would be done.
[[nodiscard]] Result<CompactSummary> Compact(const std::string& dataset, CompactMode mode = CompactMode::kDo);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_COMPACTOR_H_
