#include <string>

#include "mount/commands/commands.h"
#include "mount/console.h"
#include "mount/control_client.h"
#include "mount/mount_point.h"

namespace pcrfs {

Result<int> Run(const LogLevelCommand& command) {
  const auto mount = FindOurMount(command.mount_point);
  if (!mount) return tl::unexpected(mount.error());
  if (command.level) {
    if (auto changed = SetMountLogLevel(*mount, *command.level); !changed) return PassOn(std::move(changed));
    return kExitDone;
  }
  const auto description = DescribeMount(*mount);
  if (!description) return tl::unexpected(description.error());
  const auto level = LogLevelOfNumber(description->log_level);
  if (!level)
    return Fail(ErrorCode::kUnsupported,
                "the mount on " + Quoted(mount->path) + " logs at a level that this version of pcrfs does not know");
  if (auto printed = Print(std::string(LogLevelName(*level)) + "\n"); !printed) return PassOn(std::move(printed));
  return kExitDone;
}

}  // namespace pcrfs
