// How much memory the page cache may still take for us: what the machine has available, and what the control groups
// that this process is in leave of it (v1 and v2, each group up the tree).
//
// A control group counts the page cache against its limit; reading ahead more than fits drops what was read first.
// Pure but for reading /proc and the cgroup file systems; thread-safe. Where nothing can be learnt the answer is 0.
#ifndef PCRFS_FS_MEMORY_LIMIT_H_
#define PCRFS_FS_MEMORY_LIMIT_H_

#include <cstdint>
#include <string>

namespace pcrfs {

// Bytes. Memory that holds reclaimable page cache counts as available. `root` is put before every path, for tests.
[[nodiscard]] uint64_t AvailableMemory(const std::string& root = "");

}  // namespace pcrfs

#endif  // PCRFS_FS_MEMORY_LIMIT_H_
