// What can be learnt of the thread that sent a request, from /proc. Thread-safe.
#ifndef PCRFS_MOUNT_REQUESTER_H_
#define PCRFS_MOUNT_REQUESTER_H_

#include <sys/types.h>

#include <string_view>

namespace pcrfs {

// The thread has a fatal signal pending, so nothing that it waits for is of use to it any more. A signal that its
// program handles is no reason to fail a read of a file, and the kernel does not say which of them interrupted it.
// False where nothing can be learnt (another PID namespace, no /proc).
[[nodiscard]] bool IsBeingKilled(pid_t thread);

// The same of the text of /proc/THREAD/status.
[[nodiscard]] bool HasFatalSignal(std::string_view status);

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_REQUESTER_H_
