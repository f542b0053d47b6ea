// From a source file's bytes to what a shard stores of it: fragments by level, or the reason to keep it opaque.
//
// The one place where the rule "lossless, and proved so" (format/FORMAT.md, "What becomes of a source file") is
// applied:
//   * sequential JPEGs become progressive ones with the same coefficients, tables and marker segments; the result is
//     read back and compared with the source before it is believed; and it is tried whether the source's own bytes can
//     be had again from it and a small record;
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
#include "format/jpeg_geometry.h"
#include "format/level.h"

namespace pcrfs {

// Limits of an image beside those of jpeg_geometry.h; what is beyond them is opaque.
// The most that libjpeg reads.
inline constexpr uint32_t kMaxImageSide = 65500;
// From SOI up to EOI, so that an image always fits the published part of a shard.
inline constexpr uint64_t kMaxImageBytes = (uint64_t{1} << 31) - 65536;

struct EncodeOptions {
  // Keep opaque what is converted but cannot be restored, so that every source comes back byte for byte.
  bool exact = false;
  // Convert progressive files too, unless their scans are those of the default script already. (They are not
  // restorable, so with `exact` they are kept as they are.)
  bool rescan = false;
};

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
  // The encoded Restore record (FORMAT.md), which has been tried; empty when there is none.
  Bytes restore;
  // Why a converted image has none; otherwise empty.
  std::string not_restorable;
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
  kNotRestorable,   // its bytes could not be had again from the converted image (EncodeOptions::exact)
};

struct Opaque {
  OpaqueReason reason;
  std::string detail;  // for a report: what exactly, where
};

// Bytes of memory that EncodeImage takes beside `source`, its result included, unless that is larger than its source:
// known from the frame header. 0 for what will be opaque because of it.
[[nodiscard]] uint64_t EncodeMemory(ByteSpan source);

// How long EncodeImage takes beyond looking at the markers: the work of decoding the image once, in the units of
// kMaxImageWork, of which it does three to ten times as much. 0 for what is opaque because of its markers.
[[nodiscard]] uint64_t EncodeWork(ByteSpan source);

[[nodiscard]] tl::expected<EncodedImage, Opaque> EncodeImage(ByteSpan source, const EncodeOptions& options = {});

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_IMAGE_ENCODER_H_
