#include "format/dataset_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "format/checksum.h"
#include "format/proto/pcrfs.pb.h"

namespace pcrfs {
namespace {

using ::testing::HasSubstr;

ShardRow Row(uint64_t number, bool has_images) {
  ShardRow row;
  row.name = ShardFileName(number, has_images);
  row.part_sizes = {36, 100, 2, 2, 2, 2, 2, 2, 2, 2, 2};
  if (!has_images) row.part_sizes = {23, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  row.index_offset = 1000;
  row.index_length = 52;
  row.index_crc = 0xCAFEBABE;
  row.file_size = 1100;
  row.id.fill(static_cast<uint8_t>(number));
  return row;
}

DatasetIndex Sample() {
  return {.rows = {Row(0, true), Row(2, false), Row(10, true)},
          .labels = {"ant", "bee", "\xff", "Zoo"},
          .pack_options = "order=path\nrecord-bytes=67108864\nrecord-images=256\n",
          .paths_hash = 0x8877665544332211,
          .appends = 3};
}

// `message` with the closing checksum behind it.
Bytes Closed(const wire::DatasetOffsetsIndex& message) {
  const std::string body = message.SerializeAsString();
  ByteWriter writer;
  writer.Append(body);
  writer.U8(0xC5);
  writer.U8(0x77);
  writer.U32(Crc32(AsBytes(body)));
  return writer.Release();
}

wire::DatasetOffsetsIndex Message(const DatasetIndex& index) {
  const Bytes bytes = EncodeDatasetIndex(index).value();
  wire::DatasetOffsetsIndex message;
  EXPECT_TRUE(message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()) - 6));
  return message;
}

TEST(ShardFileNameTest, OnlyExactNamesCount) {
  for (const uint64_t number : {uint64_t{0}, uint64_t{7}, uint64_t{1234567}, kShardNumberLimit - 1})
    for (const bool has_images : {true, false}) {
      const auto parsed = ParseShardFileName(ShardFileName(number, has_images));
      ASSERT_TRUE(parsed.has_value());
      EXPECT_EQ(parsed->number, number);
      EXPECT_EQ(parsed->has_images, has_images);
    }
  for (const char* name :
       {"", "PCR_", "PCR_.pcr", "PCR_00.pcr", "PCR_01.pcr", "PCR_1", "PCR_1.", "PCR_1.pcr ", "PCR_1.PCR", "pcr_1.pcr",
        "PCR_-1.pcr", "PCR_+1.pcr", "PCR_ 1.pcr", "PCR_1.pcr.tmp", "a/PCR_1.pcr", "PCR_4294967296.pcr",
        "PCR_99999999999999999999999.pcr", "PCR_1.file", "PCR_0x1.pcr"})
    EXPECT_FALSE(ParseShardFileName(name).has_value()) << name;
}

TEST(DatasetIndexTest, RoundTrips) {
  for (const DatasetIndex& index : {Sample(), DatasetIndex{}}) {
    const auto bytes = EncodeDatasetIndex(index);
    ASSERT_TRUE(bytes.has_value()) << bytes.error().message;
    const auto decoded = DecodeDatasetIndex(*bytes);
    ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
    EXPECT_EQ(*decoded, index);
  }
}

TEST(DatasetIndexTest, EndsInItsChecksum) {
  const Bytes bytes = EncodeDatasetIndex(Sample()).value();
  EXPECT_EQ(bytes[bytes.size() - 6], 0xC5);
  EXPECT_EQ(bytes[bytes.size() - 5], 0x77);
  EXPECT_EQ(ByteReader(ByteSpan(bytes).last(4)).U32(), Crc32(ByteSpan(bytes).first(bytes.size() - 6)));
  wire::DatasetOffsetsIndex message;
  ASSERT_TRUE(message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  EXPECT_EQ(message.crc32(), Crc32(ByteSpan(bytes).first(bytes.size() - 6))) << "it is field 1912, too";
}

TEST(DatasetIndexTest, SeesEveryFlippedByteAndTruncation) {
  const Bytes good = EncodeDatasetIndex(Sample()).value();
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_EQ(DecodeDatasetIndex(ByteSpan(good).first(i)).error().code, ErrorCode::kDamaged) << i;
    for (int bit = 0; bit < 8; ++bit) {
      Bytes bad = good;
      bad[i] ^= static_cast<uint8_t>(1 << bit);
      EXPECT_EQ(DecodeDatasetIndex(bad).error().code, ErrorCode::kDamaged) << i;
    }
  }
  Bytes longer = good;
  longer.push_back(0);
  EXPECT_FALSE(DecodeDatasetIndex(longer).has_value());
}

TEST(DatasetIndexTest, RefusesWhatBreaksARuleThoughItsChecksumIsRight) {
  const auto damaged = ErrorCode::kDamaged, limit = ErrorCode::kLimit;
  const struct {
    const char* what;
    ErrorCode code;
    std::function<void(wire::DatasetOffsetsIndex&)> change;
  } cases[] = {
      {"version 2", ErrorCode::kUnsupported, [](auto& m) { m.mutable_facts()->set_format_version(2); }},
      {"no version", damaged, [](auto& m) { m.mutable_facts()->clear_format_version(); }},
      {"no facts", damaged, [](auto& m) { m.clear_facts(); }},
      {"no options", damaged, [](auto& m) { m.mutable_facts()->clear_pack_options(); }},
      {"no hash", damaged, [](auto& m) { m.mutable_facts()->clear_paths_hash(); }},
      {"no appends", damaged, [](auto& m) { m.mutable_facts()->clear_appends(); }},
      {"a label twice", damaged, [](auto& m) { m.mutable_facts()->add_labels("ant"); }},
      {"a label that is no name", damaged, [](auto& m) { m.mutable_facts()->add_labels("a/b"); }},
      {"an empty label", damaged, [](auto& m) { m.mutable_facts()->add_labels(""); }},
      {"a name with a path", damaged, [](auto& m) { m.mutable_records(0)->set_name("../PCR_0.pcr"); }},
      {"no name", damaged, [](auto& m) { m.mutable_records(0)->clear_name(); }},
      {"a leading zero", damaged, [](auto& m) { m.mutable_records(0)->set_name("PCR_00.pcr"); }},
      {"rows out of order", damaged, [](auto& m) { m.mutable_records()->SwapElements(0, 2); }},
      {"a row twice", damaged, [](auto& m) { m.mutable_records(2)->set_name("PCR_2.pcr"); }},
      {"a row of the other suffix", damaged, [](auto& m) { m.mutable_records(1)->set_name("PCR_2.pcr"); }},
      {"images in a .files", damaged, [](auto& m) { m.mutable_records(0)->set_name("PCR_0.files"); }},
      {"ten sizes", damaged, [](auto& m) { m.mutable_records(0)->mutable_offsets()->RemoveLast(); }},
      {"twelve sizes", limit, [](auto& m) { m.mutable_records(0)->add_offsets(0); }},
      {"a negative size", damaged, [](auto& m) { m.mutable_records(0)->set_offsets(1, -1); }},
      {"no metadata", damaged, [](auto& m) { m.mutable_records(0)->set_offsets(0, 0); }},
      {"groups beyond the index", damaged, [](auto& m) { m.mutable_records(0)->set_offsets(1, 1000); }},
      {"groups of 2^31", limit, [](auto& m) { m.mutable_records(0)->set_offsets(1, INT32_MAX); }},
      {"no location", damaged, [](auto& m) { m.mutable_records(0)->clear_location(); }},
      {"no index offset", damaged, [](auto& m) { m.mutable_records(0)->mutable_location()->clear_index_offset(); }},
      {"no index length", damaged, [](auto& m) { m.mutable_records(0)->mutable_location()->clear_index_length(); }},
      {"no index checksum", damaged, [](auto& m) { m.mutable_records(0)->mutable_location()->clear_index_crc32(); }},
      {"no file size", damaged, [](auto& m) { m.mutable_records(0)->mutable_location()->clear_file_size(); }},
      {"an id of 15 bytes", damaged,
       [](auto& m) { m.mutable_records(0)->mutable_location()->mutable_shard_id()->pop_back(); }},
      {"another file size", damaged, [](auto& m) { m.mutable_records(0)->mutable_location()->set_file_size(1101); }},
      {"an index at 2^64 - 100", damaged,
       [](auto& m) {
         m.mutable_records(0)->mutable_location()->set_index_offset(UINT64_MAX - 99);
         m.mutable_records(0)->mutable_location()->set_file_size(0);
       }},
      {"a file of 2^43", limit,
       [](auto& m) {
         m.mutable_records(0)->mutable_location()->set_index_offset((uint64_t{1} << 43) - 100);
         m.mutable_records(0)->mutable_location()->set_file_size(uint64_t{1} << 43);
       }},
      {"an index of 2^63", limit,
       [](auto& m) { m.mutable_records(0)->mutable_location()->set_index_length(uint64_t{1} << 63); }},
  };
  for (const auto& c : cases) {
    wire::DatasetOffsetsIndex message = Message(Sample());
    c.change(message);
    const auto decoded = DecodeDatasetIndex(Closed(message));
    ASSERT_FALSE(decoded.has_value()) << c.what;
    EXPECT_EQ(decoded.error().code, c.code) << c.what << ": " << decoded.error().message;
    EXPECT_THAT(decoded.error().message, HasSubstr("PCR_"));
  }
}

TEST(DatasetIndexTest, RefusesTwoDescriptions) {
  wire::DatasetOffsetsIndex second;
  *second.mutable_facts() = Message(Sample()).facts();
  const std::string body = Message(Sample()).SerializeAsString() + second.SerializeAsString();
  ByteWriter writer;
  writer.Append(body);
  writer.Append(Bytes{0xC5, 0x77});
  writer.U32(Crc32(AsBytes(body)));
  EXPECT_EQ(DecodeDatasetIndex(writer.bytes()).error().code, ErrorCode::kDamaged);
}

TEST(DatasetIndexTest, FieldsOfALaterReleaseAreIgnored) {
  const std::string later = "\xFA\x01\x02hi";  // field 31
  wire::DatasetOffsetsIndex message = Message(Sample());
  message.mutable_unknown_fields()->append(later);
  message.mutable_records(0)->mutable_unknown_fields()->append(later);
  message.mutable_facts()->mutable_unknown_fields()->append(later);
  EXPECT_EQ(DecodeDatasetIndex(Closed(message)).value(), Sample());
}

TEST(DatasetIndexTest, APublishedIndexIsNotTakenForOurs) {
  wire::DatasetOffsetsIndex message;
  message.add_records()->set_name("PCR_0.pcr");
  const auto decoded = DecodeDatasetIndex(AsBytes(message.SerializeAsString()));
  ASSERT_FALSE(decoded.has_value());
  EXPECT_THAT(decoded.error().message, HasSubstr("not written by pcrfs"));
}

TEST(DatasetIndexTest, TheEncoderWritesNothingThatItsReaderRefuses) {
  DatasetIndex index = Sample();
  std::swap(index.rows[0], index.rows[1]);
  EXPECT_EQ(EncodeDatasetIndex(index).error().code, ErrorCode::kInvalidArgument);
  index = Sample();
  index.rows[0].part_sizes[3] += uint64_t{1} << 32;  // int32 would lose it
  EXPECT_EQ(EncodeDatasetIndex(index).error().code, ErrorCode::kInvalidArgument);
  index = Sample();
  index.labels.push_back("..");
  EXPECT_EQ(EncodeDatasetIndex(index).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace pcrfs
