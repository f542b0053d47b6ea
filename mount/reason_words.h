// What pack and info call that which became of a file: one set of words and names for both.
//
// Pure functions, thread-safe.
#ifndef PCRFS_MOUNT_REASON_WORDS_H_
#define PCRFS_MOUNT_REASON_WORDS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "format/image_encoder.h"
#include "format/packer.h"
#include "format/skipped.h"

namespace pcrfs {

// "not_jpeg", "vanished": in pack's report and info's JSON, for good.
[[nodiscard]] std::string_view ReasonName(OpaqueReason reason);
[[nodiscard]] std::string_view ReasonName(SkipReason reason);

// Files by what became of them.
struct KindCounts {
  uint64_t restorable = 0, not_restorable = 0, kept = 0;  // images
  std::array<uint64_t, kOpaqueReasons> opaque{};          // by OpaqueReason
  uint64_t opaque_for_unknown_reason = 0;                 // JPEGs
  std::array<uint64_t, kSkipReasons> skipped{};           // by SkipReason
  uint64_t excluded = 0;
  uint64_t changed = 0, gone = 0;  // an append's
};

// A line for each count that is not 0: the number in 12 columns, two spaces, words.
[[nodiscard]] std::string KindLines(const KindCounts& counts);

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_REASON_WORDS_H_
