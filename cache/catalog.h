// The catalog: one LMDB file per data set that answers every look-up, getattr, readdir and "where are the bytes".
//
// Written once by BuildCatalog (catalog_builder.h), never changed in place, always safe to delete. Opened read-only,
// without locks, so that it opens from a read-only place and many mounts share it; the daemon's memory does not grow
// with the number of images.
//
// Node numbers (fs/ino.h) are those of ARCHITECTURE's rule: node 1 is the data set's root; then shard by shard, in row
// order: images, opaque entries, each directory (ancestors first) just before its first entry, then the shard's other
// directories in the order of its list. So they ascend in storage order, and an appended shard changes none.
//
// LMDB verifies nothing. So every value ends in a CRC-32 of its key and itself, checked at each get: a wrong one is
// kDamaged, never another file's bytes; the size of the file must be exactly that in `catalog.head`. Damage to LMDB's
// inner pages is not covered beyond that.
//
// Ownership: the Catalog owns the mapping; everything it returns is a copy. Thread safety: const methods from any
// number of threads at once (each keeps a read transaction of its own). Must not be used across fork(2).
#ifndef PCRFS_CACHE_CATALOG_H_
#define PCRFS_CACHE_CATALOG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "format/dataset_index.h"
#include "format/entry.h"
#include "format/error.h"

namespace pcrfs {

enum class NodeKind : uint8_t { kDirectory, kImage, kOpaque };

// What a look-up or a stat needs to know of a node. Sizes at a level follow from `sizes`.
struct NodeInfo {
  uint64_t node = 0;
  uint64_t parent = 0;  // of the root: itself
  NodeKind kind = NodeKind::kDirectory;
  Attributes attributes;
  uint32_t shard = 0;            // position of the shard that holds an entry; unused for directories
  uint64_t source_size = 0;      // entries
  EntryLayout layout;            // entries
  Sha256Digest source_sha256{};  // entries
  uint64_t child_count = 0;      // directories: entries and directories directly in it
  uint64_t subdirectory_count = 0;
};

struct DirectoryItem {
  uint64_t node = 0;
  NodeKind kind = NodeKind::kDirectory;
  std::string_view name;  // valid during the callback
};

// Sums over the whole data set, for statfs and info.
struct CatalogTotals {
  uint64_t images = 0, opaque_files = 0, directories = 0;  // directories without the root
  uint64_t nodes = 0;                                      // numbered nodes; the last one's number
  int levels = 0;
  std::vector<uint64_t> level_bytes;  // [K - 1]: sum of st_size of tree scanK
  uint64_t source_bytes = 0;          // sum of st_size of `original`
};

class Catalog {
 public:
  // Opens the catalog file in `folder` (which BuildCatalog made). kDamaged or kNotFound: build it anew.
  [[nodiscard]] static Result<std::unique_ptr<Catalog>> Open(const std::string& folder);
  ~Catalog();
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;

  [[nodiscard]] const CatalogTotals& totals() const;

  // kNotFound when `parent` has no child of that name.
  [[nodiscard]] Result<uint64_t> Find(uint64_t parent, std::string_view name) const;
  // kNotFound for a number that is no node. `info` is filled anew; its memory is reused between calls.
  [[nodiscard]] Result<void> Get(uint64_t node, NodeInfo& info) const;
  // Children of `directory` with node numbers above `after` (0 = from the first), ascending, until `visit` returns
  // false. Ascending node numbers make a listing stable and resumable by node number, and in storage order.
  [[nodiscard]] Result<void> List(uint64_t directory, uint64_t after,
                                  const std::function<bool(const DirectoryItem&)>& visit) const;
  // The name of a node in its parent, for messages.
  [[nodiscard]] Result<std::string> Path(uint64_t node) const;

 private:
  struct Impl;
  explicit Catalog(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pcrfs

#endif  // PCRFS_CACHE_CATALOG_H_
