#include "mount/logging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <future>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace pcrfs {
namespace {

using std::chrono::seconds;
using ::testing::EndsWith;
using ::testing::HasSubstr;

struct Collected {
  std::vector<std::string> lines;
  FaultLog log{[this](std::string_view line) { lines.emplace_back(line); }, std::chrono::hours(1)};
};

TEST(FaultLog, LetsABurstThroughThenCounts) {
  Collected collected;
  const FaultLog::Clock::time_point start{seconds(1000)};
  for (int i = 0; i < 1000; ++i) collected.log.Report("fault " + std::to_string(i), std::nullopt, start);
  ASSERT_EQ(collected.lines.size(), size_t{FaultLog::kBurst});
  EXPECT_EQ(collected.lines.back(), "fault 19");

  collected.log.Report("later", std::nullopt, start + seconds(1));
  ASSERT_EQ(collected.lines.size(), size_t{FaultLog::kBurst + 2});
  EXPECT_EQ(collected.lines[FaultLog::kBurst], "980 more errors were not logged one by one");
  EXPECT_EQ(collected.lines.back(), "later");
}

TEST(FaultLog, AShardWithManyFaultsDoesNotKeepTheOthersFromBeingNamed) {
  Collected collected;
  const FaultLog::Clock::time_point start{seconds(1000)};
  const auto report = [&](uint32_t shard, FaultLog::Clock::time_point now) {
    const size_t before = collected.lines.size();
    collected.log.Report("shard " + std::to_string(shard), shard, now);
    return collected.lines.size() > before;
  };
  for (int i = 0; i < 100; ++i) (void)report(0, start);
  for (uint32_t shard = 1; shard < FaultLog::kNamed; ++shard) {
    EXPECT_TRUE(report(shard, start));
    EXPECT_EQ(collected.lines.back(), "shard " + std::to_string(shard));
    EXPECT_FALSE(report(shard, start));
  }
  EXPECT_FALSE(report(FaultLog::kNamed, start)) << "there is an end to it";
  EXPECT_TRUE(report(1, start + FaultLog::kNamedAgain));
}

TEST(FaultLog, HowManyWereHeldBackIsToldAlsoWhenNoOtherFaultComes) {
  std::promise<std::string> told;
  FaultLog log(
      [&](std::string_view line) {
        if (line != "fault") told.set_value(std::string(line));
      },
      std::chrono::milliseconds(50));
  const FaultLog::Clock::time_point start{seconds(1000)};
  for (int i = 0; i < FaultLog::kBurst + 7; ++i) log.Report("fault", std::nullopt, start);
  auto line = told.get_future();
  ASSERT_EQ(line.wait_for(seconds(30)), std::future_status::ready);
  EXPECT_EQ(line.get(), "7 more errors were not logged one by one");
}

TEST(FaultLog, HowManyWereHeldBackIsToldAtTheEnd) {
  std::vector<std::string> lines;
  for (const bool flushed : {false, true}) {
    lines.clear();
    {
      FaultLog log([&](std::string_view line) { lines.emplace_back(line); }, std::chrono::hours(1));
      const FaultLog::Clock::time_point start{seconds(1000)};
      for (int i = 0; i < FaultLog::kBurst + 1; ++i) log.Report("fault", std::nullopt, start);
      if (flushed) log.Flush();
      EXPECT_EQ(lines.size(), size_t{FaultLog::kBurst} + (flushed ? 1 : 0));
    }
    ASSERT_EQ(lines.size(), size_t{FaultLog::kBurst} + 1);
    EXPECT_EQ(lines.back(), "1 more error was not logged one by one");
  }
}

TEST(FaultLog, ARareFaultIsAlwaysLogged) {
  Collected collected;
  FaultLog::Clock::time_point now{seconds(1000)};
  for (int i = 0; i < 100; ++i) collected.log.Report("fault", std::nullopt, now += seconds(1));
  EXPECT_EQ(collected.lines.size(), 100u);
}

TEST(FaultLog, AQuietTimeGivesNoMoreThanOneBurst) {
  Collected collected;
  collected.log.Report("first", std::nullopt, FaultLog::Clock::time_point{seconds(1000)});
  for (int i = 0; i < 100; ++i)
    collected.log.Report("fault", std::nullopt, FaultLog::Clock::time_point{seconds(1000000)});
  EXPECT_EQ(collected.lines.size(), size_t{FaultLog::kBurst + 1});
}

TEST(StartLogging, WritesLinesOfTheLevelAskedForToTheFile) {
  const testing::TempDir folder;
  const std::string path = folder / "log";
  ASSERT_TRUE(StartLogging(path, LogLevel::kWarn, false));
  Log(LogLevel::kInfo, "too quiet {}");
  Log(LogLevel::kError, "loud {} %s");  // not taken for a format
  StopLogging();
  const Bytes bytes = testing::ReadFile(path);
  const std::string text(AsText(bytes));
  EXPECT_THAT(text, EndsWith(" error loud {} %s\n"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("quiet")));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(StartLogging, MakesNoFoldersForAPathThatWasMistyped) {
  const testing::TempDir folder;
  const auto started = StartLogging(folder / "no such/folder/log", LogLevel::kInfo, false);
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message, HasSubstr("/folder/log': No such file or directory"));
  struct stat made {};
  EXPECT_NE(stat((folder / "no such").c_str(), &made), 0);
}

TEST(StartLogging, ALogOnAFullDiskIsToldOfOnceInOurWords) {
  ASSERT_TRUE(StartLogging("/dev/full", LogLevel::kInfo, false));
  ::testing::internal::CaptureStderr();
  Log(LogLevel::kError, "one");
  Log(LogLevel::kError, "two");
  StopLogging();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, ::testing::StartsWith("pcrfs: the log cannot be written: "));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST(StartLogging, AFileThatCannotBeMadeIsASentence) {
  const auto started = StartLogging("/proc/nowhere/log", LogLevel::kInfo, false);
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message, HasSubstr("cannot log to '/proc/nowhere/log'"));
}

TEST(Log, BeforeStartLoggingSaysNothing) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Log(LogLevel::kError, "nobody listens");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace pcrfs
