#include "format/bytes.h"

#include <gtest/gtest.h>

namespace pcrfs {
namespace {

TEST(ByteReaderTest, ReadsWhatByteWriterWrote) {
  ByteWriter writer;
  writer.U8(0xAB);
  writer.U16(0x1234);
  writer.U32(0xDEADBEEF);
  writer.U64(0x0123456789ABCDEF);
  writer.Append(std::string_view("tail"));
  EXPECT_EQ(writer.bytes()[1], 0x34) << "little-endian";

  ByteReader reader(writer.bytes());
  EXPECT_EQ(reader.U8(), 0xAB);
  EXPECT_EQ(reader.U16(), 0x1234);
  EXPECT_EQ(reader.U32(), 0xDEADBEEF);
  EXPECT_EQ(reader.U64(), 0x0123456789ABCDEF);
  EXPECT_EQ(AsText(reader.Take(4)), "tail");
  EXPECT_EQ(reader.remaining(), 0u);
  EXPECT_TRUE(reader.ok());
}

TEST(ByteReaderTest, StaysFailedAfterReadingPastTheEnd) {
  const Bytes bytes = {1, 2, 3};
  ByteReader reader(bytes);
  EXPECT_EQ(reader.U32(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.U8(), 0u) << "a failed reader gives nothing more";
  EXPECT_TRUE(reader.Take(0).empty());
  EXPECT_FALSE(reader.ok());
}

TEST(ByteReaderTest, RefusesHugeLengths) {
  const Bytes bytes = {1, 2, 3};
  ByteReader reader(bytes);
  reader.U8();
  EXPECT_TRUE(reader.Take(UINT64_MAX).empty());
  EXPECT_FALSE(reader.ok());
}

TEST(ByteReaderTest, RoundTripsVarintsOfEverySize) {
  for (unsigned shift = 0; shift < 64; ++shift)
    for (const uint64_t value : {uint64_t{1} << shift, (uint64_t{1} << shift) - 1, ~uint64_t{0} >> shift}) {
      ByteWriter writer;
      writer.Varint(value);
      EXPECT_EQ(writer.size(), VarintSize(value));
      ByteReader reader(writer.bytes());
      EXPECT_EQ(reader.Varint(), value);
      EXPECT_TRUE(reader.ok());
      EXPECT_EQ(reader.remaining(), 0u);
      for (size_t cut = 0; cut < writer.size(); ++cut) {
        ByteReader short_reader(ByteSpan(writer.bytes()).first(cut));
        short_reader.Varint();
        EXPECT_FALSE(short_reader.ok());
      }
    }
}

TEST(ByteReaderTest, RefusesVarintsThatOverflow) {
  const Bytes too_big = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02};
  ByteReader big(too_big);
  big.Varint();
  EXPECT_FALSE(big.ok());
  const Bytes too_long = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00};
  ByteReader endless(too_long);
  endless.Varint();
  EXPECT_FALSE(endless.ok());
}

}  // namespace
}  // namespace pcrfs
