// Which level each scan of a progressive JPEG belongs to: the table of format/FORMAT.md, part of the frozen format.
//
// Decided from the scan headers alone. For the default ten scans of a colour image, level = scan number; other scripts
// fold into the same ten levels such that a level means about the same quality in every image.
//
// Pure function, thread-safe, no errors.
#ifndef PCRFS_FORMAT_SCAN_LEVELS_H_
#define PCRFS_FORMAT_SCAN_LEVELS_H_

#include <span>
#include <vector>

#include "format/jpeg_parser.h"
#include "format/level.h"

namespace pcrfs {

// One level a scan, in file order: never falling, the first always 1. `ycbcr`: libjpeg takes the image for YCbCr, so
// that the second and third component of the frame are Cb and Cr; in any other image every component counts as luma.
[[nodiscard]] std::vector<Level> ScanLevels(std::span<const JpegScan> scans, bool ycbcr);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_SCAN_LEVELS_H_
