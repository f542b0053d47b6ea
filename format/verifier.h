// Checking a data set against itself: every checksum, every index, group framing and labels, ids and footers, and the
// rules that span shards (a path that two shards hold). The job behind `pcrfs verify`.
//
// Reads every byte of every shard once, from front to back. Faults do not stop it: each is reported with shard, entry,
// offset, expected and found. The result is an error only where nothing could be checked (no PCR_index.pb).
#ifndef PCRFS_FORMAT_VERIFIER_H_
#define PCRFS_FORMAT_VERIFIER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "format/dataset.h"
#include "format/error.h"

namespace pcrfs {

struct VerifySummary {
  uint64_t shards = 0;
  uint64_t entries = 0;
  uint64_t bytes = 0;  // read and checked
  uint64_t faults = 0;
};

struct VerifyProgress {
  uint64_t bytes_done = 0, bytes_total = 0;
};

// `on_fault` gets one sentence a fault, `on_progress` is called now and then; both from one thread at a time.
[[nodiscard]] Result<VerifySummary> Verify(const std::string& dataset, unsigned jobs,
                                           const std::function<void(const Error&)>& on_fault,
                                           const std::function<void(const VerifyProgress&)>& on_progress);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_VERIFIER_H_
