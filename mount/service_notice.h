// Telling a service manager how the mount is doing: systemd's protocol for units of Type=notify.
//
// The manager names a datagram socket in NOTIFY_SOCKET, a path or, behind '@', an abstract name; where that is not set,
// nothing happens. The variable stays as it is. One that cannot be told is none of the mount's business: nothing here
// fails, and nothing waits longer than two seconds. Thread-safe as long as nobody changes the environment.
#ifndef PCRFS_MOUNT_SERVICE_NOTICE_H_
#define PCRFS_MOUNT_SERVICE_NOTICE_H_

#include <sys/types.h>

#include <string_view>

namespace pcrfs {

// The mount can be used, and is served by `process`. To be sent by the process that the manager started.
void NotifyReady(pid_t process, std::string_view sentence);
// It cannot be made; why.
void NotifyFailed(std::string_view sentence);
// It is going.
void NotifyStopping();

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_SERVICE_NOTICE_H_
