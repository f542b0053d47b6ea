// The control interface of a mount: ioctls on its root directory, and nothing inside any tree.
//
// Here are the commands and structs that travel, and the daemon's side; control_client.h is the other side. Structs
// have a fixed size below the 16,384 bytes that fit a command number, fixed-width fields and no pointers; unset bytes
// are 0. The size is part of the number, so a struct never changes its size: fields are added in what is reserved, and
// the version goes up; anything larger is another command. Commands are compared whole: what programs ask every file
// they open (TCGETS and its like) is ENOTTY at once.
//
// AnswerControl is called from many threads at once. Errors are errno values, for the kernel.
#ifndef PCRFS_MOUNT_CONTROL_H_
#define PCRFS_MOUNT_CONTROL_H_

#include <linux/ioctl.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "format/bytes.h"
#include "fs/ino.h"
#include "fs/tree.h"
#include "mount/options.h"

namespace pcrfs {

inline constexpr uint32_t kControlVersion = 1;

inline constexpr int32_t kShowsAllLevels = -1;

struct MountDescription {
  uint32_t version = 0;        // kControlVersion of the daemon
  uint32_t levels = 0;         // that the data set has
  int32_t shown_level = 0;     // number of the tree that is the root, 0 = original; or kShowsAllLevels
  uint32_t log_level = 0;      // LogLevelNumber
  uint64_t pid = 0;            // of the daemon, in its own pid namespace
  uint64_t pid_namespace = 0;  // inode number of that; 0: not known
  int64_t started_ns = 0;      // when it was mounted; since 1970
  char program[24] = {};       // version of pcrfs, ends in NUL
  uint8_t reserved[192] = {};
  char dataset[4096] = {};  // absolute path, ends in NUL
};
static_assert(sizeof(MountDescription) == 256 + 4096);

struct LogLevelChange {
  uint32_t log_level = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(LogLevelChange) == 8);

enum class RefreshStatus : uint32_t { kDone = 0, kNothingNew = 1, kFailed = 2 };

struct RefreshOutcome {
  uint32_t status = 0;  // RefreshStatus
  uint32_t reserved = 0;
  char sentence[4088] = {};  // what came of it, ends in NUL
};
static_assert(sizeof(RefreshOutcome) == 4096);
using RefreshDone = std::function<void(const RefreshOutcome&)>;

inline constexpr unsigned kControlType = 0xE6;
// Open to whoever may open the root.
inline constexpr uint32_t kDescribeMount = _IOR(kControlType, 1, MountDescription);
// EPERM for others than root and the user who runs the daemon.
inline constexpr uint32_t kSetLogLevel = _IOW(kControlType, 2, LogLevelChange);
// (Number 3 is kept for the mount's counters.)
// EPERM as of kSetLogLevel. The answer comes when the refresh is done, however long the data set takes to be opened.
inline constexpr uint32_t kRefreshMount = _IOR(kControlType, 4, RefreshOutcome);

// Of this process, as in MountDescription.
[[nodiscard]] uint64_t PidNamespace();

// 0 error, 1 warn, 2 info, 3 debug.
[[nodiscard]] uint32_t LogLevelNumber(LogLevel level);
[[nodiscard]] std::optional<LogLevel> LogLevelOfNumber(uint32_t number);

// What never changes while a mount is there.
struct ControlFacts {
  std::string dataset;
  int levels = 0;
  std::optional<Tree> root_tree;  // as in MountView
  int64_t started_ns = 0;
};

struct ControlRequest {
  uint32_t command = 0;
  Ino ino;           // what it was asked of
  uid_t caller = 0;  // in the daemon's user namespace
  ByteSpan in;
  size_t room = 0;  // bytes that the answer may have
};

[[nodiscard]] constexpr bool IsControlCommand(uint32_t command) {
  return command == kDescribeMount || command == kSetLogLevel || command == kRefreshMount;
}

// 0, or why the request is refused: ENOTTY for another command or another file than the mount's root.
[[nodiscard]] int CheckControl(const ControlFacts& facts, const ControlRequest& request);

// The answer's bytes, or a positive errno as CheckControl gives it. Not of kRefreshMount, which takes its time.
[[nodiscard]] tl::expected<Bytes, int> AnswerControl(const ControlFacts& facts, const ControlRequest& request);

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_CONTROL_H_
