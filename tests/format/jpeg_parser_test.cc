#include "format/jpeg_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/jpeg_surgery.h"
#include "tests/support/test_jpeg.h"

namespace pcrfs {
namespace {

using ::testing::HasSubstr;
using testing::InsertAt;
using testing::MakeJpeg;
using testing::Segment;
using testing::TestJpeg;

// The smallest thing that the parser takes for a JPEG: one component, one scan of two bytes of "data".
Bytes Smallest() {
  return {0xFF, 0xD8,  // SOI
          0xFF, 0xC0, 0, 11, 8, 0, 8, 0, 16, 1, 7,
          0x21, 3,  // 16x8, component 7, 2x1, table 3
          0xFF, 0xDA, 0, 8,  1, 7, 0, 0, 63, 0, /* entropy-coded: */ 0x12,
          0x34,  // Ss 0, Se 63, Ah 0, Al 0
          0xFF, 0xD9};
}

ErrorCode CodeOf(ByteSpan bytes) {
  const Result<JpegStructure> parsed = ParseJpeg(bytes);
  EXPECT_FALSE(parsed.has_value());
  return parsed ? ErrorCode::kIo : parsed.error().code;
}

TEST(JpegParserTest, ReadsFrameScanAndExtents) {
  const Bytes jpeg = Smallest();
  const Result<JpegStructure> parsed = ParseJpeg(jpeg);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->frame.marker, jpeg_marker::kSof0);
  EXPECT_EQ(parsed->frame.precision, 8);
  EXPECT_EQ(parsed->frame.width, 16);
  EXPECT_EQ(parsed->frame.height, 8);
  ASSERT_EQ(parsed->frame.components.size(), 1u);
  EXPECT_EQ(parsed->frame.components[0].id, 7);
  EXPECT_EQ(parsed->frame.components[0].h, 2);
  EXPECT_EQ(parsed->frame.components[0].v, 1);
  EXPECT_EQ(parsed->frame.components[0].quant_table, 3);
  ASSERT_EQ(parsed->scans.size(), 1u);
  const JpegScan& scan = parsed->scans[0];
  EXPECT_EQ(scan.header.component_count, 1);
  EXPECT_EQ(scan.header.components[0], 0);
  EXPECT_EQ(scan.header.Se, 63);
  EXPECT_EQ(scan.begin, 0u);
  EXPECT_EQ(scan.entropy, 25u);
  EXPECT_EQ(scan.end, 27u);
  EXPECT_EQ(parsed->eoi, 27u);
  ASSERT_EQ(parsed->segments.size(), 2u);
  EXPECT_EQ(parsed->segments[1].marker, jpeg_marker::kSos);
  EXPECT_EQ(parsed->segments[1].offset, 15u);
  EXPECT_EQ(parsed->segments[1].size, 10u);
}

TEST(JpegParserTest, ProgressiveScansCarryTheirHeaders) {
  const Bytes jpeg = MakeJpeg({.progressive = true});
  const Result<JpegStructure> parsed = ParseJpeg(jpeg);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_TRUE(parsed->frame.progressive());
  ASSERT_EQ(parsed->scans.size(), 10u);
  EXPECT_EQ(parsed->scans[0].header.component_count, 3);
  EXPECT_EQ(parsed->scans[0].header.Al, 1);
  const ScanHeader& red = parsed->scans[2].header;
  EXPECT_EQ(red.components[0], 2);
  EXPECT_EQ(red.Ss, 1);
  EXPECT_EQ(red.Se, 63);
  EXPECT_EQ(parsed->scans[9].header.Ah, 1);
  EXPECT_EQ(parsed->scans[9].end, parsed->eoi);
  for (size_t i = 1; i < 10; ++i) EXPECT_EQ(parsed->scans[i].begin, parsed->scans[i - 1].end);
}

TEST(JpegParserTest, StuffingAndRestartMarkersBelongToTheScan) {
  Bytes jpeg = Smallest();
  InsertAt(jpeg, 27, {0xFF, 0x00, 0x55, 0xFF, 0xD0, 0xFF, 0xFF, 0x00, 0xFF, 0xD7});
  const Result<JpegStructure> parsed = ParseJpeg(jpeg);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->scans[0].end, 37u);
  EXPECT_EQ(parsed->eoi, 37u);
}

TEST(JpegParserTest, FillBeforeAMarkerStaysWithTheEarlierScan) {
  Bytes jpeg = Smallest();
  InsertAt(jpeg, 27, {0xFF, 0xFF, 0xFF});
  InsertAt(jpeg, 2, {0xFF, 0xFF});
  const Result<JpegStructure> parsed = ParseJpeg(jpeg);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->segments[0].offset, 4u);
  EXPECT_EQ(parsed->scans[0].end, 32u);
  EXPECT_EQ(parsed->eoi, 32u);
}

TEST(JpegParserTest, SegmentsBehindTheLastScanAreListed) {
  Bytes jpeg = Smallest();
  InsertAt(jpeg, 27, Segment(jpeg_marker::kCom, "late"));
  InsertAt(jpeg, 27, Segment(jpeg_marker::kDnl, std::string_view("\0\x08", 2)));
  const Result<JpegStructure> parsed = ParseJpeg(jpeg);
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->segments.size(), 4u);
  EXPECT_EQ(parsed->segments[2].marker, jpeg_marker::kDnl);
  EXPECT_EQ(parsed->segments[3].marker, jpeg_marker::kCom);
  EXPECT_EQ(parsed->scans[0].end, 27u);
  EXPECT_EQ(parsed->eoi, jpeg.size() - 2);
}

TEST(JpegParserTest, NothingBehindEoiCounts) {
  Bytes jpeg = Smallest();
  const Bytes other = MakeJpeg({.progressive = true});
  jpeg.insert(jpeg.end(), other.begin(), other.end());
  const Result<JpegStructure> parsed = ParseJpeg(jpeg);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->scans.size(), 1u);
  EXPECT_EQ(parsed->eoi, 27u);
}

TEST(JpegParserTest, JpegsInsideSegmentsCountForNothing) {
  const Bytes thumbnail = MakeJpeg({.width = 16, .height = 16});
  const Bytes jpeg = MakeJpeg({.markers = {{jpeg_marker::kApp0 + 1, thumbnail}}});
  const Result<JpegStructure> parsed = ParseJpeg(jpeg);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->scans.size(), 1u);
  EXPECT_EQ(parsed->frame.width, 160);
}

TEST(JpegParserTest, RepeatedComponentIdsStandForTheFirst) {
  Bytes jpeg = {0xFF, 0xD8, 0xFF, 0xC0, 0,  14, 8, 0, 8, 0, 8, 2,  1, 0x11, 0,    1,   0x11,
                0,    0xFF, 0xDA, 0,    10, 2,  1, 0, 1, 0, 0, 63, 0, 0x12, 0xFF, 0xD9};
  const Result<JpegStructure> parsed = ParseJpeg(jpeg);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->scans[0].header.components[0], 0);
  EXPECT_EQ(parsed->scans[0].header.components[1], 0);
}

TEST(JpegParserTest, RefusesWhatIsNoJpeg) {
  EXPECT_EQ(CodeOf({}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(Bytes{0xFF}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(AsBytes("\x89PNG")), ErrorCode::kInvalidArgument);
}

TEST(JpegParserTest, EveryTruncationIsAnErrorWithAnOffset) {
  const Bytes jpeg = MakeJpeg({.width = 32, .height = 24, .progressive = true});
  ASSERT_TRUE(ParseJpeg(jpeg));
  for (size_t size = 2; size < jpeg.size(); ++size) {
    const Bytes cut(jpeg.begin(), jpeg.begin() + static_cast<std::ptrdiff_t>(size));
    const Result<JpegStructure> parsed = ParseJpeg(cut);
    ASSERT_FALSE(parsed) << size;
    EXPECT_EQ(parsed.error().code, ErrorCode::kDamaged) << size;
    EXPECT_THAT(parsed.error().message, HasSubstr("offset")) << size;
  }
}

TEST(JpegParserTest, EveryFlippedByteLeavesExtentsInsideTheFile) {
  const Bytes jpeg = MakeJpeg({.width = 32, .height = 24, .progressive = true});
  for (size_t i = 0; i < jpeg.size(); ++i) {
    Bytes changed = jpeg;
    changed[i] ^= 0xFF;
    const Result<JpegStructure> parsed = ParseJpeg(changed);
    if (!parsed) continue;
    size_t at = 0;
    for (const JpegScan& scan : parsed->scans) {
      ASSERT_EQ(scan.begin, at);
      ASSERT_LT(scan.begin, scan.entropy);
      ASSERT_LE(scan.entropy, scan.end);
      at = scan.end;
    }
    ASSERT_LE(at, parsed->eoi);
    ASSERT_LE(parsed->eoi + 2, changed.size());
  }
}

struct Refusal {
  const char* name;
  Bytes (*make)();
  ErrorCode code;
};

class JpegParserRefusalTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(JpegParserRefusalTest, Refuses) { EXPECT_EQ(CodeOf(GetParam().make()), GetParam().code); }

Bytes SmallestWith(size_t offset, uint8_t value) {
  Bytes jpeg = Smallest();
  jpeg[offset] = value;
  return jpeg;
}

Bytes SmallestInserted(size_t offset, const Bytes& bytes) {
  Bytes jpeg = Smallest();
  InsertAt(jpeg, offset, bytes);
  return jpeg;
}

INSTANTIATE_TEST_SUITE_P(
    All, JpegParserRefusalTest,
    ::testing::Values(Refusal{"NoScan",
                              [] {
                                return Bytes{0xFF, 0xD8, 0xFF, 0xD9};
                              },
                              ErrorCode::kDamaged},
                      Refusal{"ScanBeforeFrame", [] { return SmallestWith(3, 0xFE); }, ErrorCode::kDamaged},
                      Refusal{"TwoFrames",
                              [] {
                                const Bytes jpeg = Smallest();
                                return SmallestInserted(15, Bytes(jpeg.begin() + 2, jpeg.begin() + 15));
                              },
                              ErrorCode::kDamaged},
                      Refusal{"SecondSoi",
                              [] {
                                return SmallestInserted(2, {0xFF, 0xD8});
                              },
                              ErrorCode::kDamaged},
                      Refusal{"GarbageBetweenSegments", [] { return SmallestInserted(15, {0x00}); },
                              ErrorCode::kDamaged},
                      Refusal{"StuffingBetweenSegments",
                              [] {
                                return SmallestInserted(15, {0xFF, 0x00});
                              },
                              ErrorCode::kDamaged},
                      Refusal{"ReservedMarker",
                              [] {
                                return SmallestInserted(15, {0xFF, 0x02, 0, 2});
                              },
                              ErrorCode::kDamaged},
                      Refusal{"LengthOfOne",
                              [] {
                                return SmallestInserted(15, {0xFF, 0xFE, 0, 1});
                              },
                              ErrorCode::kDamaged},
                      Refusal{"SegmentPastTheEnd",
                              [] {
                                return SmallestInserted(15, {0xFF, 0xE5, 0xFF, 0xFF});
                              },
                              ErrorCode::kDamaged},
                      Refusal{"FrameWithoutComponents", [] { return SmallestWith(11, 0); }, ErrorCode::kDamaged},
                      Refusal{"FrameOfOtherLength", [] { return SmallestWith(11, 2); }, ErrorCode::kDamaged},
                      Refusal{"NoWidth", [] { return SmallestWith(10, 0); }, ErrorCode::kDamaged},
                      Refusal{"SamplingZero", [] { return SmallestWith(13, 0x01); }, ErrorCode::kDamaged},
                      Refusal{"SamplingFive", [] { return SmallestWith(13, 0x15); }, ErrorCode::kDamaged},
                      Refusal{"ScanWithoutComponents", [] { return SmallestWith(19, 0); }, ErrorCode::kDamaged},
                      Refusal{"ScanOfUnknownComponent", [] { return SmallestWith(20, 8); }, ErrorCode::kDamaged},
                      Refusal{"BandEndsBeforeItBegins", [] { return SmallestWith(22, 64); }, ErrorCode::kDamaged},
                      Refusal{"BandPastTheBlock", [] { return SmallestWith(23, 64); }, ErrorCode::kDamaged},
                      Refusal{"BitsOutOfRange", [] { return SmallestWith(24, 14); }, ErrorCode::kDamaged},
                      Refusal{"Lossless", [] { return SmallestWith(3, 0xC3); }, ErrorCode::kUnsupported},
                      Refusal{"Differential", [] { return SmallestWith(3, 0xC5); }, ErrorCode::kUnsupported},
                      Refusal{"JpegLs", [] { return SmallestWith(3, 0xF7); }, ErrorCode::kUnsupported},
                      Refusal{"Hierarchical",
                              [] {
                                return SmallestInserted(2, {0xFF, 0xDE, 0, 2});
                              },
                              ErrorCode::kUnsupported}),
    [](const auto& case_info) { return case_info.param.name; });

// Anything worse than linear would take hours here.
TEST(JpegParserTest, LongRunsAreWalkedOverOnce) {
  constexpr size_t kRun = size_t{1} << 23;
  Bytes stuffing(kRun, 0xFF), restarts(kRun, 0xFF);
  for (size_t i = 1; i < kRun; i += 2) stuffing[i] = 0, restarts[i] = jpeg_marker::kRst0;
  for (const Bytes& run : {Bytes(kRun, 0xFF), stuffing, restarts}) {
    const Bytes jpeg = SmallestInserted(27, run);
    const Result<JpegStructure> parsed = ParseJpeg(jpeg);
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed->eoi, 27 + kRun);
  }
  EXPECT_TRUE(ParseJpeg(SmallestInserted(2, Bytes(kRun, 0xFF))));
}

TEST(JpegParserTest, SegmentsAreBounded) {
  Bytes jpeg = Smallest();
  Bytes many;
  for (size_t i = 0; i < kMaxJpegSegments; ++i) many.insert(many.end(), {0xFF, 0xFE, 0, 2});
  InsertAt(jpeg, 2, many);
  EXPECT_EQ(CodeOf(jpeg), ErrorCode::kLimit);
}

}  // namespace
}  // namespace pcrfs
