// The rules for names and paths in a shard: what keeps every mounted tree a tree.
//
// Names are raw bytes. Pure functions, thread-safe. Errors: kDamaged with the path and the rule it breaks, kLimit.
#ifndef PCRFS_FORMAT_SHARD_NAMES_H_
#define PCRFS_FORMAT_SHARD_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "format/entry.h"
#include "format/error.h"

namespace pcrfs {

inline constexpr size_t kMaxNameBytes = 255;
inline constexpr size_t kMaxPathBytes = 4095;  // relative to the data set's root

// 1..255 bytes, no '/', no NUL, not "." and not "..".
[[nodiscard]] bool IsValidName(std::string_view name);

// Paths relative to the root: valid names with '/' between, byte-sorted without duplicates, each path's parent listed.
[[nodiscard]] Result<void> CheckDirectories(const std::vector<std::string>& directories);

// Every entry lies in one of `directories` (checked already) under a valid name that no other entry and no directory
// has there.
[[nodiscard]] Result<void> CheckEntryNames(const std::vector<std::string>& directories,
                                           const std::vector<Entry>& entries);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_SHARD_NAMES_H_
