// Building a data set's catalog: from shard indexes to one LMDB file, by temporary file and rename, under a lock.
//
// OpenOrBuildCatalog is what a mount calls: it opens the catalog of a data set when it is current, and builds it
// otherwise. Two mounts may do so at once: one builds, the other waits and opens. Thread-safe; blocks while building.
// Errors: those of reading the shards (by name), kPermission and kNoSpace for the cache folder.
#ifndef PCRFS_CACHE_CATALOG_BUILDER_H_
#define PCRFS_CACHE_CATALOG_BUILDER_H_

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

// The folder for catalogs: `option` when not empty, else by environment and user as ARCHITECTURE says
// ($PCRFS_CACHE_DIR, /var/cache/pcrfs for root, $XDG_CACHE_HOME/pcrfs, $HOME/.cache/pcrfs; /var/tmp/pcrfs-UID where
// that is on a network file system). Made when missing, mode 0700.
[[nodiscard]] Result<std::string> CacheFolder(const std::string& option);

[[nodiscard]] Result<std::unique_ptr<Catalog>> OpenOrBuildCatalog(
    const Dataset& dataset, const std::string& cache_folder,
    const std::function<void(const CatalogProgress&)>& on_progress);

}  // namespace pcrfs

#endif  // PCRFS_CACHE_CATALOG_BUILDER_H_
