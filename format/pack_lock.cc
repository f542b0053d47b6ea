#include "format/pack_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace pcrfs {

Result<PackLock> PackLock::Acquire(const std::string& dataset) {
  const std::string path = dataset + '/' + std::string(kPackLockName);
  while (true) {
    UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!fd.valid()) return SystemFail("opening " + Quoted(path), errno);
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK)
        return Fail(ErrorCode::kBusy, "another pack is writing to " + Quoted(dataset) + " at this moment");
      return SystemFail("locking " + Quoted(path), errno);
    }
    // Its last holder removes the file before it lets go, so what was locked may be nobody's any more.
    PackLock lock(path, std::move(fd));
    const auto held = lock.CheckHeld();
    if (held) return lock;
    if (held.error().code != ErrorCode::kBusy) return tl::unexpected(held.error());
  }
}

PackLock::~PackLock() {
  if (fd_.valid() && CheckHeld()) unlink(path_.c_str());
}

Result<void> PackLock::CheckHeld() const {
  struct stat locked, named;
  if (fstat(fd_.get(), &locked) != 0) return SystemFail("looking at " + Quoted(path_), errno);
  const bool there = stat(path_.c_str(), &named) == 0;
  if (!there && errno != ENOENT && errno != ENOTDIR) return SystemFail("looking at " + Quoted(path_), errno);
  if (there && named.st_dev == locked.st_dev && named.st_ino == locked.st_ino) return {};
  return Fail(ErrorCode::kBusy, Quoted(path_) +
                                    " was removed, or its folder was moved or replaced, while the data set was being "
                                    "written; another command may have written there, so nothing was published");
}

}  // namespace pcrfs
