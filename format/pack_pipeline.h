// The working part of a pack: from planned shards to shards in place, with many threads and bounded memory.
//
// One unit of work is one file (read, encode, hash) or one whole shard of an earlier, killed pack (check). Whoever
// completes the last file of a shard writes the shard, while the others go on with the next ones. A shard is begun
// only when the source bytes of those under way leave room for it, and an image is encoded only when what that takes
// fits beside the others; so memory is bounded by the sum of kInFlightBytes and kEncodeBytes (each, or one item where
// that is larger), whatever the number of threads. No byte written depends on that number or on their order.
//
// PackShards blocks until all is done or the first error, with its own threads ended. `PackJob` is borrowed meanwhile.
// Errors: those of writing shards and reading the plan, and kNotFound when SOURCE itself is gone. Files that cannot be
// read go to the report.
#ifndef PCRFS_FORMAT_PACK_PIPELINE_H_
#define PCRFS_FORMAT_PACK_PIPELINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "format/dataset_index.h"
#include "format/error.h"
#include "format/pack_plan.h"
#include "format/pack_report.h"
#include "format/shard_partition.h"

namespace pcrfs {

// Source bytes of the shards that are under way at one time.
inline constexpr uint64_t kInFlightBytes = uint64_t{512} << 20;
// Memory for encoding images, beside that: about one of the largest, and a dozen of 12 megapixels.
inline constexpr uint64_t kEncodeBytes = uint64_t{1} << 30;
// From here on a file is opaque unread: fixed, so that bytes depend on no machine. An image of the largest number of
// coefficients that is converted is smaller; only bytes behind its end could make it pass.
inline constexpr uint64_t kMaxImageSourceBytes = uint64_t{1} << 30;
// From here on a file that does not start like a JPEG is streamed instead of being read into memory.
inline constexpr uint64_t kStreamedBytes = uint64_t{16} << 20;

struct PackJob {
  int source = -1;          // SOURCE, an open folder, and
  std::string source_path;  // where it lies
  std::string dataset;      // folder
  const PackPlan* plan = nullptr;
  ShardLimits limits;
  bool continued = false;  // shards of an earlier pack may lie there
  unsigned jobs = 0;       // threads; 0 = one a processor
  EncodeOptions encode = {};
  // Images with which a shard's metadata and groups would pass it are opaque.
  uint64_t published_limit = kPublishedEndLimit;
  uint64_t first_shard = 0;                          // number of the plan's first shard
  const std::vector<std::string>* labels = nullptr;  // of the data set; null: those of the plan
};

// The rows of all shards, in order.
[[nodiscard]] Result<std::vector<ShardRow>> PackShards(const PackJob& job, PackReport& report);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_PACK_PIPELINE_H_
