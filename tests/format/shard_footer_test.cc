#include "format/shard_footer.h"

#include <gtest/gtest.h>

#include "format/checksum.h"
#include "format/shard_index.h"

namespace pcrfs {
namespace {

constexpr ShardFooter kFooter{
    .index_offset = 1000, .index_length = 52, .index_crc = 0xAABBCCDD, .file_size = 1100, .published_end = 900};

// One byte replaced, and the checksum made right again.
Bytes Changed(const ShardFooter& footer, size_t at, uint8_t value) {
  Bytes bytes = EncodeShardFooter(footer);
  bytes[at] = value;
  const uint32_t crc = Crc32(ByteSpan(bytes).first(36));
  for (size_t i = 0; i < 4; ++i) bytes[36 + i] = static_cast<uint8_t>(crc >> (8 * i));
  return bytes;
}

TEST(ShardFooterTest, LiesInTheFileAsTheFormatSays) {
  const Bytes bytes = EncodeShardFooter(kFooter);
  const std::string crc_bytes = Hex(ByteSpan(bytes).subspan(36, 4));
  EXPECT_EQ(Hex(bytes), "e80300000000000034000000ddccbbaa4c04000000000000840300000000000001000000" + crc_bytes +
                            "8950435246530d0a");
  ByteReader crc(ByteSpan(bytes).subspan(36, 4));
  EXPECT_EQ(crc.U32(), Crc32(ByteSpan(bytes).first(36)));
  EXPECT_EQ(DecodeShardFooter(bytes).value(), kFooter);
}

TEST(ShardFooterTest, SeesEveryFlippedByteAndTruncation) {
  const Bytes good = EncodeShardFooter(kFooter);
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      Bytes bad = good;
      bad[i] ^= static_cast<uint8_t>(1 << bit);
      EXPECT_EQ(DecodeShardFooter(bad).error().code, ErrorCode::kDamaged) << i;
    }
    EXPECT_FALSE(DecodeShardFooter(ByteSpan(good).first(i)).has_value());
    EXPECT_FALSE(DecodeShardFooter(ByteSpan(good).last(i)).has_value());
  }
}

TEST(ShardFooterTest, RefusesALaterVersion) {
  EXPECT_EQ(DecodeShardFooter(Changed(kFooter, 32, 2)).error().code, ErrorCode::kUnsupported);
}

TEST(ShardFooterTest, RefusesClaimsThatContradictOneAnother) {
  const auto code = [](ShardFooter footer) { return DecodeShardFooter(EncodeShardFooter(footer)).error().code; };
  ShardFooter bad = kFooter;
  bad.published_end = 1001;
  EXPECT_EQ(code(bad), ErrorCode::kDamaged);
  bad = kFooter;
  bad.file_size += 1;
  EXPECT_EQ(code(bad), ErrorCode::kDamaged);
  bad = kFooter;
  bad.index_offset = UINT64_MAX - 99;  // 100 bytes further it wraps round to 0
  bad.file_size = 0;
  EXPECT_EQ(code(bad), ErrorCode::kDamaged);
  bad = kFooter;
  bad.file_size = kMaxFileBytes + 1;
  EXPECT_EQ(code(bad), ErrorCode::kLimit);
  bad = kFooter;
  bad.index_length = static_cast<uint32_t>(kMaxIndexBytes) + 1;
  EXPECT_EQ(code(bad), ErrorCode::kLimit);
  bad = kFooter;
  bad.index_offset = bad.published_end = kPublishedEndLimit;
  bad.file_size = bad.index_offset + bad.index_length + kFooterBytes;
  EXPECT_EQ(code(bad), ErrorCode::kDamaged);
}

}  // namespace
}  // namespace pcrfs
