#include "format/jpeg_proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/support/jpeg_surgery.h"
#include "tests/support/test_jpeg.h"

namespace pcrfs {
namespace {

using testing::FrameOffset;
using ::testing::HasSubstr;
using testing::MakeJpeg;
using testing::SegmentOffset;
using testing::StructureOf;
using testing::TestJpeg;

constexpr uint8_t kApp1 = jpeg_marker::kApp0 + 1;

TestJpeg Spec() { return {.width = 40, .height = 32, .markers = {{kApp1, {1, 2, 3}}, {jpeg_marker::kCom, {4, 5}}}}; }

Result<ProgressiveJpeg> Convert(ByteSpan source) {
  const Result<JpegCoefficients> coefficients = JpegCoefficients::Read(source);
  if (!coefficients) return tl::unexpected<Error>(coefficients.error());
  return ConvertToProgressive(source, StructureOf(source), *coefficients);
}

// The proof's answer for a source and its converted form after `tamper` had its way with the latter.
Result<JpegStructure> Prove(const std::function<void(Bytes&)>& tamper) {
  const Bytes source = MakeJpeg(Spec());
  Result<ProgressiveJpeg> converted = Convert(source);
  EXPECT_TRUE(converted);
  tamper(converted->bytes);
  return ProveConversion(source, StructureOf(source), *converted);
}

void ExpectRefused(const std::function<void(Bytes&)>& tamper, const char* what) {
  const Result<JpegStructure> proof = Prove(tamper);
  ASSERT_FALSE(proof) << what;
  EXPECT_EQ(proof.error().code, ErrorCode::kDamaged);
  EXPECT_THAT(proof.error().message, HasSubstr(what));
}

void RenameFirstComponent(Bytes& jpeg, uint8_t id) {
  const JpegStructure structure = StructureOf(jpeg);
  jpeg[FrameOffset(jpeg) + 10] = id;
  for (const JpegSegment& segment : structure.segments)
    if (segment.marker == jpeg_marker::kSos && jpeg[segment.offset + 5] == 1) jpeg[segment.offset + 5] = id;
}

TEST(JpegProofTest, HoldsForARightConversion) {
  const Result<JpegStructure> proof = Prove([](Bytes&) {});
  ASSERT_TRUE(proof) << proof.error().message;
  EXPECT_EQ(proof->scans.size(), 10u);
}

TEST(JpegProofTest, SeesChangedMarkers) {
  ExpectRefused([](Bytes& jpeg) { jpeg[SegmentOffset(jpeg, kApp1) + 4] ^= 1; }, "APPn or COM");
  ExpectRefused(
      [](Bytes& jpeg) {
        const auto at = jpeg.begin() + static_cast<std::ptrdiff_t>(SegmentOffset(jpeg, jpeg_marker::kCom));
        jpeg.erase(at, at + 6);
      },
      "APPn or COM");
  ExpectRefused(
      [](Bytes& jpeg) {
        const auto at = jpeg.begin() + static_cast<std::ptrdiff_t>(SegmentOffset(jpeg, kApp1));
        std::rotate(at, at + 7, at + 13);  // COM before APP1
        EXPECT_EQ(at[1], jpeg_marker::kCom);
      },
      "APPn or COM");
  ExpectRefused([](Bytes& jpeg) { testing::InsertAt(jpeg, 2, testing::Segment(jpeg_marker::kCom, "more")); },
                "APPn or COM");
}

TEST(JpegProofTest, SeesAChangedFrame) {
  ExpectRefused([](Bytes& jpeg) { RenameFirstComponent(jpeg, 9); }, "component ids");
  ExpectRefused([](Bytes& jpeg) { jpeg[FrameOffset(jpeg) + 6] -= 1; }, "width or height");
  ExpectRefused([](Bytes& jpeg) { jpeg = MakeJpeg(Spec()); }, "the process");
  ExpectRefused(
      [](Bytes& jpeg) {
        TestJpeg spec = Spec();
        spec.progressive = true, spec.v_sampling = 1;
        jpeg = MakeJpeg(spec);
      },
      "sampling factors");
}

TEST(JpegProofTest, SeesChangedTables) {
  ExpectRefused([](Bytes& jpeg) { jpeg[SegmentOffset(jpeg, jpeg_marker::kDqt) + 20] ^= 1; }, "quantisation tables");
}

TEST(JpegProofTest, SeesChangedCoefficients) {
  ExpectRefused(
      [](Bytes& jpeg) {
        TestJpeg spec = Spec();
        spec.progressive = true, spec.seed = 2;
        jpeg = MakeJpeg(spec);
      },
      "coefficients");
  ExpectRefused([](Bytes& jpeg) { jpeg = testing::WithoutScan(jpeg, 9); }, "coefficients");
}

TEST(JpegProofTest, SeesAnotherColourSpace) {
  const Bytes source = MakeJpeg({.width = 16, .height = 16, .colour = TestJpeg::Colour::kRgb});
  Result<ProgressiveJpeg> converted = Convert(source);
  ASSERT_TRUE(converted);
  ASSERT_TRUE(ProveConversion(source, StructureOf(source), *converted));
  converted->content.colour_space += 1;  // stands for a reader that saw the source otherwise
  EXPECT_THAT(ProveConversion(source, StructureOf(source), *converted).error().message, HasSubstr("colour space"));
}

TEST(JpegProofTest, RefusesWhatCannotBeRead) {
  ExpectRefused([](Bytes& jpeg) { jpeg.clear(); }, "the converted image: ");
  ExpectRefused([](Bytes& jpeg) { jpeg.resize(jpeg.size() / 2); }, "the converted image: ");
  ExpectRefused([](Bytes& jpeg) { testing::InsertAt(jpeg, jpeg.size() - 2, Bytes(60, 1)); }, "extraneous bytes");
}

// Whatever byte is changed: the proof sees it, or the change has no meaning (Huffman code of a table that only another
// bit pattern names, thumbnails of nothing).
TEST(JpegProofTest, EveryFlippedByteIsSeenOrMeansNothing) {
  const Bytes source = MakeJpeg({.width = 24, .height = 16});
  const JpegStructure structure = StructureOf(source);
  const Result<ProgressiveJpeg> converted = Convert(source);
  ASSERT_TRUE(converted);
  const auto pixels = testing::DecodeJpeg(source).pixels;
  size_t seen = 0;
  for (size_t i = 0; i < converted->bytes.size(); ++i) {
    ProgressiveJpeg changed = *converted;
    changed.bytes[i] ^= 0x01;
    if (ProveConversion(source, structure, changed))
      EXPECT_EQ(testing::DecodeJpeg(changed.bytes).pixels, pixels) << i;
    else
      ++seen;
  }
  EXPECT_GT(seen, converted->bytes.size() * 9 / 10);
}

}  // namespace
}  // namespace pcrfs
