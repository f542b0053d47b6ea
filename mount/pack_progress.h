// How far a pack is: a line on a terminal for people, or JSON for machines (`pack --json-progress`).
//
// For machines: one object a line on standard output, once a second and at each change of phase, and one at the end.
//   {"phase":"listing","files":N,"bytes":N,"seconds":S}
//   {"phase":"packing","files_done":N,"files_total":N,"bytes_done":N,"bytes_total":N,"bytes_per_second":R,
//    "seconds_left":S,"seconds":S}                     rate and time left are null while there is too little to tell by
//   {"phase":"done", ...}                              PackSummaryJson
//
// One thread at a time. Bytes are those of the source. A line that cannot be written is an error only at the end, since
// the pack itself does not depend on it.
#ifndef PCRFS_MOUNT_PACK_PROGRESS_H_
#define PCRFS_MOUNT_PACK_PROGRESS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "format/pack_estimate.h"
#include "format/packer.h"
#include "mount/console.h"

namespace pcrfs {

class PackProgressView {
 public:
  explicit PackProgressView(bool as_json) : as_json_(as_json) {}

  void Listing(uint64_t files, uint64_t bytes);
  void Packing(const PackProgress& progress);
  // Takes the line away, before anything else is written to the terminal.
  void Clear() { line_.Clear(); }

  [[nodiscard]] double seconds() const { return since_start_.seconds(); }

 private:
  // Whether to tell of `phase` now.
  bool Due(std::string_view phase);

  const bool as_json_;
  ProgressLine line_;
  ProgressMeter since_start_;
  ProgressMeter packing_;  // from when that begins
  std::string_view phase_;
  double told_ = 0;  // seconds, of JSON
};

// The last line for machines: the summary's counts by their names in the report.
[[nodiscard]] std::string PackSummaryJson(const PackSummary& summary, double seconds);
// The same of a dry run, with the phase "estimate".
[[nodiscard]] std::string PackEstimateJson(const PackEstimate& estimate);

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_PACK_PROGRESS_H_
