#include "format/shard_footer.h"

#include <algorithm>
#include <string>

#include "format/checksum.h"
#include "format/shard_index.h"

namespace pcrfs {
namespace {

constexpr uint32_t kFooterVersion = 1;
constexpr size_t kCoveredBytes = 36;  // by the footer's own checksum
// Not ASCII at the start and a line end in it, so that transfers that take it for text are seen.
constexpr std::array<uint8_t, 8> kMagic = {0x89, 'P', 'C', 'R', 'F', 'S', 0x0D, 0x0A};

}  // namespace

Bytes EncodeShardFooter(const ShardFooter& footer) {
  ByteWriter writer;
  writer.U64(footer.index_offset);
  writer.U32(footer.index_length);
  writer.U32(footer.index_crc);
  writer.U64(footer.file_size);
  writer.U64(footer.published_end);
  writer.U32(kFooterVersion);
  writer.U32(Crc32(writer.bytes()));
  writer.Append(kMagic);
  return writer.Release();
}

Result<ShardFooter> DecodeShardFooter(ByteSpan bytes) {
  if (bytes.size() != kFooterBytes || !std::equal(kMagic.begin(), kMagic.end(), bytes.end() - kMagic.size())) {
    return Fail(ErrorCode::kDamaged, "the last bytes are not those of a pcrfs shard (cut short, or another file)");
  }
  ByteReader reader(bytes);
  ShardFooter footer;
  footer.index_offset = reader.U64();
  footer.index_length = reader.U32();
  footer.index_crc = reader.U32();
  footer.file_size = reader.U64();
  footer.published_end = reader.U64();
  const uint32_t version = reader.U32();
  const uint32_t stored = reader.U32();
  const uint32_t computed = Crc32(bytes.first(kCoveredBytes));
  if (stored != computed) {
    return Fail(ErrorCode::kDamaged,
                "the footer's checksum is wrong: expected " + CrcText(stored) + ", found " + CrcText(computed));
  }
  if (version != kFooterVersion) {
    return Fail(ErrorCode::kUnsupported, "footer version " + std::to_string(version) +
                                             " is of a later release; this one reads version " +
                                             std::to_string(kFooterVersion));
  }
  if (footer.file_size > kMaxFileBytes || footer.index_length > kMaxIndexBytes) {
    return Fail(ErrorCode::kLimit, "the footer speaks of an index of " + std::to_string(footer.index_length) +
                                       " bytes in a file of " + std::to_string(footer.file_size));
  }
  if (footer.published_end >= kPublishedEndLimit || footer.published_end > footer.index_offset ||
      footer.index_offset > kMaxFileBytes ||
      footer.index_offset + footer.index_length + kFooterBytes != footer.file_size) {
    return Fail(ErrorCode::kDamaged,
                "the footer contradicts itself: groups end at " + std::to_string(footer.published_end) + ", index of " +
                    std::to_string(footer.index_length) + " bytes at " + std::to_string(footer.index_offset) +
                    ", file of " + std::to_string(footer.file_size) + " bytes");
  }
  return footer;
}

}  // namespace pcrfs
