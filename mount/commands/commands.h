// The subcommands. Each returns the exit status, or an error whose sentence main() prints and whose status is 1.
// One at a time, from the main thread of a process that has no other.
#ifndef PCRFS_MOUNT_COMMANDS_COMMANDS_H_
#define PCRFS_MOUNT_COMMANDS_COMMANDS_H_

#include "format/error.h"
#include "mount/options.h"

namespace pcrfs {

[[nodiscard]] Result<int> Run(const PackCommand& command);
[[nodiscard]] Result<int> Run(const MountCommand& command);
[[nodiscard]] Result<int> Run(const UmountCommand& command);
// `mount -o remount`, as Run(MountCommand) calls it once the paths in `command` are absolute; `given` is before that.
[[nodiscard]] Result<int> Remount(const MountCommand& command, const MountCommand& given);
[[nodiscard]] Result<int> Run(const ListCommand& command);
[[nodiscard]] Result<int> Run(const LogLevelCommand& command);
[[nodiscard]] Result<int> Run(const RemoveCommand& command);
[[nodiscard]] Result<int> Run(const CompactCommand& command);
[[nodiscard]] Result<int> Run(const RefreshCommand& command);
[[nodiscard]] Result<int> Run(const InfoCommand& command);
[[nodiscard]] Result<int> Run(const LsCommand& command);
[[nodiscard]] Result<int> Run(const CatCommand& command);
[[nodiscard]] Result<int> Run(const ExtractCommand& command);
[[nodiscard]] Result<int> Run(const VerifyCommand& command);
[[nodiscard]] Result<int> Run(const ManifestCommand& command);

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_COMMANDS_COMMANDS_H_
