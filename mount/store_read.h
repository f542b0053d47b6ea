// READ requests that have to wait for the store: through the mount's queue, answered once by whoever comes first, the
// thread that reads or the one that sees the reader being killed.
//
// Included by fuse_ops.cc and tests only. Any thread.
#ifndef PCRFS_MOUNT_STORE_READ_H_
#define PCRFS_MOUNT_STORE_READ_H_

#include <cstdint>
#include <memory>

#include "fs/ino.h"
#include "mount/fuse_ops.h"
#include "mount/reply.h"

namespace pcrfs {

struct ReadArguments {
  std::shared_ptr<const Generation> generation;  // that the read is served by, to its end
  Ino ino;
  uint64_t offset = 0;
  size_t size = 0;
};

// `request` is the one that `reply` answers. Returns when it is answered or left in the queue.
void ReadFromStore(MountState& mount, fuse_req_t request, Reply reply, const ReadArguments& arguments);

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_STORE_READ_H_
