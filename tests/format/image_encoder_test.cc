#include "format/image_encoder.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/test_jpeg.h"

namespace pcrfs {
namespace {

using testing::DecodedJpeg;
using testing::DecodeJpeg;
using testing::MakeJpeg;
using testing::TestJpeg;

// The file that level `level` of `image` shows.
Bytes AtLevel(const EncodedImage& image, int level) {
  const auto end =
      std::accumulate(image.fragment_sizes.begin(), image.fragment_sizes.begin() + level, std::ptrdiff_t{0});
  Bytes file(image.bytes.begin(), image.bytes.begin() + end);
  file.insert(file.end(), {0xFF, 0xD9});
  if (level == kShardLevels) file.insert(file.end(), image.tail.begin(), image.tail.end());
  return file;
}

TEST(ImageEncoderTest, SequentialImagesBecomeTenLevels) {
  const Bytes source = MakeJpeg({});
  const auto image = EncodeImage(source);
  ASSERT_TRUE(image) << image.error().detail;
  EXPECT_FALSE(image->kept);
  EXPECT_TRUE(image->tail.empty());
  for (int level = 1; level <= kShardLevels; ++level) {
    EXPECT_GT(image->fragment_sizes[static_cast<size_t>(level - 1)], 0u);
    EXPECT_EQ(DecodeJpeg(AtLevel(*image, level)).warnings, 0) << level;
  }
  EXPECT_EQ(DecodeJpeg(AtLevel(*image, 10)).pixels, DecodeJpeg(source).pixels);
}

TEST(ImageEncoderTest, ProgressiveImagesAreKept) {
  const Bytes source = MakeJpeg({.progressive = true});
  const auto image = EncodeImage(source);
  ASSERT_TRUE(image) << image.error().detail;
  EXPECT_TRUE(image->kept);
  EXPECT_EQ(AtLevel(*image, 10), source);
}

}  // namespace
}  // namespace pcrfs
