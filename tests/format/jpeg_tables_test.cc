#include "format/jpeg_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/jpeg_surgery.h"
#include "tests/support/test_jpeg.h"

namespace pcrfs {
namespace {

using ::testing::HasSubstr;
using testing::MakeJpeg;
using testing::SegmentOffset;

Bytes CountsWith(size_t length, uint8_t count) {
  Bytes table(17, 0);
  table[length] = count;
  return table;
}

TEST(JpegTablesTest, TheStandardTablesAreThoseOfLibjpeg) {
  const Bytes jpeg = MakeJpeg({});  // with four DHT segments
  Bytes all = {0xFF, 0xC4, 0, 0};
  for (size_t kind = 0; kind < 4; ++kind) {
    const ByteSpan segment = StandardTableSegment(kind);
    const size_t offset = SegmentOffset(jpeg, jpeg_marker::kDht, kind);
    EXPECT_TRUE(std::ranges::equal(segment, ByteSpan(jpeg).subspan(offset, segment.size()))) << kind;
    testing::Append(all, segment.subspan(4));
  }
  all[2] = static_cast<uint8_t>((all.size() - 2) >> 8), all[3] = static_cast<uint8_t>((all.size() - 2) & 0xFF);
  EXPECT_TRUE(std::ranges::equal(all, StandardTableSegment(4)));
}

TEST(JpegTablesTest, CodesAreThoseOfTheStandard) {
  const CodingTables tables;
  ASSERT_NE(tables.dc(0), nullptr);
  EXPECT_EQ(tables.dc(2), nullptr) << "only 0 and 1 have a standard table";
  EXPECT_EQ(tables.dc(4), nullptr);
  // T.81 tables K.3 and K.5
  EXPECT_EQ(tables.dc(0)->of_symbol[0].bits, 0b00);
  EXPECT_EQ(tables.dc(0)->of_symbol[0].length, 2);
  EXPECT_EQ(tables.dc(0)->of_symbol[11].bits, 0b111111110);
  EXPECT_EQ(tables.dc(0)->of_symbol[12].length, 0);
  EXPECT_EQ(tables.ac(0)->of_symbol[0x00].bits, 0b1010);
  EXPECT_EQ(tables.ac(0)->of_symbol[0xFA].bits, 0xFFFE);
}

TEST(JpegTablesTest, ALaterDefinitionCounts) {
  CodingTables tables;
  Bytes one = CountsWith(1, 1), other = CountsWith(2, 1);
  one.push_back(7), other.push_back(7);
  testing::Append(one, other);  // the same table twice in one segment
  ASSERT_TRUE(tables.ReadDht(one));
  EXPECT_EQ(tables.dc(0)->of_symbol[7].length, 2);
  EXPECT_EQ(tables.dc(0)->of_symbol[0].length, 0) << "the standard table is no longer there";
  EXPECT_EQ(tables.ac(0)->of_symbol[0x00].length, 4) << "that one is";
}

TEST(JpegTablesTest, WrongSegmentsAreRefused) {
  CodingTables tables;
  Bytes lacks_symbols = CountsWith(3, 2), third_class = CountsWith(1, 0), fifth = CountsWith(1, 0),
        crowded = CountsWith(1, 3);
  third_class[0] = 0x20, fifth[0] = 0x04;
  crowded.resize(20);
  for (const Bytes& content : {Bytes(16, 0), lacks_symbols, third_class, fifth, crowded}) {
    EXPECT_FALSE(tables.ReadDht(content));
  }
  Bytes too_many(17, 255);
  too_many[0] = 0;
  too_many.resize(5000);
  EXPECT_THAT(tables.ReadDht(too_many).error().message, HasSubstr("4080 codes"));
  for (const Bytes& content : {Bytes{0}, Bytes{0x20, 0}, Bytes{0, 0x01}, Bytes{0x10, 0}, Bytes{0x10, 64}}) {
    EXPECT_FALSE(tables.ReadDac(content));
  }
}

TEST(JpegTablesTest, ConditioningIsSetByNumber) {
  CodingTables tables;
  ASSERT_TRUE(tables.ReadDac(Bytes{0x02, 0x31, 0x1F, 9}));
  EXPECT_EQ(tables.conditioning()[2].dc_lower, 1);
  EXPECT_EQ(tables.conditioning()[2].dc_upper, 3);
  EXPECT_EQ(tables.conditioning()[15].ac, 9);
  EXPECT_EQ(tables.conditioning()[0].dc_lower, 0);
  EXPECT_EQ(tables.conditioning()[0].dc_upper, 1);
  EXPECT_EQ(tables.conditioning()[0].ac, 5);
}

}  // namespace
}  // namespace pcrfs
