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
//
// A source that gives its files in order (an archive) is read ahead: one thread at a time takes the next shard's files
// into memory, as long as fewer files than kReadAhead wait for being encoded. A file that is too large for that is
// written by the same thread before it reads on.
#ifndef PCRFS_FORMAT_PACK_PIPELINE_H_
#define PCRFS_FORMAT_PACK_PIPELINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "format/dataset_index.h"
#include "format/error.h"
#include "format/pack_report.h"
#include "format/pack_source.h"

namespace pcrfs {

// Source bytes of the shards that are under way at one time.
inline constexpr uint64_t kInFlightBytes = uint64_t{512} << 20;
// Memory for encoding images, beside that: about one of the largest, and a dozen of 12 megapixels.
inline constexpr uint64_t kEncodeBytes = uint64_t{1} << 30;
// From here on a file is opaque unread: fixed, so that bytes depend on no machine. An image of the largest number of
// coefficients that is converted is smaller; only bytes behind its end could make it pass.
inline constexpr uint64_t kMaxImageSourceBytes = uint64_t{1} << 30;
// Files waiting for a thread from which on an archive is not read ahead.
inline constexpr size_t kReadAhead = 256;
// From here on a file that does not start like a JPEG is streamed instead of being read into memory.
inline constexpr uint64_t kStreamedBytes = uint64_t{16} << 20;

struct PackJob {
  PackSource* source = nullptr;
  std::string dataset;     // folder
  bool continued = false;  // shards of an earlier pack may lie there
  unsigned jobs = 0;       // threads; 0 = one a processor
  EncodeOptions encode = {};
  // Images with which a shard's metadata and groups would pass it are opaque.
  uint64_t published_limit = kPublishedEndLimit;
};

// The rows of all shards, in order.
[[nodiscard]] Result<std::vector<ShardRow>> PackShards(const PackJob& job, PackReport& report);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_PACK_PIPELINE_H_
