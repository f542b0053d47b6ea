// Asking real mounts: `pcrfs list` and `pcrfs log-level` of mounts that serve, hang, are dead, hidden or not one's own.
#include "mount/control_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <nlohmann/json.hpp>

#include "mount/mount_point.h"
#include "tests/support/mount_fixture.h"

namespace pcrfs {
namespace {

using namespace std::chrono_literals;
using testing::BackgroundMount;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::PackedPhotos;
using testing::ProgramResult;
using testing::ReadFile;

class ControlClientTest : public ::testing::Test {
 protected:
  PackedPhotos photos_;

  // What `pcrfs list --json` tells of the mount at `path`.
  [[nodiscard]] nlohmann::json Listed(const std::string& path) const {
    const ProgramResult result = photos_.Pcrfs({"list", "--json"});
    EXPECT_EQ(result.status, 0) << result.err;
    for (const auto& mount : nlohmann::json::parse(result.out))
      if (mount["mount_point"] == path) return mount;
    ADD_FAILURE() << path << " is not in " << result.out;
    return {};
  }
  [[nodiscard]] ProgramResult LogLevel(const std::vector<std::string>& arguments = {}) const {
    std::vector<std::string> words = {"log-level", photos_.mount_point()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return photos_.Pcrfs(words);
  }
  [[nodiscard]] std::string LogOf(const std::string& file) const {
    const Bytes bytes = ReadFile(photos_ / file);
    return std::string(AsText(bytes));
  }
};

TEST_F(ControlClientTest, ListTellsOfAMountAllThereIsToKnow) {
  const BackgroundMount mount(photos_, {"-o", "log_level=warn"});
  const auto listed = Listed(mount.path());
  EXPECT_EQ(listed["data_set"], photos_.dataset());
  EXPECT_EQ(listed["state"], "serving");
  EXPECT_EQ(listed["user"], geteuid());
  EXPECT_EQ(listed["level"], nullptr);
  EXPECT_EQ(listed["levels"], 10);
  EXPECT_EQ(listed["pid"], mount.daemon());
  EXPECT_EQ(listed["log_level"], "warn");
  struct tm utc {};
  ASSERT_NE(strptime(listed["started"].get<std::string>().c_str(), "%Y-%m-%dT%H:%M:%SZ", &utc), nullptr);
  EXPECT_NEAR(static_cast<double>(timegm(&utc)), static_cast<double>(time(nullptr)), 120);
}

TEST_F(ControlClientTest, ListTellsTheLevelOfAMountOfOne) {
  const BackgroundMount mount(photos_, {"-o", "level=7"});
  EXPECT_EQ(Listed(mount.path())["level"], 7);
  const ProgramResult table = photos_.Pcrfs({"list"});
  EXPECT_THAT(table.out, HasSubstr("MOUNT POINT"));
  EXPECT_THAT(table.out,
              ::testing::ContainsRegex("mount point  .*packed  +7  +" + std::to_string(mount.daemon()) + " +serving"));
}

TEST_F(ControlClientTest, ListKnowsAMountPointOfOddBytes) {
  const std::string odd = photos_ / "tab\there\nline \\040";
  ASSERT_EQ(mkdir(odd.c_str(), 0755), 0);
  ASSERT_EQ(photos_.Pcrfs({"mount", photos_.dataset(), odd}).status, 0);
  EXPECT_EQ(Listed(odd)["state"], "serving");
  EXPECT_EQ(photos_.Pcrfs({"umount", odd}).status, 0);
}

TEST_F(ControlClientTest, ADeadMountIsListedAsDeadAndHasNoLogLevel) {
  const BackgroundMount mount(photos_);
  const pid_t daemon = mount.daemon();
  kill(daemon, SIGKILL);
  EXPECT_TRUE(Eventually([&] { return Listed(mount.path())["state"] == "dead"; }));
  const ProgramResult level = LogLevel();
  EXPECT_EQ(level.status, 1);
  EXPECT_THAT(level.err, HasSubstr("is gone; 'pcrfs umount'"));
}

TEST_F(ControlClientTest, AMountThatHangsHangsNobody) {
  const BackgroundMount mount(photos_);
  const pid_t daemon = mount.daemon();
  ASSERT_GT(daemon, 0);
  kill(daemon, SIGSTOP);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(Listed(mount.path())["state"], "not answering");
  EXPECT_LT(std::chrono::steady_clock::now() - start, kControlPatience + 30s);
  const ProgramResult level = LogLevel({"debug"});
  EXPECT_EQ(level.status, 1);
  EXPECT_THAT(level.err, HasSubstr("does not answer"));
  kill(daemon, SIGCONT);
  EXPECT_EQ(Listed(mount.path())["state"], "serving");
}

TEST_F(ControlClientTest, AMountUnderAnotherIsHiddenAndABindMountOfAPartIsUnknown) {
  const ProgramResult result = photos_.RunAlone(R"(
    "$pcrfs" mount "$dataset" "$mount"
    "$pcrfs" mount "$dataset" "$mount" -o nonempty,level=2
    mkdir "$scratch/part" "$scratch/whole"
    mount --bind "$mount/n00" "$scratch/part"
    mount --bind "$mount" "$scratch/whole"
    "$pcrfs" list
    "$pcrfs" log-level "$scratch/part" || :
    umount "$scratch/part" && umount "$scratch/whole" && "$pcrfs" umount "$mount" && "$pcrfs" umount "$mount"
  )");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::ContainsRegex("mount point  .*  -  +-  +hidden\n"
                                                   ".*mount point  .*  2  +[0-9]+  serving\n"
                                                   ".*part  .*  -  +-  +unknown\n"
                                                   ".*whole  .*  2  +[0-9]+  serving\n"));
  EXPECT_THAT(result.err, HasSubstr("shows only a part"));
}

TEST_F(ControlClientTest, WithoutAMountListSaysNothing) {
  const ProgramResult result = photos_.RunAlone("\"$pcrfs\" list; \"$pcrfs\" list --json");
  EXPECT_EQ(result.out, "[]\n");
  EXPECT_EQ(result.err, "");
}

TEST_F(ControlClientTest, AnotherUsersMountIsNoAccessToUsersAndOpenToRoot) {
  const ProgramResult result = photos_.RunAlone(PackedPhotos::kAsUser + std::string(R"(
    $as_user "$pcrfs" mount "$dataset" "$mount"
    "$pcrfs" list
    "$pcrfs" log-level "$mount" debug
    $as_user "$pcrfs" log-level "$mount"
    $as_user "$pcrfs" log-level "$mount" warn
    "$pcrfs" log-level "$mount"
    setpriv --reuid 4321 --clear-groups "$pcrfs" list
    setpriv --reuid 4321 --clear-groups "$pcrfs" log-level "$mount" || :
    setpriv --reuid 4321 --clear-groups "$pcrfs" umount "$mount" || :
    setpriv --reuid 4321 --clear-groups "$pcrfs" mount "$dataset" "$mount" || :
    $as_user "$pcrfs" umount "$mount"
  )"));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::ContainsRegex("  all  +[0-9]+  serving\n"
                                                   "debug\nwarn\n"
                                                   ".*\n.*  -  +-  +no access \\(of user [0-9]+\\)\n"));
  EXPECT_THAT(result.err,
              ::testing::MatchesRegex("pcrfs: [^\n]* is user [0-9]+'s, and only that user and root may do [^\n]*\n"
                                      "pcrfs: [^\n]* is user [0-9]+'s, and only that user and root may take [^\n]*\n"
                                      "pcrfs: [^\n]* already mounted on [^\n]*, by user [0-9]+\n"));
}

TEST_F(ControlClientTest, WhoMayReadAMountMayNotSetItsLogLevel) {
  const ProgramResult result = photos_.RunAlone(PackedPhotos::kAsUser + std::string(R"(
    "$pcrfs" mount "$dataset" "$mount" -o allow_other
    $as_user "$pcrfs" log-level "$mount"
    $as_user "$pcrfs" log-level "$mount" debug || :
    "$pcrfs" log-level "$mount"
    "$pcrfs" umount "$mount"
  )"));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(std::string_view(result.out).substr(result.out.find('\n') + 1), "info\ninfo\n");
  EXPECT_THAT(result.err, HasSubstr("only that user and root may"));
}

TEST_F(ControlClientTest, TheLogLevelChangesOnTheDaemonThatRuns) {
  for (const std::string level : {"info", "error"}) {
    const bool quiet = level == "error";
    const BackgroundMount mount(photos_, {"--log-file", photos_ / level, "--log-level", quiet ? "info" : "error"});
    EXPECT_EQ(LogLevel().out, quiet ? "info\n" : "error\n");
    const ProgramResult set = LogLevel({level});
    EXPECT_EQ(set.status, 0) << set.err;
    EXPECT_EQ(set.out + set.err, "");
    EXPECT_EQ(LogLevel().out, level + "\n");
    const pid_t daemon = mount.daemon();
    EXPECT_EQ(photos_.Pcrfs({"umount", mount.path()}).status, 0);
    EXPECT_TRUE(Eventually([&] { return !testing::IsRunning(daemon); }));
    EXPECT_EQ(LogOf(level).find("is unmounted") == std::string::npos, quiet);
  }
}

TEST_F(ControlClientTest, WhatIsNoMountOfOursHasNoLogLevel) {
  EXPECT_THAT(LogLevel().err, HasSubstr("nothing is mounted on"));
  EXPECT_THAT(photos_.Pcrfs({"log-level", "/proc"}).err, HasSubstr("is no mount of pcrfs"));
  EXPECT_EQ(LogLevel({"loud"}).status, 2);
}

}  // namespace
}  // namespace pcrfs
