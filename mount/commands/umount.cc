#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "format/file.h"
#include "mount/commands/commands.h"
#include "mount/control_client.h"
#include "mount/mount_point.h"

namespace pcrfs {
namespace {

// Who only looks at a mount, as `pcrfs list` and desktops do, has it in use for a moment; for as long as it takes to
// lose patience where nobody answers.
Result<void> TakeDownSoon(const std::string& path, MountHealth health) {
  // What is open in a dead one fails anyway, and would keep it there for as long as its program runs.
  if (health == MountHealth::kDead) return TakeDown(path, true);
  using Clock = std::chrono::steady_clock;
  const auto patience = health == MountHealth::kNotAnswering ? kControlPatience : std::chrono::milliseconds(0);
  const auto deadline = Clock::now() + std::chrono::seconds(1) + patience;
  while (true) {
    auto gone = TakeDown(path, false);
    if (gone || gone.error().code != ErrorCode::kBusy || Clock::now() > deadline) return gone;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

// The process that serves a mount, as far as it can be told.
struct Daemon {
  MountHealth health = MountHealth::kUnknown;
  uint64_t pid = 0;
  UniqueFd process;  // a pidfd; invalid: there is nothing to wait for
};

Daemon DaemonOf(const MountedThere& mount) {
  const MountReport report = DescribeMounts({mount})[0];
  Daemon daemon{report.health, report.description.pid, UniqueFd()};
  if (report.health == MountHealth::kServing && IsOfOurPidNamespace(report.description))
    daemon.process = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(daemon.pid), 0)));
  return daemon;
}

Result<void> AwaitTable(const MountedThere& mount) {
  // fusermount3 returns before the mount table shows it.
  for (int tries = 0; tries < 100; ++tries) {
    if (FindMount(mount.path) != mount) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return Fail(ErrorCode::kBusy, Quoted(mount.path) + " is still mounted five seconds after it was unmounted");
}

// So that whoever called us may remove the data set, or whatever the daemon had open.
Result<void> AwaitEnd(const MountedThere& mount, const Daemon& daemon) {
  constexpr int kPatienceMs = 5000;
  const auto left = ReadMounts();
  if (std::any_of(left.begin(), left.end(), [&](const MountedThere& other) { return other.device == mount.device; }))
    return {};  // a bind mount: it goes on
  if (daemon.health == MountHealth::kNotAnswering)
    return Fail(ErrorCode::kBusy, Quoted(mount.path) +
                                      " is unmounted, but its daemon did not answer and may still be there; 'ps -C "
                                      "pcrfs' tells, and SIGKILL ends it");
  pollfd waiting{daemon.process.get(), POLLIN, 0};
  if (!daemon.process.valid() || poll(&waiting, 1, kPatienceMs) != 0) return {};
  return Fail(ErrorCode::kBusy,
              Quoted(mount.path) + " is unmounted, but its daemon, process " + std::to_string(daemon.pid) +
                  ", has not ended within five seconds; it serves on where another mount namespace, as "
                  "a container's, shows the mount, too");
}

}  // namespace

Result<int> Run(const UmountCommand& command) {
  const auto mount = FindOurMount(command.mount_point);
  if (!mount) return tl::unexpected(mount.error());
  const Daemon daemon = DaemonOf(*mount);
  if (auto gone = TakeDownSoon(mount->path, daemon.health); !gone) return PassOn(std::move(gone));
  if (auto gone = AwaitTable(*mount); !gone) return PassOn(std::move(gone));
  if (auto ended = AwaitEnd(*mount, daemon); !ended) return PassOn(std::move(ended));
  return kExitDone;
}

}  // namespace pcrfs
