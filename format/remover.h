// Removing files and folders from a data set: the job behind `pcrfs remove`.
//
// All paths are looked for before anything is written; one that is not there refuses all. Only the shards that hold
// something of them are written anew, without it, under new numbers, and one rename of PCR_index.pb puts them in
// place. As with rm, removing files leaves their folder, empty or not, and removing a folder takes all that is below
// it. Labels keep their numbers. The shards that were replaced stay in the folder, for mounts that show them, until
// Compact (compactor.h).
// Memory: a shard's index, and the images of the shard that is written. Errors: kNotFound, kNotDirectory (a file with
// '/' behind its name), kInvalidArgument (no path, the root, ".."), and those of DatasetEdit.
#ifndef PCRFS_FORMAT_REMOVER_H_
#define PCRFS_FORMAT_REMOVER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "format/error.h"

namespace pcrfs {

struct RemoveSummary {
  uint64_t files = 0;
  uint64_t shards_replaced = 0;
  uint64_t replaced_bytes = 0;  // of those; what stays on the disk for the time being
  uint64_t shards_written = 0;
  uint64_t written_bytes = 0;
};

// `paths` are relative to the data set's root, without scanK; "." and empty parts mean nothing.
[[nodiscard]] Result<RemoveSummary> Remove(const std::string& dataset, const std::vector<std::string>& paths);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_REMOVER_H_
