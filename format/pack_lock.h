// pack.lock: at most one pack at a time per data set, by flock(2) on a file that is there only meanwhile.
//
// Released, and the file removed, when the object goes; a killed holder's lock goes with its process, and its file is
// taken over. Errors: kBusy when another process holds it, kPermission, kNoSpace, kIo.
#ifndef PCRFS_FORMAT_PACK_LOCK_H_
#define PCRFS_FORMAT_PACK_LOCK_H_

#include <string>
#include <string_view>
#include <utility>

#include "format/error.h"
#include "format/file.h"

namespace pcrfs {

inline constexpr std::string_view kPackLockName = "pack.lock";

class PackLock {
 public:
  [[nodiscard]] static Result<PackLock> Acquire(const std::string& dataset);
  ~PackLock();
  PackLock(PackLock&&) noexcept = default;
  PackLock& operator=(PackLock&&) = delete;

  // An error when the data set's folder or the lock's file was removed, moved away or replaced meanwhile, so that it
  // keeps nobody out. Before what was written becomes the data set.
  [[nodiscard]] Result<void> CheckHeld() const;

 private:
  PackLock(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_PACK_LOCK_H_
