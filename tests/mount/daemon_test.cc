#include "mount/daemon.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <system_error>
#include <thread>

#include "tests/support/fork.h"
#include "tests/support/temp_dir.h"

namespace pcrfs {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

bool Eventually(const std::function<bool()>& is_so) {
  for (int i = 0; i < 500; ++i) {
    if (is_so()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

TEST(RunInBackground, PassesStatusAndSentenceOn) {
  const auto failed = RunInBackground([](StartReport& report) {
    (void)report.Send(1, "no such thing");
    return 0;
  });
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status, 1);
  EXPECT_EQ(failed->sentence, "no such thing");
}

TEST(RunInBackground, ReturnsWhenTheChildReportsWhileThatLivesOn) {
  const testing::TempDir folder;
  const std::string gate = folder / "gate", done = folder / "done";
  const auto started = RunInBackground([&](StartReport& report) {
    const bool heard = report.Send(0, "up");
    while (!Exists(gate)) std::this_thread::sleep_for(5ms);
    // It has let go of the terminal and of the folder it was started in, and leads a session of its own.
    struct stat out {
    }, null{};
    const bool free = fstat(STDOUT_FILENO, &out) == 0 && stat("/dev/null", &null) == 0 && out.st_rdev == null.st_rdev &&
                      getsid(0) == getpid();
    char where[16] = "";
    if (heard && free && getcwd(where, sizeof where) != nullptr && std::string(where) == "/")
      testing::WriteFile(done, std::string_view("x"));
    return 0;
  });
  ASSERT_TRUE(started);
  EXPECT_EQ(started->status, 0);
  EXPECT_EQ(started->sentence, "up");
  EXPECT_FALSE(Exists(done));
  testing::WriteFile(gate, std::string_view("x"));
  EXPECT_TRUE(Eventually([&] { return Exists(done); }));
}

TEST(RunInBackground, AChildThatDiesBeforeItReportsIsAFailure) {
  const auto killed = RunInBackground([](StartReport&) {
    raise(SIGKILL);
    return 0;
  });
  ASSERT_TRUE(killed);
  EXPECT_EQ(killed->status, 1);
  EXPECT_THAT(killed->sentence, HasSubstr("signal 9"));
  const auto silent = RunInBackground([](StartReport&) { return 0; });
  ASSERT_TRUE(silent);
  EXPECT_EQ(silent->status, 1);
  EXPECT_THAT(silent->sentence, HasSubstr("before the mount was up"));
}

TEST(RunInBackground, WhatTheChildThrowsIsTheOneSentence) {
  ::testing::internal::CaptureStderr();
  const auto failed = RunInBackground([](StartReport&) -> int {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  });
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status, 1);
  EXPECT_THAT(failed->sentence, HasSubstr("cannot start a thread"));
}

TEST(RunInBackground, TheChildLearnsThatNobodyWaits) {
  const testing::TempDir folder;
  const std::string gate = folder / "gate", unheard = folder / "unheard";
  const pid_t command = testing::Fork();
  if (command == 0) {
    (void)RunInBackground([&](StartReport& report) {
      std::signal(SIGPIPE, SIG_IGN);
      while (!Exists(gate)) std::this_thread::sleep_for(5ms);
      if (!report.Send(0, "up")) testing::WriteFile(unheard, std::string_view("x"));
      return 0;
    });
    _exit(0);
  }
  std::this_thread::sleep_for(100ms);  // so that it waits
  kill(command, SIGKILL);              // as Ctrl-C would
  waitpid(command, nullptr, 0);
  testing::WriteFile(gate, std::string_view("x"));
  EXPECT_TRUE(Eventually([&] { return Exists(unheard); }));
}

TEST(RunInBackground, TheChildKeepsNoDescriptorOfWhoeverStartedIt) {
  const UniqueFd kept(open("/dev/null", O_RDONLY)), dropped(open("/dev/null", O_RDONLY));
  const auto started = RunInBackground(
      [&](StartReport& report) {
        const bool right = fcntl(kept.get(), F_GETFD) >= 0 && fcntl(dropped.get(), F_GETFD) < 0;
        (void)report.Send(right ? 0 : 1, "");
        return 0;
      },
      kept.get());
  ASSERT_TRUE(started);
  EXPECT_EQ(started->status, 0);
  EXPECT_GE(fcntl(dropped.get(), F_GETFD), 0);
}

TEST(StopSignals, IgnoreAHangupThatNohupHasIgnored) {
  const pid_t child = testing::Fork();
  if (child == 0) {
    std::signal(SIGHUP, SIG_IGN);
    StopSignals signals(true);
    signals.Attach([] { _exit(1); });
    kill(getpid(), SIGHUP);
    std::this_thread::sleep_for(100ms);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(StopSignals, CallTheFunctionAndEndBefore) {
  // In a child, since the signal mask and SIGHUP are the process's own.
  const auto run = [](bool attach, int signal, bool hangup_stops = false) {
    const pid_t child = testing::Fork();
    if (child == 0) {
      StopSignals signals(hangup_stops);
      std::atomic<bool> stopped{false};
      if (attach) signals.Attach([&] { stopped = true; });
      if (!hangup_stops) kill(getpid(), SIGHUP);
      kill(getpid(), signal);
      _exit(Eventually([&] { return stopped.load(); }) ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  EXPECT_EQ(run(true, SIGTERM), 0);
  EXPECT_EQ(run(true, SIGINT), 0);
  EXPECT_EQ(run(true, SIGQUIT), 0);
  EXPECT_EQ(run(true, SIGHUP, true), 0);
  EXPECT_EQ(run(false, SIGTERM), 128 + SIGTERM);
}

}  // namespace
}  // namespace pcrfs
