#include "format/protobuf.h"

#include <gtest/gtest.h>

#include "format/checksum.h"
#include "format/proto/pcrfs.pb.h"

namespace pcrfs {
namespace {

TEST(FieldScannerTest, SeesEveryKindOfField) {
  const Bytes message = {0x08, 0x96, 0x01,                        // 1: varint 150
                         0x11, 1,    0,    0,   0,   0, 0, 0, 0,  // 2: fixed64
                         0x1A, 0x03, 'a',  'b', 'c',              // 3: bytes
                         0x25, 7,    0,    0,   0,                // 4: fixed32
                         0xBA, 0x77, 0x00};                       // 1911: no bytes
  FieldScanner scanner(message);
  Field field;
  ASSERT_TRUE(scanner.Next(field));
  EXPECT_EQ(field.number, 1u);
  EXPECT_EQ(field.value, 150u);
  ASSERT_TRUE(scanner.Next(field));
  EXPECT_EQ(field.type, WireType::kFixed64);
  ASSERT_TRUE(scanner.Next(field));
  EXPECT_EQ(AsText(field.content), "abc");
  ASSERT_TRUE(scanner.Next(field));
  EXPECT_EQ(field.type, WireType::kFixed32);
  ASSERT_TRUE(scanner.Next(field));
  EXPECT_EQ(field.number, 1911u);
  EXPECT_FALSE(scanner.Next(field));
  EXPECT_TRUE(scanner.ok());

  for (size_t size = 0; size < message.size(); ++size) {
    FieldScanner cut(ByteSpan(message).first(size));
    size_t seen = 0;
    while (cut.Next(field)) ++seen;
    const bool at_a_border = size == 0 || size == 3 || size == 12 || size == 17 || size == 22;
    EXPECT_EQ(cut.ok(), at_a_border) << size;
  }
}

TEST(FieldScannerTest, RefusesWhatNoMessageOfOursHas) {
  const Bytes hostile[] = {
      {0x00, 0x00},                                                        // field 0
      {0x0B, 0x0C},                                                        // a group
      {0x0E},                                                              // wire type 6
      {0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01},  // 2^64 - 1 bytes
      {0x80, 0x80, 0x80, 0x80, 0x10, 0x00},                                // field 2^29
      {0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F},  // more than 64 bits
  };
  for (const Bytes& message : hostile) {
    FieldScanner scanner(message);
    Field field;
    while (scanner.Next(field)) {
    }
    EXPECT_FALSE(scanner.ok()) << Hex(message);
    const auto counted = CheckFieldCounts(message, "it", {});
    ASSERT_FALSE(counted.has_value());
    EXPECT_EQ(counted.error().code, ErrorCode::kDamaged);
  }
}

TEST(CheckFieldCountsTest, CountsPackedAndUnpackedAlike) {
  const Bytes message = {0x22, 0x03, 0x01, 0x80, 0x01,   // 4: packed 1, 128
                         0x20, 0x05,                     // 4: 5
                         0x2A, 0x00, 0x2A, 0x01, 0x80};  // 5: twice
  EXPECT_TRUE(CheckFieldCounts(message, "it", {{4, 3, true}, {5, 2}}).has_value());
  const auto many = CheckFieldCounts(message, "it", {{4, 2, true}});
  ASSERT_FALSE(many.has_value());
  EXPECT_EQ(many.error().code, ErrorCode::kLimit);
  EXPECT_FALSE(CheckFieldCounts(message, "it", {{5, 1}}).has_value());
}

TEST(SerializeMessageTest, KeepsToTheLimit) {
  wire::Blob blob;
  blob.set_crcs(std::string(100, 'x'));
  EXPECT_EQ(SerializeMessage(blob, "blob", 102)->size(), 102u);
  const auto large = SerializeMessage(blob, "blob", 101);
  ASSERT_FALSE(large.has_value());
  EXPECT_EQ(large.error().code, ErrorCode::kLimit);
}

}  // namespace
}  // namespace pcrfs
