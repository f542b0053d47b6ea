// Checking a data set against itself: every checksum, every index, group framing and labels, ids and footers, and the
// rules that span shards (a path that two shards hold); on request that restore records give their sources, too, which
// takes as long as packing does. The job behind `pcrfs verify`.
//
// Reads every byte of every shard once, from front to back, one shard a thread; then images that are to be restored
// once more. Faults do not stop it: each is reported with shard, entry, offset, expected and found. PCR_index.pb is
// treated as the shards are: damage, a size over the limits or a format version of a later release are faults, though
// then nothing else can be checked. The result is an error only where there is no data set to check: PCR_index.pb is
// missing, also beside shards (kNotFound), or folder or index cannot be opened or read (kNotDirectory, kPermission,
// kIo). Memory, whatever the number of threads: kVerifyIndexBytes for the indexes of the shards that are checked at one
// time and kVerifyRestoreBytes for restoring images (each, or one where that takes more), and 8 bytes for each file of
// the data set.
#ifndef PCRFS_FORMAT_VERIFIER_H_
#define PCRFS_FORMAT_VERIFIER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "format/dataset.h"
#include "format/error.h"

namespace pcrfs {

inline constexpr uint64_t kVerifyIndexBytes = uint64_t{256} << 20;
inline constexpr uint64_t kVerifyRestoreBytes = uint64_t{512} << 20;

struct VerifySummary {
  uint64_t shards = 0;
  uint64_t entries = 0;
  uint64_t bytes = 0;  // read and checked
  uint64_t faults = 0;
  // Shards that lie there without a row in PCR_index.pb, sorted. They are no part of the data set, so no fault.
  std::vector<std::string> unlisted;
};

struct VerifyOptions {
  unsigned jobs = 0;     // threads; 0 = one a processor
  bool restore = false;  // also restore each source that can be, and compare its SHA-256
};

struct VerifyProgress {
  uint64_t bytes_done = 0, bytes_total = 0;
};

// `on_fault` gets one sentence a fault, `on_progress` is called now and then; both
// from one thread at a time.
[[nodiscard]] Result<VerifySummary> Verify(const std::string& dataset, const VerifyOptions& options,
                                           const std::function<void(const Error&)>& on_fault,
                                           const std::function<void(const VerifyProgress&)>& on_progress);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_VERIFIER_H_
