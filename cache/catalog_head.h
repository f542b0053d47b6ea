// `catalog.head`: the small file beside a catalog that says what it was built from and vouches for every byte of it.
//
// Written last and by rename, so where it is whole, the catalog is. Little-endian: magic 'PCRFSCAT', u32 version, u64
// size of the catalog file, u32 count and that many CRC-32, one each 16 MiB of it, the totals, u64 count of shards and
// each shard's stamp, u32 CRC-32 of all before. Pure functions but for the file checks; thread-safe.
// Errors: kDamaged, kUnsupported (another version), kNotFound, kIo.
#ifndef PCRFS_CACHE_CATALOG_HEAD_H_
#define PCRFS_CACHE_CATALOG_HEAD_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cache/catalog.h"
#include "format/bytes.h"
#include "format/error.h"
#include "format/file.h"

namespace pcrfs {

inline constexpr std::string_view kCatalogFile = "catalog.mdb";
inline constexpr std::string_view kCatalogHeadFile = "catalog.head";

struct CatalogHead {
  uint64_t file_size = 0;
  std::vector<uint32_t> file_crcs;
  CatalogTotals totals;
  std::vector<ShardStamp> shards;

  friend bool operator==(const CatalogHead&, const CatalogHead&) = default;
};

[[nodiscard]] Bytes EncodeCatalogHead(const CatalogHead& head);
[[nodiscard]] Result<CatalogHead> DecodeCatalogHead(ByteSpan bytes);
// kPermission for a file that others than we and root own or can write to.
[[nodiscard]] Result<CatalogHead> ReadCatalogHead(const std::string& folder);

// The CRCs of a catalog file, read once from front to back.
[[nodiscard]] Result<std::vector<uint32_t>> CatalogFileCrcs(const ByteSource& file);

}  // namespace pcrfs

#endif  // PCRFS_CACHE_CATALOG_HEAD_H_
