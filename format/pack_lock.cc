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
    struct stat locked, named;
    if (fstat(fd.get(), &locked) != 0) return SystemFail("looking at " + Quoted(path), errno);
    if (stat(path.c_str(), &named) == 0 && named.st_dev == locked.st_dev && named.st_ino == locked.st_ino)
      return PackLock(path, std::move(fd));
  }
}

PackLock::~PackLock() {
  if (fd_.valid()) unlink(path_.c_str());
}

}  // namespace pcrfs
