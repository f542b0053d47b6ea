// Showing a mount what its data set has become, without unmounting: the job behind `pcrfs refresh` and SIGHUP.
//
// The data set and its catalog are opened aside; when that fails the mount stays as it is and whoever asked gets the
// sentence. Then the new state takes the old one's place (generations.h), and the kernel is told to forget the names
// and listings of folders that both states have and that changed. It is told by a thread of this object's own, never by
// one that answers requests: the kernel lets go of a name only when no look-up or listing of its folder is under way,
// and those wait for answers. The same lock makes it safe: a look-up that was answered by the old state has left its
// name where it is then found and dropped. A listing is dropped after that.
//
// Ownership: borrows state and session. Thread safety: Ask from any thread. Errors go to whoever asked, as sentences.
#ifndef PCRFS_MOUNT_REFRESHER_H_
#define PCRFS_MOUNT_REFRESHER_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "format/error.h"
#include "fs/file_system.h"
#include "mount/control.h"
#include "mount/generations.h"
#include "mount/session.h"

namespace pcrfs {

class Refresher {
 public:
  // The data set as it is now, with a file system like `current`; null when it is the one that `current` shows. May
  // take long.
  using Opener = std::function<Result<std::unique_ptr<FileSystem>>(const FileSystem& current)>;

  Refresher(Generations& generations, Session& session, Opener open);
  // Waits for its thread; see End.
  ~Refresher();
  Refresher(const Refresher&) = delete;
  Refresher& operator=(const Refresher&) = delete;

  // `done` is called once, from another thread, with what came of a refresh that began after this call.
  void Ask(RefreshDone done);

  // Begins no refresh any more and tells the kernel nothing more; returns when that is so, or after two seconds. Before
  // the session is stopped, whose threads the kernel may be waiting for.
  void Quiet();
  // After Quiet: whether the thread has ended, within two seconds. One that opens a data set is not to be had back
  // sooner; then this must not be destroyed.
  [[nodiscard]] bool End();

 private:
  void Work();
  RefreshOutcome Refresh();
  [[nodiscard]] Result<bool> Forget(const Generations::Change& change);
  [[nodiscard]] Result<void> ForgetBelow(const Generations::Change& change, Node folder);

  Generations& generations_;
  Session& session_;
  const Opener open_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<RefreshDone> asked_;
  bool quiet_ = false, telling_ = false, ended_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_REFRESHER_H_
