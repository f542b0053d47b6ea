// Why an opaque file was kept whole, worked out again from its own bytes: shards do not store it.
//
// Thread-safe; results own their memory.
#ifndef PCRFS_FORMAT_OPAQUE_REASON_H_
#define PCRFS_FORMAT_OPAQUE_REASON_H_

#include <cstdint>
#include <limits>
#include <optional>

#include "format/entry.h"
#include "format/error.h"
#include "format/file.h"
#include "format/image_encoder.h"
#include "format/memory_gate.h"

namespace pcrfs {

// What finding reasons may cost from now on.
struct ReasonBudget {
  uint64_t bytes = std::numeric_limits<uint64_t>::max();  // to be read
  uint64_t work = std::numeric_limits<uint64_t>::max();   // as EncodeWork counts it
};

// The reason of `entry`, an opaque one of `shard`, for which a pack with `options` keeps it whole; nothing when it
// would not, so that either its shard had no room for it or another release packed it. Claims at `memory` what encoding
// takes, and takes from `budget` what is read and done. Of files that are no JPEGs two bytes are read.
// Errors: those of reading; kDamaged: the bytes are not those that were packed; kLimit: it would cost more than is
// left.
[[nodiscard]] Result<std::optional<Opaque>> WhyOpaque(const ByteSource& shard, const Entry& entry,
                                                      const EncodeOptions& options, MemoryGate& memory,
                                                      ReasonBudget& budget);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_OPAQUE_REASON_H_
