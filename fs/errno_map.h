// The one table from error codes to errno. Pure, thread-safe.
#ifndef PCRFS_FS_ERRNO_MAP_H_
#define PCRFS_FS_ERRNO_MAP_H_

#include "format/error.h"

namespace pcrfs {

// A positive errno value, never 0.
[[nodiscard]] int ErrnoOf(ErrorCode code);

}  // namespace pcrfs

#endif  // PCRFS_FS_ERRNO_MAP_H_
