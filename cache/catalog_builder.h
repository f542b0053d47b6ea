// Opening a data set's catalog, and building it where there is none that is current.
//
// OpenOrBuildCatalog is what a mount calls. Two mounts may do so at once: one builds, the other waits and opens. A
// catalog is built into a temporary file under a lock, renamed, and `catalog.head`, which vouches for it, renamed
// last; shards that have not changed are taken from the catalog before. Thread-safe; blocks while building. Shards are
// looked at by up to 32 threads at once.
// Errors: those of reading the shards (by name); kDamaged for a path that two shards hold; kPermission and kNoSpace
// for the cache folder, kBusy where somebody deletes it again and again. Those of the cache folder name it.
#ifndef PCRFS_CACHE_CATALOG_BUILDER_H_
#define PCRFS_CACHE_CATALOG_BUILDER_H_

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cache/catalog.h"
#include "format/dataset.h"
#include "format/error.h"

namespace pcrfs {

struct CatalogProgress {
  uint64_t shards_done = 0, shards_total = 0;
};

// What is remembered of a shard file; `status` as stat(2) gives it.
[[nodiscard]] ShardStamp StampOf(const ShardRow& row, const struct stat& status);

enum class CatalogReuse : uint8_t {
  kAllowed,  // of a current catalog, or of the shards in an older one that have not changed
  kNone,     // build it anew from the shards alone
};

// `cache_folder` is what CacheFolder (cache_folder.h) gave; the catalog lies in a folder of its own below it, named by
// the data set's real path and the hash of its first pack's paths.
[[nodiscard]] Result<std::unique_ptr<Catalog>> OpenOrBuildCatalog(
    const Dataset& dataset, const std::string& cache_folder,
    const std::function<void(const CatalogProgress&)>& on_progress, CatalogReuse reuse = CatalogReuse::kAllowed);

}  // namespace pcrfs

#endif  // PCRFS_CACHE_CATALOG_BUILDER_H_
