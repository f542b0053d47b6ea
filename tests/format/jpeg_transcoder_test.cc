#include "format/jpeg_transcoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/jpeg_surgery.h"
#include "tests/support/test_jpeg.h"

namespace pcrfs {
namespace {

using testing::DecodeJpeg;
using ::testing::HasSubstr;
using testing::MakeJpeg;
using testing::StructureOf;
using testing::TestJpeg;
using testing::TinyGray;

Result<ProgressiveJpeg> Convert(ByteSpan source) {
  const Result<JpegCoefficients> coefficients = JpegCoefficients::Read(source);
  if (!coefficients) return tl::unexpected<Error>(coefficients.error());
  return ConvertToProgressive(source, StructureOf(source), *coefficients);
}

JpegContent ContentOf(ByteSpan jpeg) {
  const Result<JpegContent> content = ReadJpegContent(jpeg);
  EXPECT_TRUE(content) << content.error().message;
  return content.value_or(JpegContent{});
}

TEST(JpegTranscoderTest, ContentSaysWhatLibjpegReads) {
  const JpegContent content = ContentOf(MakeJpeg({.width = 33, .height = 20}));
  EXPECT_EQ(content.width, 33u);
  EXPECT_EQ(content.height, 20u);
  EXPECT_TRUE(content.ycbcr);
  ASSERT_EQ(content.components.size(), 3u);
  EXPECT_EQ(content.components[0].h_sampling, 2);
  EXPECT_EQ(content.components[0].width_in_blocks, 5u);
  EXPECT_EQ(content.components[0].height_in_blocks, 3u);
  EXPECT_EQ(content.components[1].width_in_blocks, 3u);
  EXPECT_EQ(content.components[1].height_in_blocks, 2u);
  EXPECT_EQ(content.components[1].id, 2);
  EXPECT_NE(content.components[0].quant_table, content.components[1].quant_table);
  EXPECT_FALSE(ContentOf(MakeJpeg({.colour = TestJpeg::Colour::kRgb})).ycbcr);
  EXPECT_FALSE(ContentOf(MakeJpeg({.colour = TestJpeg::Colour::kGray})).ycbcr);
}

TEST(JpegTranscoderTest, CodingDoesNotCountInContentButPicturesDo) {
  const JpegContent content = ContentOf(MakeJpeg({}));
  EXPECT_EQ(content, ContentOf(MakeJpeg({.progressive = true})));
  EXPECT_EQ(content, ContentOf(MakeJpeg({.optimize = true, .restart_interval = 2})));
  EXPECT_EQ(content, ContentOf(MakeJpeg({.arithmetic = true})));
  EXPECT_NE(content.row_crcs, ContentOf(MakeJpeg({.seed = 2})).row_crcs);
  EXPECT_NE(content.components, ContentOf(MakeJpeg({.quality = 84})).components);
}

TEST(JpegTranscoderTest, OneCoefficientMoreOrLessIsSeen) {
  // DC 0, then one AC coefficient of size 1, 00 1 or 00 0, then end of block.
  EXPECT_NE(ContentOf(TinyGray(0x01, {0b00010111})).row_crcs, ContentOf(TinyGray(0x01, {0b00000111})).row_crcs);
}

TEST(JpegTranscoderTest, ConvertsToTheDefaultScript) {
  const Bytes source = MakeJpeg({});
  const Result<ProgressiveJpeg> converted = Convert(source);
  ASSERT_TRUE(converted) << converted.error().message;
  const JpegStructure structure = StructureOf(converted->bytes);
  EXPECT_EQ(structure.frame.marker, jpeg_marker::kSof2);
  EXPECT_EQ(structure.scans.size(), 10u);
  EXPECT_EQ(structure.eoi + 2, converted->bytes.size());
  EXPECT_EQ(converted->content, ContentOf(source));
  EXPECT_EQ(converted->content, ContentOf(converted->bytes));
  EXPECT_EQ(DecodeJpeg(converted->bytes).pixels, DecodeJpeg(source).pixels);
}

TEST(JpegTranscoderTest, CopiesMarkersByteForByteAndAddsNone) {
  const Bytes exif(40, 0x45), comment = {'h', 'i'};
  const Bytes source = MakeJpeg({.jfif = false,
                                 .markers = {{jpeg_marker::kCom, comment},
                                             {jpeg_marker::kApp0 + 1, exif},
                                             {jpeg_marker::kApp0 + 2, {}},
                                             {jpeg_marker::kCom, comment}}});
  const Result<ProgressiveJpeg> converted = Convert(source);
  ASSERT_TRUE(converted);
  Bytes expected = {0xFF, jpeg_marker::kSoi};
  testing::Append(expected, testing::Segment(jpeg_marker::kCom, comment));
  testing::Append(expected, testing::Segment(jpeg_marker::kApp0 + 1, exif));
  testing::Append(expected, testing::Segment(jpeg_marker::kApp0 + 2, Bytes{}));
  testing::Append(expected, testing::Segment(jpeg_marker::kCom, comment));
  testing::Append(expected, Bytes{0xFF, jpeg_marker::kDqt});
  ASSERT_GT(converted->bytes.size(), expected.size());
  EXPECT_EQ(Bytes(converted->bytes.begin(), converted->bytes.begin() + static_cast<std::ptrdiff_t>(expected.size())),
            expected);
}

TEST(JpegTranscoderTest, WarningsAndErrorsAreTextAndNothingIsPrinted) {
  Bytes extra = MakeJpeg({});
  testing::InsertAt(extra, extra.size() - 2, Bytes(50, 0x11));
  Bytes no_tables = MakeJpeg({});
  const size_t dqt = testing::SegmentOffset(no_tables, jpeg_marker::kDqt);
  no_tables[dqt + 4] = 3;  // another slot than the frame asks for

  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  const Result<JpegContent> warned = ReadJpegContent(extra), failed = ReadJpegContent(no_tables);
  const Result<JpegContent> empty = ReadJpegContent({});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  ASSERT_FALSE(warned);
  EXPECT_EQ(warned.error().code, ErrorCode::kDamaged);
  EXPECT_THAT(warned.error().message, HasSubstr("extraneous bytes before marker 0xd9"));
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("Quantization table 0x00 was not defined"));
  EXPECT_FALSE(empty);
}

TEST(JpegTranscoderTest, WhatLibjpegCannotWriteIsUnsupported) {
  // An AC coefficient of 13 bits, 5000: more than the first scan's two bits less can hold.
  const Bytes source = TinyGray(0x0D, {0x13, 0x88, 0x7F});
  ASSERT_TRUE(ReadJpegContent(source));
  const Result<ProgressiveJpeg> converted = Convert(source);
  ASSERT_FALSE(converted);
  EXPECT_EQ(converted.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(converted.error().message, HasSubstr("DCT coefficient out of range"));
}

// libjpeg takes a memory limit, in thousands of bytes, from the environment, and gives up where it is passed.
TEST(JpegTranscoderTest, TheEnvironmentDecidesNothing) {
  const Bytes source = MakeJpeg({.width = 640, .height = 480});
  const Result<ProgressiveJpeg> expected = Convert(source);
  ASSERT_EQ(setenv("JPEGMEM", "1", 1), 0);
  const Result<ProgressiveJpeg> converted = Convert(source);
  unsetenv("JPEGMEM");
  ASSERT_TRUE(converted) << converted.error().message;
  EXPECT_EQ(converted->bytes, expected->bytes);
}

TEST(JpegTranscoderTest, EveryTruncationIsAnError) {
  const Bytes source = MakeJpeg({.width = 24, .height = 16});
  for (size_t size = 0; size < source.size(); ++size) {
    const Bytes cut(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(size));
    ASSERT_FALSE(ReadJpegContent(cut)) << size;
  }
}

TEST(JpegTranscoderTest, EveryFlippedByteIsAnErrorOrReadAsItIs) {
  const Bytes source = MakeJpeg({.width = 24, .height = 16, .progressive = true});
  for (size_t i = 0; i < source.size(); ++i) {
    Bytes changed = source;
    changed[i] ^= 0x55;
    const Result<JpegContent> content = ReadJpegContent(changed);
    if (content) {
      EXPECT_EQ(DecodeJpeg(changed).warnings, 0) << i;
    } else {
      EXPECT_THAT(content.error().message, HasSubstr("libjpeg: ")) << i;
    }
  }
}

}  // namespace
}  // namespace pcrfs
