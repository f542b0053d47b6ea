#include "format/scan_levels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/jpeg_surgery.h"
#include "tests/support/test_jpeg.h"

namespace pcrfs {
namespace {

using ::testing::ElementsAre;
using testing::MakeJpeg;
using testing::StructureOf;
using testing::TestJpeg;

struct Scan {
  int component = 0;
  int Ss = 0, Se = 0, Ah = 0, Al = 0;
};

std::vector<int> NumbersOf(const std::vector<Level>& levels) {
  std::vector<int> numbers;
  for (const Level level : levels) numbers.push_back(level.number());
  return numbers;
}

std::vector<int> LevelsOf(const std::vector<Scan>& script, bool ycbcr = true) {
  std::vector<JpegScan> scans(script.size());
  for (size_t i = 0; i < script.size(); ++i) {
    ScanHeader& header = scans[i].header;
    header.component_count = 1;
    header.components[0] = static_cast<uint8_t>(script[i].component);
    header.Ss = static_cast<uint8_t>(script[i].Ss);
    header.Se = static_cast<uint8_t>(script[i].Se);
    header.Ah = static_cast<uint8_t>(script[i].Ah);
    header.Al = static_cast<uint8_t>(script[i].Al);
  }
  return NumbersOf(ScanLevels(scans, ycbcr));
}

std::vector<int> LevelsOfDefaultScript(TestJpeg::Colour colour) {
  const Bytes jpeg = MakeJpeg({.width = 32, .height = 24, .colour = colour, .progressive = true});
  return NumbersOf(ScanLevels(StructureOf(jpeg).scans, colour == TestJpeg::Colour::kYCbCr));
}

constexpr Scan kDc{0, 0, 0, 0, 1};
constexpr int kLuma = 0, kCb = 1, kCr = 2;

TEST(ScanLevelsTest, DefaultScripts) {
  EXPECT_THAT(LevelsOfDefaultScript(TestJpeg::Colour::kYCbCr), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_THAT(LevelsOfDefaultScript(TestJpeg::Colour::kGray), ElementsAre(1, 2, 5, 6, 7, 10));
  EXPECT_THAT(LevelsOfDefaultScript(TestJpeg::Colour::kRgb), ElementsAre(1, 2, 2, 2, 5, 5, 5, 6, 6, 6, 7, 10, 10, 10));
  EXPECT_THAT(LevelsOfDefaultScript(TestJpeg::Colour::kCmyk),
              ElementsAre(1, 2, 2, 2, 2, 5, 5, 5, 5, 6, 6, 6, 6, 7, 10, 10, 10, 10));
  EXPECT_THAT(LevelsOfDefaultScript(TestJpeg::Colour::kYcck),
              ElementsAre(1, 2, 2, 2, 2, 5, 5, 5, 5, 6, 6, 6, 6, 7, 10, 10, 10, 10));
}

TEST(ScanLevelsTest, EachRowOfTheTable) {
  EXPECT_THAT(LevelsOf({kDc, {kCb, 0, 0, 0, 1}}), ElementsAre(1, 1));
  EXPECT_THAT(LevelsOf({kDc, {kLuma, 1, 5, 0, 2}}), ElementsAre(1, 2));
  EXPECT_THAT(LevelsOf({kDc, {kLuma, 1, 62, 0, 0}}), ElementsAre(1, 2));
  EXPECT_THAT(LevelsOf({kDc, {kLuma, 1, 63, 0, 0}}), ElementsAre(1, 5));
  EXPECT_THAT(LevelsOf({kDc, {kLuma, 2, 5, 0, 0}}), ElementsAre(1, 5));
  EXPECT_THAT(LevelsOf({kDc, {kCr, 1, 63, 0, 1}}), ElementsAre(1, 3));
  EXPECT_THAT(LevelsOf({kDc, {kCr, 6, 9, 0, 1}}), ElementsAre(1, 3));
  EXPECT_THAT(LevelsOf({kDc, {kCb, 1, 63, 0, 1}}), ElementsAre(1, 4));
  EXPECT_THAT(LevelsOf({kDc, {kLuma, 1, 63, 2, 1}}), ElementsAre(1, 6));
  EXPECT_THAT(LevelsOf({kDc, {kCb, 1, 63, 2, 1}}), ElementsAre(1, 6));
  EXPECT_THAT(LevelsOf({kDc, {kCr, 1, 63, 2, 1}}), ElementsAre(1, 6));
  EXPECT_THAT(LevelsOf({kDc, {kCr, 1, 63, 1, 0}}), ElementsAre(1, 8));
  EXPECT_THAT(LevelsOf({kDc, {kCb, 1, 63, 1, 0}}), ElementsAre(1, 9));
  EXPECT_THAT(LevelsOf({kDc, {kLuma, 1, 63, 1, 0}}), ElementsAre(1, 10));
}

TEST(ScanLevelsTest, DcRefinementGoesWithWhatIsBeforeIt) {
  constexpr Scan kRefinement{0, 0, 0, 1, 0};
  EXPECT_THAT(LevelsOf({kDc, kRefinement}), ElementsAre(1, 1));
  EXPECT_THAT(LevelsOf({kDc, {kCr, 1, 63, 0, 0}, kRefinement}), ElementsAre(1, 3, 3));
  EXPECT_THAT(LevelsOf({kDc, {kLuma, 1, 63, 2, 1}, kRefinement}), ElementsAre(1, 6, 7));
  EXPECT_THAT(LevelsOf({kDc, {kCr, 1, 63, 1, 0}, kRefinement}), ElementsAre(1, 8, 8));
}

TEST(ScanLevelsTest, LevelsNeverFallAndTheFirstIsOne) {
  EXPECT_THAT(LevelsOf({{kLuma, 1, 63, 1, 0}}), ElementsAre(1));
  EXPECT_THAT(LevelsOf({{kLuma, 1, 63, 0, 0}, kDc}), ElementsAre(1, 1));
  EXPECT_THAT(LevelsOf({kDc, {kCb, 1, 63, 0, 0}, {kCr, 1, 63, 0, 0}, {kLuma, 1, 5, 0, 0}, {kLuma, 6, 63, 0, 0}}),
              ElementsAre(1, 4, 4, 4, 5));
}

TEST(ScanLevelsTest, WithoutYcbcrEveryComponentIsLuma) {
  EXPECT_THAT(LevelsOf({kDc, {kCr, 1, 5, 0, 0}, {kCb, 6, 63, 0, 1}, {kCb, 6, 63, 1, 0}}, false),
              ElementsAre(1, 2, 5, 10));
}

TEST(ScanLevelsTest, NoScansNoLevels) { EXPECT_TRUE(ScanLevels({}, true).empty()); }

}  // namespace
}  // namespace pcrfs
