// The FUSE callbacks: each unpacks one request, asks the FileSystem, answers through a Reply. Nothing is decided here
// that is not about the kernel: how long it may keep what it is told, and what it need not ask.
//
// Everything shown never changes until a refresh, which tells the kernel what to forget; so it may keep entries,
// attributes, "no such file" and file contents for a year; OPEN and OPENDIR are answered ENOSYS, after which the kernel
// does without them.
//
// MountState is what the callbacks share; it must outlive the session that was made with it (as its userdata). Thread
// safety: callbacks run in many threads at once. Exceptions end here: std::bad_alloc is ENOMEM, anything else EIO.
#ifndef PCRFS_MOUNT_FUSE_OPS_H_
#define PCRFS_MOUNT_FUSE_OPS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "fs/file_system.h"
#include "mount/control.h"
#include "mount/generations.h"
#include "mount/read_queue.h"

struct fuse_lowlevel_ops;

namespace pcrfs {

enum class RequestKind : uint8_t {
  kLookup,
  kGetAttr,
  kReadLink,
  kOpen,
  kOpenDir,
  kReadDir,
  kReadDirPlus,
  kRead,
  kStatFs,
  kIoctl,
};
inline constexpr size_t kRequestKinds = 10;

// How many requests of each kind the kernel has sent.
class RequestCounters {
 public:
  void Count(RequestKind kind) { counts_[static_cast<size_t>(kind)].fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] uint64_t operator[](RequestKind kind) const {
    return counts_[static_cast<size_t>(kind)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<uint64_t>, kRequestKinds> counts_{};
};

struct MountState {
  // `file_system` must outlive this.
  explicit MountState(const FileSystem& file_system, ControlFacts control_facts = {})
      : MountState(std::shared_ptr<const FileSystem>(std::shared_ptr<void>(), &file_system), std::move(control_facts)) {
  }
  explicit MountState(std::shared_ptr<const FileSystem> file_system, ControlFacts control_facts = {})
      : generations(std::move(file_system)), facts(std::move(control_facts)) {}

  Generations generations;
  const ControlFacts facts;
  std::function<void(RefreshDone)> refresh;  // not set: this mount cannot be refreshed
  RequestCounters requests;
  ReadQueue reads;  // those that wait for the store
  // What the kernel said at INIT: that it goes on without OPEN and OPENDIR when they are answered ENOSYS.
  std::atomic<bool> no_open{false}, no_opendir{false};
  std::atomic<bool> initialised{false};  // INIT was answered, or serving has ended
  std::atomic<bool> met_kernel{false};   // INIT came
};

// The userdata of the session must be a MountState*.
[[nodiscard]] const fuse_lowlevel_ops& FuseOps();

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_FUSE_OPS_H_
