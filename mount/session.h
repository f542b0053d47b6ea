// A mounted FUSE session: made, served by libfuse's threads, stopped, taken down again whatever happens.
//
// Ownership: a Session refers to the MountState (and through it to the FileSystem), which must outlive it. Its end
// unmounts, lazily when the mount is in use. Threads: Serve blocks one thread, which must not block SIGUSR1 (it is
// used to wake that thread up); Stop and Probe may be called from others meanwhile. Errors are sentences for the user.
// Must not be carried over a fork.
#ifndef PCRFS_MOUNT_SESSION_H_
#define PCRFS_MOUNT_SESSION_H_

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "format/error.h"
#include "format/file.h"
#include "mount/fuse_ops.h"
#include "mount/mount_table.h"

struct fuse_session;

namespace pcrfs {

struct SessionOptions {
  std::string mount_point;  // as ResolveMountPoint gives it
  std::string source;       // shown by mount(8) and df(1)
  bool allow_other = false;
  bool noexec = false;
  unsigned max_threads = 256;  // requests served at the same time
};

class Session {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Session>> Mount(MountState& state, const SessionOptions& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Answers requests until the file system is unmounted, by anyone, or Stop is called.
  [[nodiscard]] Result<void> Serve();
  // Makes Serve return soon; true when it has. Called before Serve, that will return at once. False when after two
  // seconds requests still hang in the store: then the mount is taken down and whoever waits for it gets errors, but
  // Serve returns only when the store gives in.
  bool Stop();
  // Returns when Serve has nothing more to wait for but requests that it began: the file system was unmounted, or Stop
  // was called, or Serve has returned. While another thread is in Serve or is about to be.
  void AwaitEnd();
  // Takes the mount down, lazily when it is in use. After Serve; only the first call does anything. kBusy when it is
  // still there, without a server.
  Result<void> Unmount();
  // Makes the kernel drop what it remembers of a name in a folder, the name's absence included; of a folder's listing
  // and of an inode's attributes. False when it knew nothing of it. Blocks while a look-up or a listing of that folder
  // is under way, so a thread that answers requests must not call these. While another is in Serve.
  bool ForgetEntry(uint64_t parent_id, std::string_view name);
  bool ForgetInode(uint64_t id);
  // Waits until the mount is seen to work, while another thread is in Serve: a stat of the mount point is answered by
  // this session.
  [[nodiscard]] Result<void> Probe() const;

 private:
  Session(MountState& state, SessionOptions options);
  void CutOff();
  [[nodiscard]] bool IsThere() const;

  MountState& state_;
  SessionOptions options_;
  fuse_session* session_ = nullptr;
  std::atomic<bool> mounted_{false};
  std::optional<MountedThere> mount_;  // as the table had it first; nothing for a descriptor that was mounted already

  UniqueFd ending_;  // an eventfd, readable once AwaitEnd need not wait
  std::mutex cut_off_;
  std::mutex mutex_;
  std::condition_variable finished_;
  bool serving_ = false, served_ = false;
  pthread_t serving_thread_{};
};

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_SESSION_H_
