#include "format/checksum.h"

#include <gtest/gtest.h>

namespace pcrfs {
namespace {

TEST(ChecksumTest, CrcIsThatOfGzip) {
  EXPECT_EQ(Crc32(AsBytes("123456789")), 0xCBF43926u);
  EXPECT_EQ(Crc32(AsBytes("6789"), Crc32(AsBytes("12345"))), 0xCBF43926u);
  EXPECT_EQ(Crc32({}), 0u);
  EXPECT_EQ(CrcText(Crc32(AsBytes("123456789"))), "cbf43926");
}

TEST(ChecksumTest, OneCrcForEachBlock) {
  Bytes bytes(2 * kChecksumBlock + 1, 7);
  bytes.back() = 9;
  const auto crcs = BlockCrcs(bytes);
  ASSERT_EQ(crcs.size(), BlockCount(bytes.size()));
  ASSERT_EQ(crcs.size(), 3u);
  EXPECT_EQ(crcs[0], Crc32(Bytes(kChecksumBlock, 7)));
  EXPECT_EQ(crcs[1], crcs[0]);
  EXPECT_EQ(crcs[2], Crc32(Bytes{9}));
  EXPECT_TRUE(BlockCrcs({}).empty());
  EXPECT_EQ(BlockCrcs(ByteSpan(bytes).first(kChecksumBlock)).size(), 1u);
}

TEST(ChecksumTest, BlockCountDoesNotOverflow) {
  EXPECT_EQ(BlockCount(0), 0u);
  EXPECT_EQ(BlockCount(UINT64_MAX), UINT64_MAX / kChecksumBlock + 1);
}

TEST(ChecksumTest, Sha256OfAbc) {
  EXPECT_EQ(Hex(Sha256::Of(AsBytes("abc"))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 sha;
  sha.Update(AsBytes("a"));
  sha.Update(AsBytes("bc"));
  EXPECT_EQ(sha.Finish(), Sha256::Of(AsBytes("abc")));
}

}  // namespace
}  // namespace pcrfs
