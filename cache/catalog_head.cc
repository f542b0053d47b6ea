#include "cache/catalog_head.h"

#include <algorithm>

#include "cache/cache_folder.h"
#include "cache/catalog_schema.h"
#include "format/checksum.h"
#include "format/dataset_index.h"
#include "format/level.h"

namespace pcrfs {
namespace {

constexpr uint64_t kMagic = 0x5441435346524350;          // "PCRFSCAT"
constexpr uint64_t kMaxHeadBytes = uint64_t{256} << 20;  // 2^20 shards need a quarter of it
constexpr uint64_t kCrcUnit = uint64_t{16} << 20;
constexpr size_t kMinStampBytes = 2 + 8 + 8 + sizeof(ShardId);

tl::unexpected<Error> Malformed(const char* what) {
  return Fail(ErrorCode::kDamaged, std::string("catalog.head is damaged: ") + what);
}

void EncodeTotals(const CatalogTotals& totals, ByteWriter& out) {
  for (const uint64_t number :
       {totals.images, totals.opaque_files, totals.directories, totals.nodes, totals.source_bytes})
    out.U64(number);
  out.U8(static_cast<uint8_t>(totals.levels));
  for (const uint64_t bytes : totals.level_bytes) out.U64(bytes);
}

bool DecodeTotals(ByteReader& in, CatalogTotals& totals) {
  for (uint64_t* number :
       {&totals.images, &totals.opaque_files, &totals.directories, &totals.nodes, &totals.source_bytes})
    *number = in.U64();
  totals.levels = in.U8();
  if (!Level::FromNumber(totals.levels)) return false;
  for (int k = 1; k <= totals.levels; ++k) totals.level_bytes.push_back(in.U64());
  return in.ok();
}

bool DecodeStamps(ByteReader& in, std::vector<ShardStamp>& shards) {
  const uint64_t count = in.U64();
  if (!in.ok() || count > in.remaining() / kMinStampBytes) return false;
  shards.resize(static_cast<size_t>(count));
  for (ShardStamp& shard : shards) {
    shard.name = AsText(in.Take(in.U16()));
    shard.size = in.U64();
    shard.mtime_ns = static_cast<int64_t>(in.U64());
    const ByteSpan id = in.Take(shard.id.size());
    std::copy(id.begin(), id.end(), shard.id.begin());
  }
  return in.ok();
}

}  // namespace

Bytes EncodeCatalogHead(const CatalogHead& head) {
  ByteWriter out;
  out.U64(kMagic);
  out.U32(kCatalogVersion);
  out.U64(head.file_size);
  out.U32(static_cast<uint32_t>(head.file_crcs.size()));
  for (const uint32_t crc : head.file_crcs) out.U32(crc);
  EncodeTotals(head.totals, out);
  out.U64(head.shards.size());
  for (const ShardStamp& shard : head.shards) {
    out.U16(static_cast<uint16_t>(shard.name.size()));
    out.Append(shard.name);
    out.U64(shard.size);
    out.U64(static_cast<uint64_t>(shard.mtime_ns));
    out.Append(ByteSpan(shard.id));
  }
  out.U32(Crc32(out.bytes()));
  return out.Release();
}

Result<CatalogHead> DecodeCatalogHead(ByteSpan bytes) {
  constexpr size_t kCrcBytes = 4;
  if (bytes.size() < kCrcBytes) return Malformed("too short");
  const ByteSpan body = bytes.first(bytes.size() - kCrcBytes);
  ByteReader in(body);
  if (in.U64() != kMagic) return Malformed("no magic");
  if (ByteReader(bytes.last(kCrcBytes)).U32() != Crc32(body)) return Malformed("its CRC-32 differs");
  if (const uint32_t version = in.U32(); version != kCatalogVersion)
    return Fail(ErrorCode::kUnsupported, "catalog.head is of version " + std::to_string(version) +
                                             ", this program's is " + std::to_string(kCatalogVersion));
  CatalogHead head;
  head.file_size = in.U64();
  const uint32_t crcs = in.U32();
  if (!in.ok() || crcs > in.remaining() / 4) return Malformed("count of checksums");
  for (uint32_t i = 0; i < crcs; ++i) head.file_crcs.push_back(in.U32());
  if (!DecodeTotals(in, head.totals)) return Malformed("totals");
  if (!DecodeStamps(in, head.shards) || in.remaining() != 0) return Malformed("list of shards");
  return head;
}

Result<CatalogHead> ReadCatalogHead(const std::string& folder) {
  const auto file = OpenOwnFile(folder + "/" + std::string(kCatalogHeadFile));
  if (!file) return tl::unexpected<Error>(file.error());
  if ((*file)->size() > kMaxHeadBytes) return Malformed("too long");
  Bytes bytes(static_cast<size_t>((*file)->size()));
  if (auto read = (*file)->ReadAt(0, bytes); !read) return PassOn(std::move(read));
  auto head = DecodeCatalogHead(bytes);
  if (!head) return WithContext(Quoted(folder), std::move(head).error());
  return head;
}

Result<std::vector<uint32_t>> CatalogFileCrcs(const ByteSource& file) {
  std::vector<uint32_t> crcs;
  Bytes buffer(size_t{1} << 20);  // kCrcUnit is a multiple of it
  for (uint64_t offset = 0; offset < file.size(); offset += buffer.size()) {
    const MutableByteSpan part =
        MutableByteSpan(buffer).first(static_cast<size_t>(std::min<uint64_t>(buffer.size(), file.size() - offset)));
    if (auto read = file.ReadAt(offset, part); !read) return PassOn(std::move(read));
    if (offset % kCrcUnit == 0) crcs.push_back(0);
    crcs.back() = Crc32(part, crcs.back());
  }
  return crcs;
}

}  // namespace pcrfs
