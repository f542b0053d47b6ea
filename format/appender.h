// Adding to a data set what is new in its source: the job behind `pcrfs pack --append`.
//
// New are the files and empty folders of SOURCE whose paths the data set does not have. They become shards with numbers
// above all that lie in the folder; no shard that is there is touched, and one rename of PCR_index.pb adds the new
// ones. Labels keep their numbers; new top-level folders follow, sorted. Files that changed or are gone in SOURCE are
// told to the observer and stay as they are packed. With nothing new, nothing is written.
//
// append.plan stands beside PCR_index.pb meanwhile: killed at any point, the same call continues by it and ends with
// the same bytes, whatever `jobs`, and until then the data set is what it was before. Packing is as Pack does it
// (packer.h), by the data set's own pack options; memory does not grow with the number of files of either.
// Errors: those of Pack; kInvalidArgument (other options than the data set's, another source or another data set than
// the unfinished append's), kUnsupported (a data set with options of a later release), kLimit (rows, labels).
#ifndef PCRFS_FORMAT_APPENDER_H_
#define PCRFS_FORMAT_APPENDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "format/error.h"
#include "format/packer.h"

namespace pcrfs {

// Options that were asked for must be the data set's own.
struct AppendOptions {
  unsigned jobs = 0;  // as in PackOptions
  std::optional<uint32_t> record_images;
  std::optional<uint64_t> record_bytes;
  std::optional<PackOrder> order;
  bool exact = false, rescan = false;  // asked for
  std::vector<std::string> exclude;    // asked for, where not empty
};

// Of what was added; no shards: there was nothing new.
[[nodiscard]] Result<PackSummary> Append(const std::string& source, const std::string& dataset,
                                         const AppendOptions& options, PackObserver& observer);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_APPENDER_H_
