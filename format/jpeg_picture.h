// The picture that a JPEG decodes to, as a digest: for telling whether two files show the same pixels.
//
// Decoded by libjpeg-turbo with its defaults, row by row. Pure and thread-safe. Memory: a row, and for progressive
// files their coefficients (CoefficientMemory in jpeg_geometry.h).
// Errors: kDamaged: libjpeg warned or gave up; its words.
#ifndef PCRFS_FORMAT_JPEG_PICTURE_H_
#define PCRFS_FORMAT_JPEG_PICTURE_H_

#include <cstdint>

#include "format/bytes.h"
#include "format/checksum.h"
#include "format/error.h"

namespace pcrfs {

struct JpegPicture {
  uint32_t width = 0, height = 0;
  int colour_space = 0;   // J_COLOR_SPACE of the pixels
  Sha256Digest pixels{};  // of all rows

  friend bool operator==(const JpegPicture&, const JpegPicture&) = default;
};

// What follows EOI in `jpeg` does not matter.
[[nodiscard]] Result<JpegPicture> DecodePicture(ByteSpan jpeg);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_JPEG_PICTURE_H_
