// From a source file's bytes to what a shard stores of it: fragments by level, or the reason to keep it opaque.
//
// The one place where the rule "lossless, and proved so" (format/FORMAT.md, "What becomes of a source file") is
// applied:
//   * sequential JPEGs become progressive ones with the same coefficients, tables and marker segments; the result is
//     read back and compared with the source before it is believed;
//   * complete, undamaged progressive JPEGs are kept byte for byte and cut at their own scans;
//   * everything else is opaque. So a wrong conversion is impossible; at worst an image is kept whole.
//
// EncodeImage is pure and thread-safe. The result owns its bytes. `source` may be any bytes whatever; no input makes
// it crash, throw (std::bad_alloc apart) or print. Peak memory beside the source: 2 bytes for each coefficient of the
// image (at most 512 MiB, and MCU padding) and up to three times the bytes of the result; seen: 520 MB beside the 104
// MB of a source of 144 megapixels.
#ifndef PCRFS_FORMAT_IMAGE_ENCODER_H_
#define PCRFS_FORMAT_IMAGE_ENCODER_H_

#include <array>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "format/bytes.h"
#include "format/level.h"

namespace pcrfs {

// Limits of an image; what is beyond them is opaque. Fixed numbers, so that bytes depend on no machine.
// Coefficients: 64 * blocks of all components, without MCU padding (format/FORMAT.md, "Limits"). In memory 2 bytes each.
inline constexpr uint64_t kMaxImageCoefficients = uint64_t{1} << 28;
// The most that libjpeg reads.
inline constexpr uint32_t kMaxImageSide = 65500;
// From SOI up to EOI, so that an image always fits the published part of a shard.
inline constexpr uint64_t kMaxImageBytes = (uint64_t{1} << 31) - 65536;
// Decoding a scan costs kScanWork for its tables and, for each block, kBlockWork and one for each coefficient of its
// band: units of about a nanosecond. A bound on the sum over all scans keeps a small file of very many scans over a
// large image from running for minutes. (The default script at kMaxImageCoefficients makes 2^30.)
inline constexpr uint64_t kMaxImageWork = uint64_t{1} << 33;
inline constexpr uint64_t kScanWork = 1024;
inline constexpr uint64_t kBlockWork = 8;

struct EncodedImage {
  // From SOI up to, not including, EOI: all fragments one after the other.
  Bytes bytes;
  // Bytes of each fragment; their sum is bytes.size(). The first is never 0.
  std::array<uint32_t, kShardLevels> fragment_sizes{};
  // Kept byte for byte: SOURCE = bytes, FF D9, tail.
  bool kept = false;
  // What follows EOI in the source. When not empty, the last non-empty fragment ends in as many FF fill bytes
  // (T.81 B.1.1.2) as it takes for the tail to start at its old offset.
  Bytes tail;
  // The encoded Restore record (FORMAT.md), empty when there is none.
  Bytes restore;
};

// Why a file is kept opaque. The order is that of reports.
enum class OpaqueReason {
  kNotJpeg,         // does not start with SOI
  kUnsupported,     // 12-bit, lossless, hierarchical, arithmetic progressive, ...: legal, not convertible
  kDamaged,         // libjpeg warns or gives up, or the marker structure is broken
  kIncomplete,      // a progressive file that lacks scans: decoders smooth it
  kMarkersBetween,  // APPn or COM after the first SOS: moving one changes what readers see
  kTooLarge,        // over the limits of the format
  kProofFailed,     // the converted image is not the same in everything the proof compares
};

struct Opaque {
  OpaqueReason reason;
  std::string detail;  // for a report: what exactly, where
};

[[nodiscard]] tl::expected<EncodedImage, Opaque> EncodeImage(ByteSpan source);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_IMAGE_ENCODER_H_
