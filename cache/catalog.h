// The catalog: one LMDB file per data set that answers every look-up, getattr, readdir and "where are the bytes".
//
// Written once (catalog_builder.h), never changed in place, always safe to delete. Opened read-only and without locks,
// so that it opens from a read-only place and many mounts share it; the daemon's memory does not grow with the number
// of images: names and entries stay in the file.
//
// Node numbers (fs/ino.h) are those of ARCHITECTURE's rule: node 1 is the data set's root; then shard by shard, in row
// order: images, opaque entries, each directory (ancestors first) just before its first entry, then the shard's other
// directories in the order of its list. So they ascend in storage order, and an appended shard changes none.
//
// LMDB verifies nothing. So the whole file is checked at Open, against size and CRCs in `catalog.head`, and again
// record by record when it is read (table_reader.h): whatever goes bad meanwhile, on disk or in LMDB's own pages, the
// answer is right or kDamaged, never another file's bytes and never a file less. What must be there and is not is
// kDamaged, too: node numbers are dense.
//
// Ownership: the Catalog owns the mapping; everything it returns is a copy. Thread safety: const methods from any
// number of threads at once, without waiting for one another. Must not be used across fork(2).
#ifndef PCRFS_CACHE_CATALOG_H_
#define PCRFS_CACHE_CATALOG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "format/entry.h"
#include "format/error.h"
#include "format/shard_index.h"

namespace pcrfs {

inline constexpr uint64_t kRootNode = 1;  // of the data set's root

enum class NodeKind : uint8_t { kDirectory, kImage, kOpaque };

constexpr NodeKind NodeKindOf(EntryKind kind) {
  return kind == EntryKind::kImage ? NodeKind::kImage : NodeKind::kOpaque;
}

// An entry with more blocks than this (a file beyond 56 MiB) keeps its CRCs apart, so that a read of a part of it does
// not drag in the checksums of all.
inline constexpr uint64_t kMaxInlineCrcs = 448;

// What a look-up, a stat or a read needs to know of a node. Sizes at a level follow from `layout`.
struct NodeInfo {
  uint64_t node = 0;
  uint64_t parent = 0;  // of the root: itself
  NodeKind kind = NodeKind::kDirectory;
  Attributes attributes;
  uint32_t shard = 0;            // position of the shard that holds an entry; of a directory, the first that lists it
  uint64_t source_size = 0;      // entries
  EntryLayout layout;            // entries; `crcs` is empty when there are more than kMaxInlineCrcs: see ReadCrcs
  uint64_t crc_count = 0;        // entries: of all blocks
  Sha256Digest source_sha256{};  // entries
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

  friend bool operator==(const CatalogTotals&, const CatalogTotals&) = default;
};

// A shard file as it was when the catalog was built; one that differs is another file.
struct ShardStamp {
  std::string name;
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  ShardId id{};

  friend bool operator==(const ShardStamp&, const ShardStamp&) = default;
};

class Catalog {
 public:
  // Opens the catalog in `folder`, reading all of it once. kNotFound, kDamaged, kUnsupported (of another build
  // version), kPermission (files that others could have written): build it anew.
  [[nodiscard]] static Result<std::unique_ptr<Catalog>> Open(const std::string& folder);
  ~Catalog();
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;

  [[nodiscard]] const CatalogTotals& totals() const;
  [[nodiscard]] const std::vector<ShardStamp>& shards() const;

  // kNotFound when `parent` has no child of that name.
  [[nodiscard]] Result<uint64_t> Find(uint64_t parent, std::string_view name) const;
  // kNotFound for a number that is no node. `info` is filled anew; its memory is reused between calls.
  [[nodiscard]] Result<void> Get(uint64_t node, NodeInfo& info) const;
  // CRCs [first, first + count) of an entry's blocks, for one that has more than kMaxInlineCrcs.
  [[nodiscard]] Result<void> ReadCrcs(uint64_t node, uint64_t first, uint64_t count, std::vector<uint32_t>& crcs) const;
  // Children of `directory` with node numbers above `after` (0 = from the first), ascending, until `visit` returns
  // false. Ascending node numbers make a listing stable and resumable by node number, and in storage order. `visit`
  // may call the catalog.
  [[nodiscard]] Result<void> List(uint64_t directory, uint64_t after,
                                  const std::function<bool(const DirectoryItem&)>& visit) const;
  // The last number given to a node of the shard at `position` or of one before it.
  [[nodiscard]] Result<uint64_t> LastNodeOf(size_t position) const;
  // The path of a node, relative to the data set's root, for messages; of the root "".
  [[nodiscard]] Result<std::string> Path(uint64_t node) const;

  // What CatalogWriter::AddShard was given for the shard at `position`: levels, directories and entries (not section
  // sizes and the metadata's CRC), so that a rebuild need not read a shard that has not changed.
  [[nodiscard]] Result<ShardIndex> ReadShard(size_t position) const;

  // Whoever met kDamaged says so by this: removes `catalog.head`, unless the catalog was built anew meanwhile, so that
  // the next mount builds it. Where that fails, the next Open finds the damage by its checksums.
  void SetAside() const;

 private:
  struct Impl;
  explicit Catalog(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pcrfs

#endif  // PCRFS_CACHE_CATALOG_H_
