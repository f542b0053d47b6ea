// Going into the background with an honest exit status, and being stopped by signals.
//
// RunInBackground forks; the child does the work and reports once, when it is up or has failed; only then the command
// that the user typed ends, with the child's sentence and status. libfuse's own daemonise would say "done" before
// anything was tried.
//
// Call RunInBackground while the process has one thread and nothing open that does not live through a fork (LMDB,
// logging). Errors: what fork and pipe give.
#ifndef PCRFS_MOUNT_DAEMON_H_
#define PCRFS_MOUNT_DAEMON_H_

#include <sys/types.h>

#include <csignal>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "format/error.h"
#include "format/file.h"

namespace pcrfs {

// The child's end of the pipe to the waiting command.
class StartReport {
 public:
  explicit StartReport(UniqueFd pipe) : pipe_(std::move(pipe)) {}

  // Says how the start went and lets go of terminal and working directory. False when nobody waits any more: the user
  // has given up, and what was started should go. Only the first call does anything.
  [[nodiscard]] bool Send(int status, const std::string& sentence);

 private:
  UniqueFd pipe_;
};

struct StartOutcome {
  int status = 0;
  std::string sentence;
  pid_t process = 0;  // the child
};

// In the parent: returns what the child reported, or that it died. In the child: runs `body` and never returns. Of the
// descriptors above stderr that were inherited, and would be locked or never reach their end for as long as the child
// lives, it gets none but `kept` (-1: none at all).
[[nodiscard]] Result<StartOutcome> RunInBackground(const std::function<int(StartReport&)>& body, int kept = -1);

// SIGTERM, SIGINT and SIGQUIT as a call of a function, from a thread of this object's own. SIGPIPE, SIGUSR1, SIGUSR2
// and SIGALRM, which mean nothing here and would leave a dead mount, are ignored, SIGHUP may stop, too,
// unless it was ignored already (as nohup(1) has it), or is a call of another function. Construct it before any other
// thread starts, since threads inherit the signal mask that it sets.
class StopSignals {
 public:
  explicit StopSignals(bool hangup_stops);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // `stop` is called at each such signal from now on; before, a signal ends the process. `hangup` is called at SIGHUP
  // where that does not stop; not when it is ignored.
  void Attach(std::function<void()> stop, std::function<void()> hangup = {});

 private:
  void Wait();

  sigset_t signals_;
  std::mutex mutex_;
  const bool hangup_stops_;
  std::function<void()> stop_, hangup_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_DAEMON_H_
