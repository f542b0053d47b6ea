// What packing a folder would give and take, without writing anything: `pack --dry-run`.
//
// The folder is listed whole, so files, bytes, shards and what would be skipped are counted; then files drawn at random
// are encoded, for ten seconds or 256 files, and what they became stands for the rest. Files of 16 MiB and more are not
// drawn: they are taken to be stored as they are. The same folder gives the same draw, and figures that differ only by
// how many files there was time for.
//
// Memory as in a pack. Blocks; one thread beside its own. Bytes; seconds. Errors: the source cannot be listed.
#ifndef PCRFS_FORMAT_PACK_ESTIMATE_H_
#define PCRFS_FORMAT_PACK_ESTIMATE_H_

#include <cstdint>
#include <string>

#include "format/error.h"
#include "format/packer.h"

namespace pcrfs {

struct PackEstimate {
  uint64_t files = 0, bytes = 0;  // of the source, what is skipped and excluded not counted
  uint64_t shards = 0;
  // Of what was listed: directories, excluded, skipped. Of the files that were tried: all else.
  PackSummary tried;
  double stored_bytes = 0;  // of the data set
  double seconds = 0;       // with as many threads as options.jobs says
};

[[nodiscard]] Result<PackEstimate> EstimatePack(const std::string& source, const std::string& dataset,
                                                const PackOptions& options, PackObserver& observer);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_PACK_ESTIMATE_H_
