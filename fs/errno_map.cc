#include "fs/errno_map.h"

#include <cerrno>

namespace pcrfs {

int ErrnoOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return EINVAL;
    case ErrorCode::kNotFound:
      return ENOENT;
    case ErrorCode::kExists:
      return EEXIST;
    case ErrorCode::kNotDirectory:
      return ENOTDIR;
    case ErrorCode::kIsDirectory:
      return EISDIR;
    case ErrorCode::kPermission:
      return EACCES;
    case ErrorCode::kNoSpace:
      return ENOSPC;
    case ErrorCode::kBusy:
      return EBUSY;
    case ErrorCode::kIo:
    case ErrorCode::kDamaged:
    case ErrorCode::kShortage:
      return EIO;
    case ErrorCode::kStale:
      return ESTALE;
    case ErrorCode::kUnsupported:
      return EOPNOTSUPP;
    case ErrorCode::kLimit:  // the only limit that a file system call can meet is that of a name's length
      return ENAMETOOLONG;
    case ErrorCode::kInterrupted:
      return EINTR;
  }
  return EIO;
}

}  // namespace pcrfs
