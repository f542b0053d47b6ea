// What pcrfs asks of libjpeg-turbo: reading the coefficients of a JPEG, and writing them as a progressive one.
//
// The only includer of <jpeglib.h> in format/. libjpeg's longjmp never leaves the .cc, nothing is printed, and the
// first warning ends the reading: an image that libjpeg complains about is not one to convert.
//
// Thread-safe: each call has its own libjpeg objects. Results own their memory. Peak memory of a call: the image's
// coefficients once (2 bytes each, with MCU padding), the file written, and less than 1 MiB. That is as much as the
// frame header claims: who calls with foreign bytes checks that header first.
// Errors: kDamaged (libjpeg warned or gave up while reading; its words), kUnsupported (read, but libjpeg cannot write
// it as progressive). Memory that runs out is std::bad_alloc, so that no result depends on the machine.
#ifndef PCRFS_FORMAT_JPEG_TRANSCODER_H_
#define PCRFS_FORMAT_JPEG_TRANSCODER_H_

#include <array>
#include <cstdint>
#include <vector>

#include "format/bytes.h"
#include "format/checksum.h"
#include "format/error.h"
#include "format/jpeg_parser.h"

namespace pcrfs {

// All that decoded pixels depend on, marker segments aside. Two files with equal contents are the same picture.
struct JpegContent {
  struct Component {
    int id = 0, h_sampling = 0, v_sampling = 0;
    uint32_t width_in_blocks = 0, height_in_blocks = 0;  // real blocks, without MCU padding
    std::array<uint16_t, 64> quant_table{};              // as used by this component
    friend bool operator==(const Component&, const Component&) = default;
  };
  uint32_t width = 0, height = 0;
  int colour_space = 0;  // J_COLOR_SPACE that libjpeg concludes from JFIF, Adobe and component ids
  bool ycbcr = false;    // that one is YCbCr
  std::vector<Component> components;
  Sha256Digest coefficients{};  // of every real block, component by component, row by row

  friend bool operator==(const JpegContent&, const JpegContent&) = default;
};

// Reads all of the file, which ends with its EOI.
[[nodiscard]] Result<JpegContent> ReadJpegContent(ByteSpan jpeg);

// Reads all of the file as ReadJpegContent does, but says only whether libjpeg takes it for YCbCr.
[[nodiscard]] Result<bool> ReadJpegIsYcbcr(ByteSpan jpeg);

struct ProgressiveJpeg {
  Bytes bytes;          // SOI, the source's APPn and COM segments byte for byte in their order, tables, scans, EOI
  JpegContent content;  // of the source
};

// The same coefficients and tables as a progressive Huffman file with libjpeg's default script. (Where interleaved DC
// scans would need MCUs of more than 10 blocks, which T.81 forbids, these scans are one a component.) `structure` is
// that of `source`, which ends with its EOI. That the result is right is for the caller to prove.
[[nodiscard]] Result<ProgressiveJpeg> ConvertToProgressive(ByteSpan source, const JpegStructure& structure);

// APPn and COM segments, which are copied; all others are written anew.
[[nodiscard]] constexpr bool IsCopiedSegment(uint8_t marker) {
  return (marker >= jpeg_marker::kApp0 && marker <= jpeg_marker::kApp0 + 15) || marker == jpeg_marker::kCom;
}

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_JPEG_TRANSCODER_H_
