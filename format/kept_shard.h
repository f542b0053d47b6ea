// Shards that an earlier, killed pack left whole: found again, checked byte by byte, and kept.
//
// Thread-safe functions; results own their memory.
#ifndef PCRFS_FORMAT_KEPT_SHARD_H_
#define PCRFS_FORMAT_KEPT_SHARD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "format/error.h"
#include "format/pack_source.h"
#include "format/shard_partition.h"
#include "format/shard_reader.h"

namespace pcrfs {

// The shard with the number of `planned` in `dataset`, when it may stay: every checksum holds, it has exactly the
// plan's paths and folders, and `source` has its files as they were packed. Nothing when it must be written anew; an
// error when it could not be looked at and may be whole.
// `other`, if not null, is then the name of a readable shard there that holds other paths or contents, or stays empty.
[[nodiscard]] Result<std::optional<LoneShard>> FindKeptShard(const std::string& dataset, const PlannedShard& planned,
                                                             const PackSource& source, std::string* other = nullptr);

// Removes what lies under the shard's two possible names, apart from `kept`.
[[nodiscard]] Result<void> RemoveShard(const std::string& dataset, uint64_t number, std::string_view kept = {});

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_KEPT_SHARD_H_
