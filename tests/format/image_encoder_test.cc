#include "format/image_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "format/checksum.h"
#include "format/jpeg_restorer.h"
#include "format/jpeg_transcoder.h"
#include "tests/support/jpeg_surgery.h"
#include "tests/support/test_jpeg.h"

namespace pcrfs {
namespace {

using testing::Append;
using testing::DecodedJpeg;
using testing::DecodeJpeg;
using testing::FrameOffset;
using ::testing::HasSubstr;
using testing::InsertAt;
using testing::kOneScanEach;
using testing::MakeJpeg;
using testing::ScanBytes;
using testing::Segment;
using testing::SegmentOffset;
using testing::StructureOf;
using testing::TestJpeg;
using testing::TestScan;
using testing::TinyGray;
using testing::WithFrameSize;
using testing::WithoutScan;
using Colour = TestJpeg::Colour;

constexpr uint8_t kApp1 = jpeg_marker::kApp0 + 1;

// The file that level `level` of `image` shows.
Bytes AtLevel(const EncodedImage& image, int level) {
  const auto begin = image.fragment_sizes.begin();
  const auto end = std::accumulate(begin, begin + level, std::ptrdiff_t{0});
  Bytes file(image.bytes.begin(), image.bytes.begin() + end);
  Append(file, Bytes{0xFF, jpeg_marker::kEoi});
  if (level == kShardLevels) Append(file, image.tail);
  return file;
}

std::vector<Bytes> MetadataOf(ByteSpan jpeg) {
  std::vector<Bytes> segments;
  for (const JpegSegment& segment : StructureOf(jpeg).segments) {
    if (!IsCopiedSegment(segment.marker)) continue;
    const ByteSpan bytes = jpeg.subspan(segment.offset, segment.size);
    segments.emplace_back(bytes.begin(), bytes.end());
  }
  return segments;
}

// All that the mount's users rely on. Pixels cannot be asked of files that libjpeg reads but does not print.
void ExpectLossless(const Bytes& source, const EncodedImage& image, bool printable = true) {
  ASSERT_EQ(std::accumulate(image.fragment_sizes.begin(), image.fragment_sizes.end(), size_t{0}), image.bytes.size());
  ASSERT_GT(image.fragment_sizes[0], 0u);
  const JpegStructure structure = StructureOf(source);
  const Bytes full = AtLevel(image, kShardLevels);
  EXPECT_EQ(image.tail, Bytes(source.begin() + static_cast<std::ptrdiff_t>(structure.eoi + 2), source.end()));
  if (!image.tail.empty()) {
    EXPECT_EQ(image.bytes.size(), structure.eoi);
  }
  if (image.kept) {
    EXPECT_EQ(full, source);
  }
  EXPECT_EQ(image.restore.empty(), image.kept || !image.not_restorable.empty());
  if (!image.restore.empty()) {
    const auto restored = RestoreJpeg(full, image.restore, {source.size(), Sha256::Of(source)});
    ASSERT_TRUE(restored) << restored.error().message;
    EXPECT_EQ(*restored, source);
  }
  EXPECT_EQ(MetadataOf(full), MetadataOf(source));
  const auto source_content = ReadJpegContent(ByteSpan(source).first(structure.eoi + 2));
  const auto content = ReadJpegContent(ByteSpan(full).first(image.bytes.size() + 2));
  ASSERT_TRUE(source_content && content);
  EXPECT_EQ(*content, *source_content);
  if (!printable) return;
  const DecodedJpeg picture = DecodeJpeg(source);
  EXPECT_EQ(picture.warnings, 0);
  for (int level = 1; level <= kShardLevels; ++level) {
    const DecodedJpeg decoded = DecodeJpeg(AtLevel(image, level));
    EXPECT_EQ(decoded.warnings, 0) << "level " << level;
    EXPECT_EQ(decoded.pixels.size(), picture.pixels.size()) << "level " << level;
    if (level == kShardLevels) {
      EXPECT_EQ(decoded.pixels, picture.pixels);
    }
  }
}

struct Case {
  const char* name;
  Bytes (*make)();
};

std::string NameOf(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

// ---- files that become ten levels by conversion

class ImageEncoderConvertsTest : public ::testing::TestWithParam<Case> {};

TEST_P(ImageEncoderConvertsTest, WithoutLoss) {
  const Bytes source = GetParam().make();
  const auto image = EncodeImage(source);
  ASSERT_TRUE(image) << image.error().detail;
  EXPECT_FALSE(image->kept);
  const bool printable = std::string_view(GetParam().name) != "FractionalSampling";
  ExpectLossless(source, *image, printable);
  EXPECT_EQ(image->not_restorable, "");
}

Bytes JpegWithTail(std::string_view tail) {
  Bytes jpeg = MakeJpeg({});
  Append(jpeg, AsBytes(tail));
  return jpeg;
}

Bytes WithFill(Bytes jpeg) {
  InsertAt(jpeg, jpeg.size() - 2, {0xFF, 0xFF, 0xFF});
  InsertAt(jpeg, FrameOffset(jpeg), {0xFF});
  InsertAt(jpeg, 2, {0xFF, 0xFF});
  return jpeg;
}

// The DQT segment of slot 0, all of it one byte a step, with another step for DC.
Bytes TableOfSlot0(const Bytes& jpeg, uint8_t change) {
  const auto dqt = jpeg.begin() + static_cast<std::ptrdiff_t>(SegmentOffset(jpeg, jpeg_marker::kDqt));
  Bytes table(dqt, dqt + 69);
  EXPECT_EQ(table[4], 0);
  table[5] ^= change;
  return table;
}

// Slot 0, which only the first component uses, once more after that component's scan, with another step for DC or not.
Bytes WithTableBetweenScans(uint8_t change) {
  Bytes jpeg = MakeJpeg({.script = kOneScanEach});
  InsertAt(jpeg, StructureOf(jpeg).scans[0].end, TableOfSlot0(jpeg, change));
  return jpeg;
}

// All components use slot 0, which is defined anew before the second component's scan, and before the third's.
Bytes WithOneSlotForAll(uint8_t second, uint8_t third) {
  Bytes jpeg = MakeJpeg({.script = kOneScanEach});
  const size_t frame = FrameOffset(jpeg);
  jpeg[frame + 15] = 0, jpeg[frame + 18] = 0;
  const JpegStructure structure = StructureOf(jpeg);
  InsertAt(jpeg, structure.scans[1].end, TableOfSlot0(jpeg, third));
  InsertAt(jpeg, structure.scans[0].end, TableOfSlot0(jpeg, second));
  return jpeg;
}

const Bytes kJfifWithThumbnail = {'J', 'F', 'I', 'F', 0, 1, 2, 0, 0, 1, 0, 1, 2, 1, 9, 8, 7, 6, 5, 4};
const Bytes kAppleJfif = {'J', 'F', 'I', 'F', 0, 1, 1, 0, 0, 72, 0, 72, 0, 0, 'A', 'M', 'P', 'F'};
const Bytes kExif = {'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0};

INSTANTIATE_TEST_SUITE_P(
    Kinds, ImageEncoderConvertsTest,
    ::testing::Values(
        Case{"Baseline420", [] { return MakeJpeg({}); }},
        Case{"Baseline444", [] { return MakeJpeg({.h_sampling = 1, .v_sampling = 1}); }},
        Case{"Baseline411", [] { return MakeJpeg({.h_sampling = 4, .v_sampling = 1}); }},
        Case{"Baseline440", [] { return MakeJpeg({.h_sampling = 1, .v_sampling = 2}); }},
        Case{"OwnHuffmanTables", [] { return MakeJpeg({.optimize = true}); }},
        Case{"Gray", [] { return MakeJpeg({.colour = Colour::kGray}); }},
        Case{"Rgb", [] { return MakeJpeg({.colour = Colour::kRgb}); }},
        Case{"Cmyk", [] { return MakeJpeg({.colour = Colour::kCmyk}); }},
        Case{"Ycck", [] { return MakeJpeg({.colour = Colour::kYcck}); }},
        Case{"TwoComponents", [] { return MakeJpeg({.colour = Colour::kTwo}); }},
        Case{"OnePixel", [] { return MakeJpeg({.width = 1, .height = 1}); }},
        Case{"OddSize", [] { return MakeJpeg({.width = 83, .height = 17}); }},
        Case{"VeryWide", [] { return MakeJpeg({.width = 65500, .height = 1, .colour = Colour::kGray}); }},
        Case{"VeryCoarse16BitTables", [] { return MakeJpeg({.quality = -1}); }},
        Case{"Arithmetic", [] { return MakeJpeg({.arithmetic = true}); }},
        Case{"ArithmeticOneScanEach", [] { return MakeJpeg({.script = kOneScanEach, .arithmetic = true}); }},
        Case{"OneScanEach", [] { return MakeJpeg({.script = kOneScanEach}); }},
        Case{"RestartMarkers", [] { return MakeJpeg({.restart_interval = 3}); }},
        Case{"NoJfif", [] { return MakeJpeg({.jfif = false}); }},
        Case{"FourComponentsNoAdobe", [] { return MakeJpeg({.colour = Colour::kCmyk, .adobe = false}); }},
        Case{"RgbNoAdobe", [] { return MakeJpeg({.colour = Colour::kRgb, .adobe = false}); }},
        Case{"JfifThumbnail",
             [] {
               return MakeJpeg({.jfif = false, .markers = {{jpeg_marker::kApp0, kJfifWithThumbnail}}});
             }},
        Case{"AppleJfif",
             [] {
               return MakeJpeg({.jfif = false, .markers = {{jpeg_marker::kApp0, kAppleJfif}}});
             }},
        Case{"ExifBeforeJfif",
             [] {
               return MakeJpeg({.jfif = false, .markers = {{kApp1, kExif}, {jpeg_marker::kApp0, kAppleJfif}}});
             }},
        Case{"EveryApp",
             [] {
               TestJpeg spec;
               for (int n = 15; n >= 1; --n) spec.markers.emplace_back(jpeg_marker::kApp0 + n, Bytes(3, 'x'));
               spec.markers.emplace_back(jpeg_marker::kCom, Bytes(65533, 'c'));
               return MakeJpeg(spec);
             }},
        Case{"FractionalSampling",
             [] {
               return MakeJpeg({.sampling = {{3, 1}, {2, 1}, {1, 1}}, .script = kOneScanEach});
             }},
        Case{"LumaSubsampled",
             [] {
               return MakeJpeg({.sampling = {{1, 1}, {2, 2}, {2, 2}}});
             }},
        Case{"CrowdedMcu",
             [] {
               return MakeJpeg({.sampling = {{4, 4}, {2, 2}, {1, 1}}, .script = kOneScanEach});
             }},
        Case{"CrowdedMcuOfFour",
             [] {
               return MakeJpeg({.colour = Colour::kCmyk,
                                .sampling = {{2, 2}, {2, 2}, {2, 2}, {2, 2}},
                                .script = {{{0}}, {{1}}, {{2}}, {{3}}}});
             }},
        Case{"GraySampled4x4",
             [] {
               return MakeJpeg({.colour = Colour::kGray, .sampling = {{4, 4}}});
             }},
        Case{"FillBytes", [] { return WithFill(MakeJpeg({})); }},
        Case{"RestartMarkerBeforeEoi",
             [] {
               Bytes jpeg = MakeJpeg({});
               InsertAt(jpeg, jpeg.size() - 2, {0xFF, jpeg_marker::kRst0});
               return jpeg;
             }},
        // DC 0 and end of block, then pad bits that are 0.
        Case{"PaddingBitsZero", [] { return TinyGray(0x01, {0b00100000}); }},
        // An AC coefficient of 11 bits, 1500: sequential encoders refuse it, decoders and progressive coding do not.
        Case{"CoefficientOf11Bits",
             [] {
               return TinyGray(0x0B, {0x17, 0x71});
             }},
        Case{"SameTableTwice", [] { return WithTableBetweenScans(0); }},
        Case{"TableRedefinedBetweenScans", [] { return WithTableBetweenScans(1); }},
        Case{"OneSlotForThreeTables", [] { return WithOneSlotForAll(1, 3); }},
        Case{"OneSlotForTwoTables", [] { return WithOneSlotForAll(7, 7); }},
        Case{"OneSlotForATableThatComesBack", [] { return WithOneSlotForAll(7, 0); }},
        Case{"TableRedefinedBeforeEoi",
             [] {
               Bytes jpeg = MakeJpeg({});
               InsertAt(jpeg, jpeg.size() - 2, TableOfSlot0(jpeg, 5));
               return jpeg;
             }},
        Case{"DnlThatAgrees",
             [] {
               Bytes jpeg = MakeJpeg({});
               InsertAt(jpeg, jpeg.size() - 2, Segment(jpeg_marker::kDnl, std::string_view("\0\x78", 2)));
               return jpeg;
             }},
        Case{"TailNewline", [] { return JpegWithTail("\n"); }},
        Case{"TailSecondEoi", [] { return JpegWithTail("\xFF\xD9"); }},
        Case{"TailFill", [] { return JpegWithTail("\xFF\xFF\xFF"); }},
        Case{"TailOfJpegMarkers", [] { return JpegWithTail("slack\xFF\xDA\xFF\xE1\xFF\xC4\xFF\xD8"); }},
        Case{"TailIsAJpeg",
             [] {
               Bytes jpeg = MakeJpeg({});
               Append(jpeg, MakeJpeg({.width = 64, .height = 64, .progressive = true}));
               return jpeg;
             }},
        Case{"TailOfFillBeforeEoi",
             [] {
               Bytes jpeg = WithFill(MakeJpeg({}));
               Append(jpeg, Bytes(5000, 0));
               return jpeg;
             }}),
    NameOf);

// ---- files that are kept and cut at their own scans

class ImageEncoderKeepsTest : public ::testing::TestWithParam<Case> {};

TEST_P(ImageEncoderKeepsTest, ByteForByte) {
  const Bytes source = GetParam().make();
  const auto image = EncodeImage(source);
  ASSERT_TRUE(image) << image.error().detail;
  EXPECT_TRUE(image->kept);
  ExpectLossless(source, *image);
}

Bytes ProgressiveWith(const std::vector<TestScan>& script, Colour colour = Colour::kYCbCr) {
  return MakeJpeg({.width = 48, .height = 40, .colour = colour, .script = script});
}

// Every bit of every coefficient of every component in a scan of its own.
std::vector<TestScan> ThousandsOfScans() {
  std::vector<TestScan> script;
  for (int Al = 10; Al >= 0; --Al)
    for (int k = 0; k < 64; ++k)
      for (int component = 0; component < 3; ++component)
        script.push_back({{component}, k, k, Al == 10 ? 0 : Al + 1, Al});
  return script;
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ImageEncoderKeepsTest,
    ::testing::Values(
        Case{"DefaultScript", [] { return MakeJpeg({.progressive = true}); }},
        Case{"Gray", [] { return MakeJpeg({.colour = Colour::kGray, .progressive = true}); }},
        Case{"Rgb", [] { return MakeJpeg({.colour = Colour::kRgb, .progressive = true}); }},
        Case{"Ycck", [] { return MakeJpeg({.colour = Colour::kYcck, .progressive = true}); }},
        Case{"TwoComponents", [] { return MakeJpeg({.colour = Colour::kTwo, .progressive = true}); }},
        Case{"RestartMarkers", [] { return MakeJpeg({.progressive = true, .restart_interval = 7}); }},
        Case{"FillBytes", [] { return WithFill(MakeJpeg({.progressive = true})); }},
        Case{"NoSuccessiveApproximation",
             [] {
               return ProgressiveWith({{{0, 1, 2}, 0, 0}, {{0}, 1, 5}, {{0}, 6, 63}, {{2}, 1, 63}, {{1}, 1, 63}});
             }},
        Case{
            "PlaneByPlane",
            [] {
              return ProgressiveWith({{{0}, 0, 0}, {{0}, 1, 63}, {{1}, 0, 0}, {{1}, 1, 63}, {{2}, 0, 0}, {{2}, 1, 63}});
            }},
        Case{"ChromaFirst",
             [] {
               return ProgressiveWith({{{2}, 0, 0, 0, 1},
                                       {{2}, 1, 63},
                                       {{1}, 0, 0, 0, 1},
                                       {{1}, 1, 63, 0, 1},
                                       {{1}, 1, 63, 1, 0},
                                       {{0}, 0, 0, 0, 1},
                                       {{0}, 1, 63, 0, 2},
                                       {{0, 1, 2}, 0, 0, 1, 0},
                                       {{0}, 1, 63, 2, 1},
                                       {{0}, 1, 63, 1, 0}});
             }},
        Case{"HighFrequenciesFirst",
             [] {
               return ProgressiveWith(
                   {{{0}, 0, 0, 0, 2}, {{0}, 40, 63}, {{0}, 1, 39}, {{0}, 0, 0, 2, 1}, {{0}, 0, 0, 1, 0}},
                   Colour::kGray);
             }},
        Case{"ThousandsOfScans", [] { return ProgressiveWith(ThousandsOfScans()); }},
        Case{"IccBetweenScans",
             [] {
               Bytes jpeg = MakeJpeg({.progressive = true});
               InsertAt(jpeg, StructureOf(jpeg).scans[1].begin, Segment(jpeg_marker::kApp0 + 2, "ICC_PROFILE"));
               return jpeg;
             }},
        // Decoders of the libjpeg family keep the table that a component's first scan had.
        Case{"TableRedefinedBetweenScans",
             [] {
               Bytes jpeg = MakeJpeg({.progressive = true});
               InsertAt(jpeg, StructureOf(jpeg).scans[4].end, TableOfSlot0(jpeg, 9));
               return jpeg;
             }},
        Case{"CommentBeforeEoi",
             [] {
               Bytes jpeg = MakeJpeg({.progressive = true});
               InsertAt(jpeg, jpeg.size() - 2, Segment(jpeg_marker::kCom, "the end"));
               return jpeg;
             }},
        Case{"Tail",
             [] {
               Bytes jpeg = MakeJpeg({.progressive = true});
               Append(jpeg, MakeJpeg({}));
               return jpeg;
             }}),
    NameOf);

TEST(ImageEncoderTest, BytesBetweenScansBelongToTheNextScanAndThoseBeforeEoiToTheLast) {
  Bytes jpeg = MakeJpeg({.progressive = true});
  const JpegStructure plain = StructureOf(jpeg);
  InsertAt(jpeg, jpeg.size() - 2, Segment(jpeg_marker::kCom, "four"));
  InsertAt(jpeg, plain.scans[2].begin, {0xFF, 0xFF});                                   // fill: of the scan before
  InsertAt(jpeg, plain.scans[2].begin + 2, Segment(jpeg_marker::kApp0 + 9, "six---"));  // of the scan behind
  const auto image = EncodeImage(jpeg);
  ASSERT_TRUE(image) << image.error().detail;
  ASSERT_TRUE(image->kept);
  for (size_t i = 0; i < 10; ++i) {
    const size_t added = i == 1 ? 2 : i == 2 ? 10 : i == 9 ? 8 : 0;
    EXPECT_EQ(image->fragment_sizes[i], plain.scans[i].end - plain.scans[i].begin + added) << i;
  }
}

TEST(ImageEncoderTest, GrayImagesLandOnTheLevelsOfTheirColourNeighbours) {
  const auto image = EncodeImage(MakeJpeg({.colour = Colour::kGray}));
  ASSERT_TRUE(image);
  for (const size_t level : {3u, 4u, 8u, 9u}) EXPECT_EQ(image->fragment_sizes[level - 1], 0u) << level;
  for (const size_t level : {1u, 2u, 5u, 6u, 7u, 10u}) EXPECT_GT(image->fragment_sizes[level - 1], 0u) << level;
}

TEST(ImageEncoderTest, FillBeforeATailIsPartOfTheLastFragment) {
  const Bytes source = MakeJpeg({});
  Bytes with_tail = source;
  Append(with_tail, AsBytes("tail"));
  const auto plain = EncodeImage(source), image = EncodeImage(with_tail);
  ASSERT_TRUE(plain && image);
  ASSERT_LT(plain->bytes.size(), source.size() - 2);
  EXPECT_EQ(image->bytes.size(), source.size() - 2);
  EXPECT_EQ(image->fragment_sizes[9] - plain->fragment_sizes[9], image->bytes.size() - plain->bytes.size());
  EXPECT_EQ(image->bytes.back(), 0xFF);
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(image->fragment_sizes[i], plain->fragment_sizes[i]);
}

TEST(ImageEncoderTest, ATailIsAllThatFollowsTheFirstEoi) {
  const Bytes source = MakeJpeg({});
  for (const Bytes& tail : {MakeJpeg({.width = 16, .height = 16}), Bytes{'-', 0xFF, 0xD8, 0xFF, 0xD9}, Bytes{0xFF}}) {
    Bytes with_tail = source;
    Append(with_tail, tail);
    const auto image = EncodeImage(with_tail);
    ASSERT_TRUE(image) << image.error().detail;
    EXPECT_EQ(image->tail, tail);
  }
}

// ---- files that stay as they are

struct OpaqueCase {
  const char* name;
  OpaqueReason reason;
  const char* detail;
  Bytes (*make)();
};

class ImageEncoderRefusesTest : public ::testing::TestWithParam<OpaqueCase> {};

TEST_P(ImageEncoderRefusesTest, WithReason) {
  const auto image = EncodeImage(GetParam().make());
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().reason, GetParam().reason) << image.error().detail;
  EXPECT_THAT(image.error().detail, HasSubstr(GetParam().detail));
}

Bytes WithFrameMarker(Bytes jpeg, uint8_t marker) {
  jpeg[FrameOffset(jpeg) + 1] = marker;
  return jpeg;
}

Bytes WithPrecision(Bytes jpeg, uint8_t bits) {
  jpeg[FrameOffset(jpeg) + 4] = bits;
  return jpeg;
}

Bytes WithRepeatedIds() {
  Bytes jpeg = MakeJpeg({});
  const size_t frame = FrameOffset(jpeg), sos = SegmentOffset(jpeg, jpeg_marker::kSos);
  jpeg[frame + 16] = 1, jpeg[sos + 9] = 1;  // of the third component
  return jpeg;
}

Bytes WithFiveComponents() {
  Bytes jpeg = MakeJpeg({});
  const size_t frame = FrameOffset(jpeg);
  jpeg[frame + 3] = 8 + 15, jpeg[frame + 9] = 5;
  InsertAt(jpeg, frame + 19, {4, 0x11, 0, 5, 0x11, 0});
  return jpeg;
}

Bytes WithSegmentBeforeEoi(const Bytes& segment) {
  Bytes jpeg = MakeJpeg({});
  InsertAt(jpeg, jpeg.size() - 2, segment);
  return jpeg;
}

Bytes WithDoubledScan(const Bytes& jpeg, size_t n) {
  Bytes doubled = jpeg;
  InsertAt(doubled, StructureOf(jpeg).scans[n].end, ScanBytes(jpeg, n));
  return doubled;
}

Bytes WithBytesRemoved(Bytes jpeg, size_t scan, size_t count) {
  const JpegStructure structure = StructureOf(jpeg);
  const auto at = jpeg.begin() + static_cast<std::ptrdiff_t>(structure.scans[scan].entropy + 20);
  jpeg.erase(at, at + static_cast<std::ptrdiff_t>(count));
  return jpeg;
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ImageEncoderRefusesTest,
    ::testing::Values(
        OpaqueCase{"NoBytes", OpaqueReason::kNotJpeg, "SOI", [] { return Bytes{}; }},
        OpaqueCase{"Text", OpaqueReason::kNotJpeg, "SOI",
                   [] {
                     return Bytes{'h', 'e', 'l', 'l', 'o'};
                   }},
        OpaqueCase{"ByteBeforeSoi", OpaqueReason::kNotJpeg, "SOI",
                   [] {
                     Bytes jpeg = MakeJpeg({});
                     InsertAt(jpeg, 0, {0});
                     return jpeg;
                   }},
        OpaqueCase{"ArithmeticProgressive", OpaqueReason::kUnsupported, "arithmetic",
                   [] { return MakeJpeg({.progressive = true, .arithmetic = true}); }},
        OpaqueCase{"TwelveBits", OpaqueReason::kUnsupported, "12 bits",
                   [] { return WithPrecision(WithFrameMarker(MakeJpeg({}), jpeg_marker::kSof1), 12); }},
        OpaqueCase{"Lossless", OpaqueReason::kUnsupported, "FF C3", [] { return WithFrameMarker(MakeJpeg({}), 0xC3); }},
        OpaqueCase{"Hierarchical", OpaqueReason::kUnsupported, "FF C5",
                   [] { return WithFrameMarker(MakeJpeg({}), 0xC5); }},
        OpaqueCase{"HeightByDnl", OpaqueReason::kUnsupported, "DNL",
                   [] { return WithFrameSize(MakeJpeg({}), 160, 0); }},
        OpaqueCase{"DnlThatDiffers", OpaqueReason::kUnsupported, "DNL",
                   [] { return WithSegmentBeforeEoi(Segment(jpeg_marker::kDnl, std::string_view("\0\x77", 2))); }},
        OpaqueCase{"DnlTooShort", OpaqueReason::kUnsupported, "DNL",
                   [] { return WithSegmentBeforeEoi(Segment(jpeg_marker::kDnl, std::string_view("\x78", 1))); }},
        OpaqueCase{"RepeatedComponentIds", OpaqueReason::kUnsupported, "component id 1 is there twice",
                   WithRepeatedIds},
        OpaqueCase{"FiveComponents", OpaqueReason::kUnsupported, "5 components", WithFiveComponents},
        OpaqueCase{"CoefficientOf13Bits", OpaqueReason::kUnsupported, "DCT coefficient out of range",
                   [] {
                     return TinyGray(0x0D, {0x13, 0x88, 0x7F});
                   }},
        OpaqueCase{"TailWouldMove", OpaqueReason::kUnsupported, "tail of 4 bytes",
                   [] {
                     Bytes jpeg = MakeJpeg({.width = 8, .height = 8, .optimize = true});
                     Append(jpeg, AsBytes("tail"));
                     return jpeg;
                   }},
        OpaqueCase{"Cut", OpaqueReason::kDamaged, "ends inside a scan",
                   [] {
                     Bytes jpeg = MakeJpeg({});
                     jpeg.resize(jpeg.size() / 2);
                     return jpeg;
                   }},
        OpaqueCase{"NoEoi", OpaqueReason::kDamaged, "ends",
                   [] {
                     Bytes jpeg = MakeJpeg({.progressive = true});
                     jpeg.resize(jpeg.size() - 2);
                     return jpeg;
                   }},
        OpaqueCase{"BytesMissing", OpaqueReason::kDamaged, "libjpeg",
                   [] { return WithBytesRemoved(MakeJpeg({}), 0, 90); }},
        OpaqueCase{"BytesMissingProgressive", OpaqueReason::kDamaged, "libjpeg",
                   [] { return WithBytesRemoved(MakeJpeg({.progressive = true}), 4, 90); }},
        OpaqueCase{"BytesBeforeEoi", OpaqueReason::kDamaged, "extraneous",
                   [] { return WithSegmentBeforeEoi(Bytes(50, 0x22)); }},
        OpaqueCase{"BytesBetweenSegments", OpaqueReason::kDamaged, "a marker was expected",
                   [] {
                     Bytes jpeg = MakeJpeg({});
                     InsertAt(jpeg, FrameOffset(jpeg), {0x0D});
                     return jpeg;
                   }},
        OpaqueCase{"ScanTwice", OpaqueReason::kDamaged, "several scans code component 2",
                   [] { return WithDoubledScan(MakeJpeg({.script = kOneScanEach}), 1); }},
        OpaqueCase{"ProgressiveScanTwice", OpaqueReason::kDamaged, "progression",
                   [] { return WithDoubledScan(MakeJpeg({.progressive = true}), 9); }},
        OpaqueCase{"LacksLastLumaScan", OpaqueReason::kIncomplete,
                   "no scan refines coefficient 1 of component 1 beyond Al = 1",
                   [] { return WithoutScan(MakeJpeg({.progressive = true}), 9); }},
        OpaqueCase{"LacksLastCrScan", OpaqueReason::kIncomplete, "no scan refines coefficient 1 of component 3",
                   [] { return WithoutScan(MakeJpeg({.progressive = true}), 7); }},
        OpaqueCase{"LacksDcRefinement", OpaqueReason::kIncomplete, "no scan refines coefficient 0",
                   [] { return WithoutScan(MakeJpeg({.progressive = true}), 6); }},
        OpaqueCase{
            "LacksBand", OpaqueReason::kIncomplete, "no scan codes coefficient 1 of component 2",
            [] {
              return WithoutScan(ProgressiveWith({{{0, 1, 2}, 0, 0}, {{0}, 1, 63}, {{2}, 1, 63}, {{1}, 1, 63}}), 3);
            }},
        OpaqueCase{"LacksComponent", OpaqueReason::kIncomplete, "no scan codes component 3",
                   [] { return WithoutScan(MakeJpeg({.script = kOneScanEach}), 2); }},
        OpaqueCase{"ExifBetweenScans", OpaqueReason::kMarkersBetween, "behind the first scan",
                   [] {
                     Bytes jpeg = MakeJpeg({.script = kOneScanEach});
                     InsertAt(jpeg, StructureOf(jpeg).scans[1].begin, Segment(kApp1, kExif));
                     return jpeg;
                   }},
        OpaqueCase{"ExifBeforeEoi", OpaqueReason::kMarkersBetween, "behind the first scan",
                   [] { return WithSegmentBeforeEoi(Segment(kApp1, kExif)); }},
        OpaqueCase{"CommentBeforeEoi", OpaqueReason::kMarkersBetween, "behind the first scan",
                   [] { return WithSegmentBeforeEoi(Segment(jpeg_marker::kCom, "late")); }},
        OpaqueCase{"TooWide", OpaqueReason::kTooLarge, "65501x120",
                   [] { return WithFrameSize(MakeJpeg({}), 65501, 120); }},
        OpaqueCase{"TooHigh", OpaqueReason::kTooLarge, "160x65535",
                   [] { return WithFrameSize(MakeJpeg({}), 160, 65535); }},
        OpaqueCase{"TooManyCoefficients", OpaqueReason::kTooLarge, "268566528 coefficients",
                   [] { return WithFrameSize(MakeJpeg({.colour = Colour::kGray}), 16384, 16392); }},
        // Not too large, but the data end long before the image does.
        OpaqueCase{"AsManyCoefficientsAsAllowed", OpaqueReason::kDamaged, "libjpeg",
                   [] { return WithFrameSize(MakeJpeg({.colour = Colour::kGray}), 16384, 16384); }},
        OpaqueCase{"TooManyScansForItsSize", OpaqueReason::kTooLarge, "2112 scans",
                   [] { return WithFrameSize(ProgressiveWith(ThousandsOfScans()), 8000, 8000); }}),
    [](const ::testing::TestParamInfo<OpaqueCase>& case_info) { return std::string(case_info.param.name); });

// ---- memory

TEST(ImageEncoderTest, MemoryIsKnownFromTheFrameHeader) {
  const Bytes photo = WithFrameSize(MakeJpeg({.h_sampling = 1, .v_sampling = 1}), 4000, 3000);
  EXPECT_GT(EncodeMemory(photo), 72'000'000u);
  EXPECT_LT(EncodeMemory(photo), 80'000'000u);
  // One row of blocks, which libjpeg pads to four.
  const Bytes thin = WithFrameSize(MakeJpeg({.colour = Colour::kGray, .sampling = {{4, 4}}}), 65500, 1);
  EXPECT_GT(EncodeMemory(thin), 65500u / 8 * 4 * 128);
  EXPECT_EQ(EncodeMemory(WithFrameSize(MakeJpeg({}), 65500, 65500)), 0u) << "that will be opaque";
  EXPECT_EQ(EncodeMemory(Bytes{'n', 'o'}), 0u);
}

// ---- any bytes

TEST(ImageEncoderTest, NoTruncationIsAnImage) {
  const Bytes source = MakeJpeg({.width = 24, .height = 16});
  for (size_t size = 0; size < source.size(); ++size) {
    const auto image = EncodeImage(ByteSpan(source).first(size));
    ASSERT_FALSE(image) << size;
    EXPECT_EQ(image.error().reason, size < 2 ? OpaqueReason::kNotJpeg : OpaqueReason::kDamaged) << size;
  }
}

class ImageEncoderFlipTest : public ::testing::TestWithParam<bool> {};

TEST_P(ImageEncoderFlipTest, EveryFlippedByteIsOpaqueOrLossless) {
  const Bytes source = MakeJpeg({.width = 24, .height = 16, .progressive = GetParam()});
  ::testing::internal::CaptureStderr();
  for (size_t i = 0; i < source.size(); ++i) {
    Bytes changed = source;
    changed[i] ^= 0x11;
    const auto image = EncodeImage(changed);
    if (image) {
      ExpectLossless(changed, *image, DecodeJpeg(changed).warnings == 0);
    } else {
      EXPECT_FALSE(image.error().detail.empty()) << i;
    }
    ASSERT_FALSE(HasFatalFailure() || HasNonfatalFailure()) << "byte " << i;
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

INSTANTIATE_TEST_SUITE_P(SequentialAndProgressive, ImageEncoderFlipTest, ::testing::Bool());

TEST(ImageEncoderTest, SameBytesEachTime) {
  const Bytes source = MakeJpeg({});
  const auto first = EncodeImage(source), second = EncodeImage(source);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->bytes, second->bytes);
  EXPECT_EQ(first->fragment_sizes, second->fragment_sizes);
}

TEST(ImageEncoderTest, ManyThreadsAtOnce) {
  const Bytes sequential = MakeJpeg({}), progressive = MakeJpeg({.progressive = true});
  const auto converted = EncodeImage(sequential), kept = EncodeImage(progressive);
  ASSERT_TRUE(converted && kept);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) {
        const auto one = EncodeImage(sequential), other = EncodeImage(progressive);
        if (!one || !other || one->bytes != converted->bytes || other->bytes != kept->bytes) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace pcrfs
