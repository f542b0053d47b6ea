// Packing a folder of files into a data set: the job behind `pcrfs pack`.
//
// Pack lists SOURCE, writes pack.plan, encodes files in parallel, writes shard after shard and PCR_index.pb last, each
// by temporary file, fsync and rename. Killed at any point, the same call continues after the last whole shard and ends
// with the same bytes, whatever `jobs`. One call at a time per data set (flock on pack.lock).
// The plan stands: it draws the shards' boundaries, and files that come to SOURCE after it are reported, not packed.
// One file that cannot be read never stops a job: it is reported to the observer and skipped; so is one that changes
// each time it is read. A continued pack reports as one that was never interrupted: what became of the files of shards
// that it keeps is worked out again, from the shards and, for images that cannot be restored, from SOURCE.
// Errors: kExists (DATASET holds something else), kInvalidArgument (another plan, SOURCE and DATASET contain one
// another), kBusy (another pack is running), kNoSpace, kPermission, kIo.
#ifndef PCRFS_FORMAT_PACKER_H_
#define PCRFS_FORMAT_PACKER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "format/error.h"
#include "format/image_encoder.h"
#include "format/pack_options.h"
#include "format/skipped.h"

namespace pcrfs {

struct PackProgress {
  uint64_t files_done = 0, files_total = 0;
  uint64_t bytes_done = 0, bytes_total = 0;  // of the source; files of a continued pack count as done at once
};

inline constexpr size_t kOpaqueReasons = static_cast<size_t>(OpaqueReason::kNotRestorable) + 1;

struct PackSummary {
  uint64_t images = 0;                 // converted
  uint64_t images_kept = 0;            // progressive ones kept as they were
  uint64_t images_not_restorable = 0;  // of the converted ones
  uint64_t opaque_files = 0;
  std::array<uint64_t, kOpaqueReasons> opaque_by_reason{};  // by OpaqueReason; they add up to opaque_files
  uint64_t skipped = 0;                                     // files and folders that are not in the data set
  std::array<uint64_t, kSkipReasons> skipped_by_reason{};   // by SkipReason; they add up to `skipped`
  uint64_t excluded = 0;                                    // files and folders that options.exclude leaves out
  uint64_t directories = 0;
  uint64_t shards = 0;
  uint64_t source_bytes = 0;
  uint64_t stored_bytes = 0;
  // An append's: files that the data set keeps as they were packed.
  uint64_t changed = 0;  // in SOURCE since
  uint64_t gone = 0;     // from there
};

// Called from one thread at a time, but from any thread. Calls must not block for long.
class PackObserver {
 public:
  virtual ~PackObserver() = default;
  // While SOURCE is listed: so far.
  virtual void OnListing(uint64_t /*files*/, uint64_t /*bytes*/) {}
  virtual void OnProgress(const PackProgress&) {}
  // Each file that is not an ordinary conversion, in no particular order; `path` relative to SOURCE, raw bytes.
  virtual void OnSkipped(const std::string& /*path*/, const Skipped&) {}
  virtual void OnOpaque(const std::string& /*path*/, const Opaque&) {}
  // An image that is converted, but of which the source's own bytes cannot be had again.
  virtual void OnNotRestorable(const std::string& /*path*/, const std::string& /*reason*/) {}
  // A progressive image that is kept as it was.
  virtual void OnKept(const std::string& /*path*/) {}
  // An append's: packed before, and other or gone in SOURCE now.
  virtual void OnChanged(const std::string& /*path*/, const std::string& /*detail*/) {}
  virtual void OnGone(const std::string& /*path*/) {}
  // All shards are in place, and PCR_index.pb makes a data set of them when this returns. An error ends the pack, which
  // the same call then continues: so what is written here is never missing beside a whole data set.
  virtual Result<void> OnShardsComplete() { return {}; }
};

[[nodiscard]] Result<PackSummary> Pack(const std::string& source, const std::string& dataset,
                                       const PackOptions& options, PackObserver& observer);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_PACKER_H_
