// The shards of a data set as a ShardSet takes them: what each must be, and how to open it.
//
// The opener is the one way from here to the store: what it gives is any ByteSource, so a shard need not be a file.
// It owns the data set, and may be called from many threads at once. A file that is not the one the catalog was built
// from is taken when its index says that it is the same shard. Errors: those of opening and reading it, and kStale
// (another shard).
#ifndef PCRFS_FS_DATASET_SHARDS_H_
#define PCRFS_FS_DATASET_SHARDS_H_

#include <vector>

#include "cache/catalog.h"
#include "format/dataset.h"
#include "fs/shard_set.h"

namespace pcrfs {

[[nodiscard]] std::vector<ShardFacts> FactsOf(const Dataset& dataset);

// `stamps` are those of the data set's catalog, one a shard.
[[nodiscard]] ShardSet::Opener OpenerOf(Dataset dataset, std::vector<ShardStamp> stamps);

}  // namespace pcrfs

#endif  // PCRFS_FS_DATASET_SHARDS_H_
