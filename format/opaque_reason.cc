#include "format/opaque_reason.h"

#include <utility>

#include "format/checksum.h"
#include "format/jpeg_parser.h"
#include "format/pack_item.h"

namespace pcrfs {
namespace {

tl::unexpected<Error> TooCostly() { return Fail(ErrorCode::kLimit, "finding out why it is opaque would take long"); }

bool Take(uint64_t& left, uint64_t wanted) {
  if (wanted > left) return false;
  left -= wanted;
  return true;
}

}  // namespace

Result<std::optional<Opaque>> WhyOpaque(const ByteSource& shard, const Entry& entry, const EncodeOptions& options,
                                        MemoryGate& memory, ReasonBudget& budget) {
  const Extent& extent = entry.layout.extents.at(0);
  const auto like_jpeg = StartsWithSoi(shard, extent.offset, extent.size);
  if (!like_jpeg) return tl::unexpected(like_jpeg.error());
  if (auto opaque = OpaqueUnread(extent.size, *like_jpeg)) return opaque;
  if (!Take(budget.bytes, extent.size)) return TooCostly();
  Bytes bytes(static_cast<size_t>(extent.size));
  if (auto read = shard.ReadAt(extent.offset, bytes); !read) return PassOn(std::move(read));
  if (Sha256::Of(bytes) != entry.source_sha256)
    return Fail(ErrorCode::kDamaged, "shard " + Quoted(shard.name()) + ": " + Quoted(entry.name) + ", " +
                                         std::to_string(extent.size) + " bytes at offset " +
                                         std::to_string(extent.offset) + ": they are not those that were packed");
  if (!Take(budget.work, EncodeWork(bytes))) return TooCostly();
  auto encoded = EncodeWithin(memory, bytes, options);
  if (encoded) return std::nullopt;
  return std::move(encoded.error());
}

}  // namespace pcrfs
