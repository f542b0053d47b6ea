#include "format/restore_record.h"

#include <gtest/gtest.h>

#include <functional>

#include "format/checksum.h"
#include "format/proto/pcrfs.pb.h"

namespace pcrfs {
namespace {

RestoreRecord Sample() {
  RestoreRecord record;
  record.segments = {RestoreRecord::MarkerSegment{0},
                     RestoreRecord::MarkerSegment{65535},
                     RestoreRecord::StandardTables::kAllFour,
                     RestoreRecord::Literal{{0xFF, 0xC4, 0x00}},
                     RestoreRecord::EntropyData{},
                     RestoreRecord::StandardTables::kDc1,
                     RestoreRecord::EntropyData{}};
  record.padding_bit = true;
  record.restart_intervals = {0, 65535};
  record.patches = {{0, {1, 2}}, {123456, Bytes(62, 9)}};
  return record;
}

TEST(RestoreRecordTest, RoundTrips) {
  const auto bytes = EncodeRestoreRecord(Sample());
  ASSERT_TRUE(bytes.has_value()) << bytes.error().message;
  const auto decoded = DecodeRestoreRecord(*bytes);
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  EXPECT_EQ(*decoded, Sample());
}

TEST(RestoreRecordTest, EncodesAsTheFormatSays) {
  RestoreRecord record;
  record.segments = {RestoreRecord::MarkerSegment{0}, RestoreRecord::StandardTables::kAllFour,
                     RestoreRecord::Literal{{0xFF}}, RestoreRecord::EntropyData{}};
  record.restart_intervals = {7};
  record.patches = {{258, {0xAB}}};
  EXPECT_EQ(Hex(EncodeRestoreRecord(record).value()),
            "0a020800"    // segment: marker segment 0
            "0a021004"    // segment: the four standard tables
            "0a031a01ff"  // segment: literal
            "0a022001"    // segment: entropy-coded data
            "1000"        // padding bit
            "1807"        // restart interval
            "2206"        // patch:
            "088202"      //   offset
            "1201ab");    //   bytes
}

TEST(RestoreRecordTest, NeverCrashesAndWhatItTakesItCanWrite) {
  const Bytes good = EncodeRestoreRecord(Sample()).value();
  for (size_t i = 0; i < good.size(); ++i) {
    const auto cut = DecodeRestoreRecord(ByteSpan(good).first(i));
    EXPECT_TRUE(!cut || EncodeRestoreRecord(*cut).has_value());
    for (int bit = 0; bit < 8; ++bit) {
      Bytes bad = good;
      bad[i] ^= static_cast<uint8_t>(1 << bit);
      const auto decoded = DecodeRestoreRecord(bad);
      if (!decoded) continue;
      EXPECT_EQ(DecodeRestoreRecord(EncodeRestoreRecord(*decoded).value()).value(), *decoded);
    }
  }
}

TEST(RestoreRecordTest, RefusesWhatItCouldNotApply) {
  const Bytes good = EncodeRestoreRecord(Sample()).value();
  const struct {
    const char* what;
    std::function<void(wire::Restore&)> change;
  } cases[] = {
      {"a segment of no kind", [](wire::Restore& r) { r.add_segments(); }},
      {"a segment of two kinds", [](wire::Restore& r) { r.mutable_segments(0)->set_literal("x"); }},
      {"marker segment too far", [](wire::Restore& r) { r.mutable_segments(0)->set_marker_segment(65536); }},
      {"marker segment beyond 32 bits",
       [](wire::Restore& r) { r.mutable_segments(0)->set_marker_segment(uint64_t{1} << 32); }},
      {"unknown standard tables", [](wire::Restore& r) { r.mutable_segments(2)->set_standard_tables(5); }},
      {"empty literal", [](wire::Restore& r) { r.mutable_segments(3)->set_literal(""); }},
      {"entropy data that is not 1", [](wire::Restore& r) { r.mutable_segments(4)->set_entropy_data(2); }},
      {"a scan without interval", [](wire::Restore& r) { r.add_segments()->set_entropy_data(1); }},
      {"an interval without scan", [](wire::Restore& r) { r.add_restart_intervals(0); }},
      {"an interval beyond 16 bits", [](wire::Restore& r) { r.set_restart_intervals(0, 65536); }},
      {"no scan at all", [](wire::Restore& r) { r.clear_segments(), r.clear_restart_intervals(); }},
      {"no padding bit", [](wire::Restore& r) { r.clear_padding_bit(); }},
      {"padding bit 2", [](wire::Restore& r) { r.set_padding_bit(2); }},
      {"an empty patch", [](wire::Restore& r) { r.mutable_patches(0)->set_data(""); }},
      {"a patch without offset", [](wire::Restore& r) { r.mutable_patches(0)->clear_offset(); }},
      {"a patch beyond any file", [](wire::Restore& r) { r.mutable_patches(0)->set_offset(UINT64_MAX); }},
      {"65 bytes of patches", [](wire::Restore& r) { r.mutable_patches(0)->set_data("123"); }},
  };
  for (const auto& c : cases) {
    wire::Restore message;
    ASSERT_TRUE(message.ParseFromArray(good.data(), static_cast<int>(good.size())));
    c.change(message);
    const auto decoded = DecodeRestoreRecord(AsBytes(message.SerializeAsString()));
    ASSERT_FALSE(decoded.has_value()) << c.what;
    EXPECT_EQ(decoded.error().code, ErrorCode::kDamaged) << c.what;
  }
}

TEST(RestoreRecordTest, RefusesSegmentsOfALaterKind) {
  const Bytes good = EncodeRestoreRecord(Sample()).value();
  for (const Bytes& segment : {Bytes{0x0A, 0x02, 0x28, 0x01},                       // field 5
                               Bytes{0x0A, 0x04, 0x20, 0x01, 0x28, 0x01},           // entropy data and field 5
                               Bytes{0x0A, 0x04, 0x20, 0x01, 0x20, 0x01},           // twice
                               Bytes{0x0A, 0x05, 0x0D, 0x00, 0x00, 0x00, 0x00}}) {  // field 1, but fixed32
    Bytes bad = good;
    bad.insert(bad.end(), segment.begin(), segment.end());
    const auto decoded = DecodeRestoreRecord(bad);
    ASSERT_FALSE(decoded.has_value()) << Hex(segment);
    EXPECT_EQ(decoded.error().code, ErrorCode::kDamaged);
  }
  Bytes extended = good;  // a field of a later release beside the segments is ignored
  extended.insert(extended.end(), {0x78, 0x01});
  EXPECT_EQ(DecodeRestoreRecord(extended).value(), Sample());
}

TEST(RestoreRecordTest, KeepsToTheLimits) {
  EXPECT_EQ(DecodeRestoreRecord(Bytes(kMaxRestoreBytes + 1)).error().code, ErrorCode::kLimit);
  Bytes segments;
  for (size_t i = 0; i <= kMaxRestoreSegments; ++i) segments.insert(segments.end(), {0x0A, 0x00});
  EXPECT_EQ(DecodeRestoreRecord(segments).error().code, ErrorCode::kLimit);
  RestoreRecord record = Sample();
  record.segments.insert(record.segments.end(), RestoreRecord::Literal{Bytes(kMaxRestoreBytes)});
  EXPECT_EQ(EncodeRestoreRecord(record).error().code, ErrorCode::kLimit);
  record = Sample();
  record.restart_intervals.pop_back();
  EXPECT_EQ(EncodeRestoreRecord(record).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace pcrfs
