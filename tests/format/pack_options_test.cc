#include "format/pack_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pcrfs {
namespace {

using ::testing::HasSubstr;

TEST(ParsePackOrder, PathAndShuffleWithItsSeed) {
  EXPECT_FALSE(ParsePackOrder("path")->shuffle);
  EXPECT_TRUE(ParsePackOrder("shuffle")->shuffle);
  EXPECT_EQ(ParsePackOrder("shuffle")->seed, 0U);
  EXPECT_EQ(ParsePackOrder("shuffle:18446744073709551615")->seed, UINT64_MAX);
  for (const char* text : {"", "size", "shuffle:", "shuffle:-1", "shuffle:1x", "path:1", "Shuffle"})
    EXPECT_FALSE(ParsePackOrder(text)) << text;
}

TEST(PackOptionsText, KnowsThatAnArchivesOrderCannotBeAskedFor) {
  PackOptions options;
  options.order.archive = options.nested = true;
  const std::string text = PackOptionsText(options);
  EXPECT_EQ(text, "nested=1\norder=archive\nrecord-bytes=67108864\nrecord-images=256\n");
  EXPECT_TRUE(ParsePackOptions(text)->order.archive);
  EXPECT_TRUE(ParsePackOptions(text)->nested);
  EXPECT_FALSE(ParsePackOrder("archive"));
}

TEST(PackOptionsText, IsReadBackAsItWasWritten) {
  PackOptions options;
  EXPECT_EQ(PackOptionsText(options), "order=path\nrecord-bytes=67108864\nrecord-images=256\n");
  for (const bool exact : {false, true}) {
    for (const PackOrder order : {PackOrder{}, PackOrder{true, 7}}) {
      options = {0, 12, 3456, order, {exact, !exact}, ExcludeList::Of({"*.tmp", "a%\nb/\xff"}).value()};
      const auto read = ParsePackOptions(PackOptionsText(options));
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_EQ(PackOptionsText(*read), PackOptionsText(options));
      EXPECT_EQ(read->order, order);
      EXPECT_EQ(read->exclude, options.exclude);
      EXPECT_EQ(read->encode.exact, exact);
    }
  }
}

TEST(PackOptionsText, OfALaterReleaseOrOutOfRangeIsRefused) {
  for (const char* text : {"zoom=1\n", "exact=2\n", "order=size\n", "record-images=-1\n", "record-images\n",
                           "exclude=%0\n", "exclude=%zz\n"}) {
    const auto read = ParsePackOptions(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, ErrorCode::kUnsupported) << text;
    EXPECT_THAT(read.error().message, HasSubstr(std::string(text).substr(0, std::string(text).size() - 1)));
  }
  EXPECT_FALSE(ParsePackOptions("record-images=0\n"));
  EXPECT_FALSE(ParsePackOptions("record-bytes=99999999999\n"));
  EXPECT_FALSE(ParsePackOptions("exclude=\n"));
}

TEST(PackOptionsText, GlobsBeyondThePlansRoomAreRefused) {
  PackOptions options;
  options.exclude = ExcludeList::Of({std::string(5000, 'x')}).value();
  const auto checked = CheckPackOptions(options);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message, HasSubstr("longer than 4,000 bytes"));
}

}  // namespace
}  // namespace pcrfs
