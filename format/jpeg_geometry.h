// What follows from a frame header about the size of an image and the work of decoding it (T.81 A.1.1, A.2), and the
// limits that the format sets on both (FORMAT.md, "Limits").
//
// Pure functions of checked frames (ParseJpeg), thread-safe, no errors.
#ifndef PCRFS_FORMAT_JPEG_GEOMETRY_H_
#define PCRFS_FORMAT_JPEG_GEOMETRY_H_

#include <cstdint>
#include <vector>

#include "format/jpeg_parser.h"

namespace pcrfs {

// Limits of an image; what is beyond them is opaque. Fixed numbers, so that bytes depend on no machine.
// Coefficients: 64 * blocks of all components, without MCU padding. In memory 2 bytes each.
inline constexpr uint64_t kMaxImageCoefficients = uint64_t{1} << 28;
// Beyond this a converted image gets no restore record.
inline constexpr uint64_t kMaxRestoreCoefficients = uint64_t{1} << 26;
// Decoding a scan costs kScanWork for its tables and, for each block, kBlockWork and one for each coefficient of its
// band: units of one to three nanoseconds. A bound on the sum over all scans keeps a small file of very many scans over
// a large image from running for minutes. (The default script at kMaxImageCoefficients makes 2^30.)
inline constexpr uint64_t kMaxImageWork = uint64_t{1} << 33;
inline constexpr uint64_t kScanWork = 1024;
inline constexpr uint64_t kBlockWork = 8;

struct BlockCounts {
  uint32_t width = 0, height = 0;                // real blocks of a component
  uint32_t padded_width = 0, padded_height = 0;  // with those that fill up MCUs

  [[nodiscard]] uint64_t real() const { return uint64_t{width} * height; }
  [[nodiscard]] uint64_t padded() const { return uint64_t{padded_width} * padded_height; }
};

// MCUs of a scan of several components.
struct McuCounts {
  uint32_t width = 0, height = 0;
};

[[nodiscard]] std::vector<BlockCounts> BlocksOfComponents(const JpegFrame& frame);
[[nodiscard]] McuCounts McusOfFrame(const JpegFrame& frame);
// Of all components, without padding.
[[nodiscard]] uint64_t BlocksOfFrame(const JpegFrame& frame);
// Bytes of all coefficients in memory as libjpeg and JpegCoefficients hold them.
[[nodiscard]] uint64_t CoefficientMemory(const JpegFrame& frame);
// Of decoding all scans, in the units above.
[[nodiscard]] uint64_t DecodingWork(const JpegStructure& structure);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_JPEG_GEOMETRY_H_
