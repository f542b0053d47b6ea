// Writing coefficients as a progressive JPEG, by libjpeg-turbo.
//
// Thread-safe, as long as each call has its own coefficients. Results own their memory. Memory of a call: the file
// written, and less than 1 MiB.
// Errors: kUnsupported (libjpeg cannot write it as progressive; its words). Memory that runs out is std::bad_alloc, so
// that no result depends on the machine.
#ifndef PCRFS_FORMAT_JPEG_TRANSCODER_H_
#define PCRFS_FORMAT_JPEG_TRANSCODER_H_

#include <cstdint>

#include "format/bytes.h"
#include "format/error.h"
#include "format/jpeg_coefficients.h"
#include "format/jpeg_parser.h"

namespace pcrfs {

struct ProgressiveJpeg {
  Bytes bytes;          // SOI, the source's APPn and COM segments byte for byte in their order, tables, scans, EOI
  JpegContent content;  // of the source
};

// The same coefficients and tables as a progressive Huffman file with libjpeg's default script. (Where interleaved DC
// scans would need MCUs of more than 10 blocks, which T.81 forbids, these scans are one a component.) `structure` and
// `coefficients` are those of `source`. That the result is right is for the caller to prove.
[[nodiscard]] Result<ProgressiveJpeg> ConvertToProgressive(ByteSpan source, const JpegStructure& structure,
                                                           const JpegCoefficients& coefficients);

// APPn and COM segments, which are copied; all others are written anew.
[[nodiscard]] constexpr bool IsCopiedSegment(uint8_t marker) {
  return (marker >= jpeg_marker::kApp0 && marker <= jpeg_marker::kApp0 + 15) || marker == jpeg_marker::kCom;
}

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_JPEG_TRANSCODER_H_
