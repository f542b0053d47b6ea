#include <chrono>
#include <thread>

#include "mount/commands/commands.h"
#include "mount/mount_point.h"

namespace pcrfs {

Result<int> Run(const UmountCommand& command) {
  const auto path = ResolveMountPoint(command.mount_point);
  if (!path) return tl::unexpected(path.error());
  const auto mounted = FindMount(*path);
  if (!mounted) return Fail(ErrorCode::kNotFound, "nothing is mounted on " + Quoted(*path));
  if (mounted->type != kMountType)
    return Fail(ErrorCode::kInvalidArgument, Quoted(*path) + " is no mount of pcrfs but of type " +
                                                 Quoted(mounted->type) + "; umount(8) takes it down");
  if (auto gone = TakeDown(*path, false); !gone) return PassOn(std::move(gone));
  // fusermount3 returns before the mount table shows it.
  for (int tries = 0; tries < 100; ++tries) {
    if (FindMount(*path) != mounted) return kExitDone;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return Fail(ErrorCode::kBusy, Quoted(*path) + " is still mounted five seconds after it was unmounted");
}

}  // namespace pcrfs
