#include "mount/console.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "format/file.h"
#include "tests/support/temp_dir.h"

namespace pcrfs {
namespace {

// Standard output goes elsewhere while this lives.
class Redirected {
 public:
  explicit Redirected(int fd) : before_(dup(STDOUT_FILENO)) { dup2(fd, STDOUT_FILENO); }
  ~Redirected() { dup2(before_.get(), STDOUT_FILENO); }

 private:
  UniqueFd before_;
};

TEST(Output, WritesAllInOrder) {
  const testing::TempDir folder;
  const std::string path = folder / "out";
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT, 0600));
  std::string expected;
  {
    const Redirected redirected(file.get());
    Output output;
    for (const size_t size : {1u, 70000u, 0u, 65536u, 3u, 65535u, 2u}) {
      const std::string part(size, static_cast<char>('a' + expected.size() % 26));
      expected += part;
      ASSERT_TRUE(output.Write(part));
    }
    ASSERT_TRUE(output.Flush());
  }
  const Bytes written = testing::ReadFile(path);
  EXPECT_EQ(AsText(written), expected);
}

TEST(Output, AFullDeviceIsNoticed) {
  const UniqueFd full(open("/dev/full", O_WRONLY));
  const Redirected redirected(full.get());
  Output output;
  ASSERT_TRUE(output.Write("short"));  // still held back
  const auto flushed = output.Flush();
  ASSERT_FALSE(flushed);
  EXPECT_EQ(flushed.error().code, ErrorCode::kNoSpace);
  EXPECT_FALSE(output.Write(std::string(100000, 'x')));
}

TEST(HumanBytes, HasThreeDigits) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(999), "999 B");
  EXPECT_EQ(HumanBytes(1000), "1.00 kB");
  EXPECT_EQ(HumanBytes(12345), "12.3 kB");
  EXPECT_EQ(HumanBytes(999499), "999 kB");
  EXPECT_EQ(HumanBytes(999999), "1.00 MB");
  EXPECT_EQ(HumanBytes(140.8e9), "141 GB");
  EXPECT_EQ(HumanBytes(5e18), "5000 PB");
}

TEST(HumanTime, MinutesOrHours) {
  EXPECT_EQ(HumanTime(0), "00:00");
  EXPECT_EQ(HumanTime(59.6), "01:00");
  EXPECT_EQ(HumanTime(3599), "59:59");
  EXPECT_EQ(HumanTime(3661), "1:01:01");
  EXPECT_EQ(HumanTime(-1), "00:00");
  EXPECT_EQ(HumanTime(1e300), "1000:00:00");
}

class Metered : public ::testing::Test {
 protected:
  void At(double seconds, uint64_t done) {
    const auto after =
        std::chrono::duration_cast<ProgressMeter::Clock::duration>(std::chrono::duration<double>(seconds));
    meter_.Update(done, 1'000'000, start_ + after);
  }

  const ProgressMeter::Clock::time_point start_ = ProgressMeter::Clock::now();
  ProgressMeter meter_{start_};
};

TEST_F(Metered, NeedsSomeTimeToTellARate) {
  At(10, 0);
  EXPECT_EQ(meter_.Text(), "0 B of 1.00 MB");
  EXPECT_FALSE(meter_.bytes_per_second() || meter_.seconds_left());
}

TEST_F(Metered, TellsRateAndTimeLeft) {
  At(0.1, 500'000);
  EXPECT_EQ(meter_.Text(), "500 kB of 1.00 MB");
  At(5, 500'000);
  EXPECT_EQ(meter_.Text(), "500 kB of 1.00 MB, 100 kB/s, 00:05 left");
  At(5, 2'000'000);
  EXPECT_EQ(*meter_.seconds_left(), 0);
}

TEST_F(Metered, WhatWasDoneAtTheStartIsForgottenAfterAWhile) {
  At(1, 900'000);
  for (int second = 2; second <= 40; ++second) At(second, 900'000 + 1000 * static_cast<uint64_t>(second));
  EXPECT_NEAR(*meter_.bytes_per_second(), 1000, 1);
  EXPECT_NEAR(*meter_.seconds_left(), 60, 1);
}

TEST_F(Metered, AJobThatStandsStillHasNoRate) {
  At(1, 500'000);
  for (int second = 2; second <= 40; ++second) At(second, 500'000);
  EXPECT_EQ(meter_.Text(), "500 kB of 1.00 MB");
}

TEST(Counted, KnowsOne) {
  EXPECT_EQ(Counted(0, "file"), "0 files");
  EXPECT_EQ(Counted(1, "file"), "1 file");
  EXPECT_EQ(Counted(2, "file"), "2 files");
}

TEST(ShownName, OnATerminalNoNameCanUpsetIt) {
  EXPECT_EQ(ShownName("plain name.jpg", true), "plain name.jpg");
  EXPECT_EQ(ShownName("gr\xc3\xbc\xc3\x9f", true), "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(ShownName("\033[2J", true), "'\\x1b[2J'");
  EXPECT_EQ(ShownName("a\nb", true), "'a\\x0ab'");
  EXPECT_EQ(ShownName("a\nb\xff", false), "a\nb\xff");
}

}  // namespace
}  // namespace pcrfs
