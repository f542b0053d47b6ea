#include "mount/requester.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "tests/support/fork.h"

namespace pcrfs {
namespace {

// A child that is stopped, so that what is sent to it stays pending.
class Stopped {
 public:
  explicit Stopped(void (*on_terminate)(int)) : child_(testing::Fork()) {
    if (child_ == 0) {
      std::signal(SIGTERM, on_terminate);
      raise(SIGSTOP);
      _exit(0);
    }
    waitpid(child_, nullptr, WUNTRACED);
  }
  ~Stopped() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  [[nodiscard]] pid_t pid() const { return child_; }

 private:
  pid_t child_;
};

TEST(RequesterTest, ASignalThatEndsAProcessKillsIt) {
  for (const int signal : {SIGTERM, SIGINT, SIGQUIT, SIGABRT, SIGUSR1, SIGRTMIN}) {
    const Stopped child(SIG_DFL);
    EXPECT_FALSE(IsBeingKilled(child.pid()));
    kill(child.pid(), signal);
    EXPECT_TRUE(IsBeingKilled(child.pid())) << signal;
  }
}

TEST(RequesterTest, ASignalThatItSurvivesDoesNot) {
  for (const int signal : {SIGTSTP, SIGCHLD, SIGWINCH, SIGURG}) {
    const Stopped child(SIG_DFL);
    kill(child.pid(), signal);
    EXPECT_FALSE(IsBeingKilled(child.pid())) << signal;
  }
  const Stopped handles([](int) {}), ignores(SIG_IGN);
  kill(handles.pid(), SIGTERM);
  kill(ignores.pid(), SIGTERM);
  EXPECT_FALSE(IsBeingKilled(handles.pid()));
  EXPECT_FALSE(IsBeingKilled(ignores.pid()));
}

TEST(RequesterTest, OfWhomNothingIsKnownIsNot) {
  EXPECT_FALSE(IsBeingKilled(0));
  EXPECT_FALSE(IsBeingKilled(-1));
  EXPECT_FALSE(IsBeingKilled(getpid()));
  EXPECT_FALSE(IsBeingKilled(1 << 30)) << "no process";
}

TEST(RequesterTest, TakesKillForWhatItIsAlsoOfATracedThread) {
  const std::string head = "Name:\tx\nTracerPid:\t7\n";
  EXPECT_TRUE(HasFatalSignal(head + "SigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n"));
  EXPECT_FALSE(HasFatalSignal(head + "SigPnd:\t0000000000000000\nShdPnd:\t0000000000004000\n"));
  EXPECT_FALSE(HasFatalSignal(""));
  EXPECT_FALSE(HasFatalSignal("SigPnd:\t"));
  EXPECT_FALSE(HasFatalSignal("x\nSigPnd:\tno number\n"));
}

}  // namespace
}  // namespace pcrfs
