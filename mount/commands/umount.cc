#include <chrono>
#include <thread>

#include "mount/commands/commands.h"
#include "mount/mount_point.h"

namespace pcrfs {
namespace {

// Who only looks at a mount, as `pcrfs list` and desktops do, has it in use for a moment.
Result<void> TakeDownSoon(const std::string& path) {
  for (int tries = 1;; ++tries) {
    auto gone = TakeDown(path, false);
    if (gone || gone.error().code != ErrorCode::kBusy || tries == 20) return gone;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace

Result<int> Run(const UmountCommand& command) {
  const auto mounted = FindOurMount(command.mount_point);
  if (!mounted) return tl::unexpected(mounted.error());
  const std::string& path = mounted->path;
  if (auto gone = TakeDownSoon(path); !gone) return PassOn(std::move(gone));
  // fusermount3 returns before the mount table shows it.
  for (int tries = 0; tries < 100; ++tries) {
    if (FindMount(path) != *mounted) return kExitDone;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return Fail(ErrorCode::kBusy, Quoted(path) + " is still mounted five seconds after it was unmounted");
}

}  // namespace pcrfs
