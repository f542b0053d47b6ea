// The folder a data set is mounted on: whether a mount may go there, which of ours is there, taking one down.
//
// Free functions over the mount table and system calls; thread-safe, nothing is kept. Paths are those of the
// user, relative to the working directory or absolute. Errors are sentences that say what to do next.
#ifndef PCRFS_MOUNT_MOUNT_POINT_H_
#define PCRFS_MOUNT_MOUNT_POINT_H_

#include <string>
#include <string_view>

#include "format/error.h"
#include "format/file.h"
#include "mount/mount_table.h"

namespace pcrfs {

// Absolute and free of symbolic links; works on a mount whose daemon is dead. kNotFound when there is no
// such folder. "/dev/fd/N", an open /dev/fuse that whoever started us has mounted already (and whose mount options are
// theirs, default_permissions among them), stays as it is.
[[nodiscard]] Result<std::string> ResolveMountPoint(const std::string& path);
[[nodiscard]] bool IsPassedDescriptor(std::string_view path);
// Its N; -1 for any other path.
[[nodiscard]] int PassedDescriptor(std::string_view path);

// The topmost mount at the user's `path`, which must be one of ours.
[[nodiscard]] Result<MountedThere> FindOurMount(const std::string& path);

// Whether a mount may go onto the resolved `path`: a folder, empty unless `nonempty`, no pcrfs mount there already. A
// pcrfs mount there whose daemon is dead is taken away first. Also that there is a /dev/fuse.
// As long as what comes back is kept, no other pcrfs can ask the same of that place, so a mount made meanwhile is the
// only one. kBusy when another does so for ten seconds.
[[nodiscard]] Result<UniqueFd> PrepareMountPoint(const std::string& path, bool nonempty);

// Takes the topmost mount at the resolved `path` down, by umount2(2) or, without the right to, by fusermount3. kBusy
// when it is in use and not `lazy`: a lazy one vanishes at once from the tree and ends when its last user does.
[[nodiscard]] Result<void> TakeDown(const std::string& path, bool lazy);

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_MOUNT_POINT_H_
