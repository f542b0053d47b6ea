// Comparing a data set with the folder that it was packed from: the job behind `pcrfs verify --source`.
//
// Each file and folder of the data set must be in SOURCE, and each one of SOURCE that can be packed in the data set;
// files must have the size and SHA-256 that are stored; converted images must decode to the same pixels at the highest
// level as in SOURCE (or have the same coefficients and tables, where libjpeg decodes neither). Modes and times are not
// compared. That the stored bytes give what the stored SHA-256 says, kept, opaque and, on request, restored, is for
// Verify (format/verifier.h) to find out; together they prove that every byte is there.
//
// One shard a thread. Memory: each thread a shard's index and 1 MiB, 16 bytes for each path, and 1 GiB in all (or one
// image, where that needs more) for decoding. Both functions are called from one thread at a time.
// Errors: SOURCE cannot be opened. Faults of the data set are differences.
#ifndef PCRFS_MOUNT_SOURCE_COMPARISON_H_
#define PCRFS_MOUNT_SOURCE_COMPARISON_H_

#include <cstdint>
#include <functional>
#include <string>

#include "format/dataset.h"
#include "format/error.h"

namespace pcrfs {

struct SourceComparison {
  uint64_t files = 0;  // that are in both and were compared
  uint64_t bytes = 0;  // of those, in SOURCE
  uint64_t differences = 0;
  uint64_t left_aside = 0;  // in SOURCE, of a kind that no pack holds: sockets, broken links, names over the limits
};

// `on_difference` gets one sentence each; `on_progress` the stored bytes of the files compared so far.
[[nodiscard]] Result<SourceComparison> CompareWithSource(
    const Dataset& dataset, const std::string& source, unsigned jobs,
    const std::function<void(const std::string&)>& on_difference,
    const std::function<void(uint64_t bytes_done, uint64_t bytes_total)>& on_progress);

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_SOURCE_COMPARISON_H_
