// The restore record: what is needed, beside the progressive image, to write a converted source again byte for byte
// (FORMAT.md, "Restore record").
//
// Plain values; the functions are pure and thread-safe, results own their memory (at most about 4 MiB: a record has at
// most 2^20 bytes and 65,536 segments). Numbers that refer to the image, such as a segment of fragment 1 or an offset,
// are checked here only against fixed limits, and by whoever applies the record against the image.
// Errors: kDamaged (also for a kind of segment that this release does not know), kLimit.
#ifndef PCRFS_FORMAT_RESTORE_RECORD_H_
#define PCRFS_FORMAT_RESTORE_RECORD_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "format/bytes.h"
#include "format/error.h"

namespace pcrfs {

inline constexpr uint64_t kMaxRestoreBytes = uint64_t{1} << 20;
inline constexpr size_t kMaxRestoreSegments = 65536;
inline constexpr size_t kMaxMarkerSegments = 65536;  // of fragment 1, that a record can name
inline constexpr size_t kMaxPatchBytes = 64;         // of all patches together

struct RestoreRecord {
  // The k-th marker segment of fragment 1, from 0, SOI not counted: FF, code, length, content.
  struct MarkerSegment {
    uint32_t position = 0;
    friend bool operator==(const MarkerSegment&, const MarkerSegment&) = default;
  };
  // A DHT segment of the standard tables (T.81 K.3).
  enum class StandardTables : uint8_t { kDc0 = 0, kAc0 = 1, kDc1 = 2, kAc1 = 3, kAllFour = 4 };
  struct Literal {
    Bytes bytes;
    friend bool operator==(const Literal&, const Literal&) = default;
  };
  // The next scan's entropy-coded data, with its RSTn.
  struct EntropyData {
    friend bool operator==(const EntropyData&, const EntropyData&) = default;
  };
  using Segment = std::variant<MarkerSegment, StandardTables, Literal, EntropyData>;

  struct Patch {
    uint64_t offset = 0;  // in bytes from SOI
    Bytes bytes;
    friend bool operator==(const Patch&, const Patch&) = default;
  };

  std::vector<Segment> segments;            // the source in file order, without SOI and EOI
  bool padding_bit = false;                 // fills the last byte of each entropy-coded segment
  std::vector<uint32_t> restart_intervals;  // in MCUs, one for each EntropyData; 0 = none
  std::vector<Patch> patches;               // applied last

  friend bool operator==(const RestoreRecord&, const RestoreRecord&) = default;
};

// kInvalidArgument where the record breaks a rule that DecodeRestoreRecord checks.
[[nodiscard]] Result<Bytes> EncodeRestoreRecord(const RestoreRecord& record);
[[nodiscard]] Result<RestoreRecord> DecodeRestoreRecord(ByteSpan bytes);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_RESTORE_RECORD_H_
