// Asking running mounts, from other processes: the client's side of control.h.
//
// A mount is asked by a helper process, which is left behind when it does not come back: a FUSE mount whose daemon
// hangs can hold whoever touches it for ever, beyond the reach of signals. So no function here takes longer than its
// `patience` and a little. What a daemon tells is not trusted: text fields end in NUL, numbers may be anything.
// Root asks mounts of other users as that user, since the kernel lets nobody else in.
//
// Free functions; they fork, and so belong into programs with few threads. Errors are sentences for the user.
#ifndef PCRFS_MOUNT_CONTROL_CLIENT_H_
#define PCRFS_MOUNT_CONTROL_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "format/error.h"
#include "mount/control.h"
#include "mount/mount_table.h"

namespace pcrfs {

enum class MountHealth : uint8_t {
  kServing,
  kDead,          // the daemon has ended
  kNotAnswering,  // it did not, within the patience
  kNoAccess,      // another user's
  kHidden,        // other mounts lie over it
  kUnknown,       // something answers, but not as pcrfs does, or only a part of the mount is shown there
};

struct MountReport {
  MountHealth health = MountHealth::kUnknown;
  MountDescription description;  // of kServing
};

inline constexpr std::chrono::milliseconds kControlPatience{3000};

// Whether its pid means a process here.
[[nodiscard]] bool IsOfOurPidNamespace(const MountDescription& description);

// Asks all at the same time; a report for each of `mounts`, which must be ours.
[[nodiscard]] std::vector<MountReport> DescribeMounts(const std::vector<MountedThere>& mounts,
                                                      std::chrono::milliseconds patience = kControlPatience);

// One of them; anything but kServing is an error.
[[nodiscard]] Result<MountDescription> DescribeMount(const MountedThere& mount,
                                                     std::chrono::milliseconds patience = kControlPatience);

[[nodiscard]] Result<void> SetMountLogLevel(const MountedThere& mount, LogLevel level,
                                            std::chrono::milliseconds patience = kControlPatience);

// Returns when the refresh is done. The sentence that comes with it, of a success; a failure's is the error's.
[[nodiscard]] Result<std::string> RefreshMount(const MountedThere& mount, std::chrono::milliseconds patience);

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_CONTROL_CLIENT_H_
