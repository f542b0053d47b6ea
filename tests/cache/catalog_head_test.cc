#include "cache/catalog_head.h"

#include <gtest/gtest.h>

#include "format/checksum.h"
#include "tests/support/test_shard_index.h"

namespace pcrfs {
namespace {

CatalogHead SampleHead() {
  CatalogHead head;
  head.file_size = 40'000'000;
  head.file_crcs = {1, 0xFFFFFFFF, 3};
  head.totals = {100, 20, 3, 124, 2, {1000, 2000}, 2500};
  head.shards = {{"PCR_0.pcr", 77, -5, {1, 2, 3}}, {"PCR_17.files", 88, 1'600'000'000'123'456'789, {}}};
  return head;
}

TEST(CatalogHeadTest, RoundTrips) {
  const CatalogHead head = SampleHead();
  const auto decoded = DecodeCatalogHead(EncodeCatalogHead(head));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, head);
}

TEST(CatalogHeadTest, RefusesEveryTruncation) {
  const Bytes bytes = EncodeCatalogHead(SampleHead());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto decoded = DecodeCatalogHead(ByteSpan(bytes).first(size));
    ASSERT_FALSE(decoded) << size;
    EXPECT_EQ(decoded.error().code, ErrorCode::kDamaged);
  }
}

TEST(CatalogHeadTest, RefusesEveryFlippedByte) {
  const Bytes bytes = EncodeCatalogHead(SampleHead());
  for (size_t at = 0; at < bytes.size(); ++at) {
    Bytes damaged = bytes;
    damaged[at] ^= 0x10;
    EXPECT_FALSE(DecodeCatalogHead(damaged)) << at;
  }
}

// With its CRC made right again: what a careless program, not an accident, would leave.
TEST(CatalogHeadTest, SurvivesNonsenseUnderARightCrc) {
  const Bytes bytes = EncodeCatalogHead(SampleHead());
  for (size_t at = 8; at + 4 < bytes.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xFF}) {
      Bytes damaged(bytes.begin(), bytes.end() - 4);
      damaged[at] = static_cast<uint8_t>(damaged[at] ^ flip);
      ByteWriter crc;
      crc.U32(Crc32(damaged));
      damaged.insert(damaged.end(), crc.bytes().begin(), crc.bytes().end());
      const auto decoded = DecodeCatalogHead(damaged);
      if (decoded) {
        EXPECT_EQ(static_cast<size_t>(decoded->totals.levels), decoded->totals.level_bytes.size());
      }
    }
  }
}

TEST(CatalogHeadTest, TellsAnotherVersionFromDamage) {
  Bytes bytes = EncodeCatalogHead(SampleHead());
  bytes.resize(bytes.size() - 4);
  bytes[8] = 0x7F;
  ByteWriter crc;
  crc.U32(Crc32(bytes));
  bytes.insert(bytes.end(), crc.bytes().begin(), crc.bytes().end());
  const auto decoded = DecodeCatalogHead(bytes);
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code, ErrorCode::kUnsupported);
}

TEST(CatalogHeadTest, CoversEveryByteOfTheCatalogFile) {
  const Bytes bytes = testing::RandomBytes((uint64_t{33} << 20) + 5, 1);
  const auto crcs = CatalogFileCrcs(MemorySource("catalog", bytes));
  ASSERT_TRUE(crcs);
  ASSERT_EQ(crcs->size(), 3u);
  EXPECT_EQ((*crcs)[0], Crc32(ByteSpan(bytes).first(size_t{16} << 20)));
  EXPECT_EQ((*crcs)[2], Crc32(ByteSpan(bytes).subspan(size_t{32} << 20)));
  EXPECT_TRUE(CatalogFileCrcs(MemorySource("empty", {}))->empty());
}

}  // namespace
}  // namespace pcrfs
