// How a source is packed, and the text in which PCR_index.pb and pack.plan keep it (FORMAT.md, "Pack options").
//
// Values; pure functions. Sizes are bytes. Errors: kInvalidArgument (out of range), kUnsupported (a text with an option
// or a value that this release does not know).
#ifndef PCRFS_FORMAT_PACK_OPTIONS_H_
#define PCRFS_FORMAT_PACK_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "format/error.h"
#include "format/exclude_list.h"
#include "format/image_encoder.h"

namespace pcrfs {

struct PackOrder {
  bool shuffle = false;  // false: bytewise by path
  uint64_t seed = 0;     // of the shuffle
  bool archive = false;  // instead of both: as an archive has them

  friend bool operator==(const PackOrder&, const PackOrder&) = default;
};

inline constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 30;

struct PackOptions {
  unsigned jobs = 0;                           // worker threads; 0 = one a processor
  uint32_t record_images = 256;                // items a shard, 1..65536
  uint64_t record_bytes = uint64_t{64} << 20;  // source bytes a shard
  PackOrder order = {};
  EncodeOptions encode = {};
  ExcludeList exclude = {};
  bool nested = false;  // archives inside an archive are folders
};

[[nodiscard]] Result<void> CheckPackOptions(const PackOptions& options);

// Those that change bytes, "name=value\n" each, sorted; those that came with a later release only where they are used.
// In a value, '%' and control bytes are %XX.
[[nodiscard]] std::string PackOptionsText(const PackOptions& options);
// What PackOptionsText was made of; what it does not hold is as in PackOptions{}.
[[nodiscard]] Result<PackOptions> ParsePackOptions(std::string_view text);

[[nodiscard]] std::string PackOrderText(const PackOrder& order);
// "path", "shuffle" or "shuffle:SEED", what one may ask for; nothing for anything else.
[[nodiscard]] std::optional<PackOrder> ParsePackOrder(std::string_view text);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_PACK_OPTIONS_H_
