// The marker structure of a JPEG (ITU-T T.81 annex B), found without decoding anything: frame, scans, segments, EOI.
//
// Bounds-checked and linear in the input, whatever the bytes. What it accepts is not yet a sound image: entropy-coded
// data is walked over, not decoded, and tables are not looked into. What follows EOI is never looked at, so a JPEG in
// a tail adds nothing here. Fields are named as in T.81 where it names them (Ss, Se, Ah, Al).
//
// Pure function, thread-safe. The result owns its memory (at most about 64 bytes for each marker segment, and those
// are bounded) and refers to the input by offsets in bytes from its start.
// Errors: kInvalidArgument (no SOI), kDamaged (cut off, or against the syntax of T.81; the message has the offset),
// kUnsupported (a process that no part of pcrfs handles: lossless, hierarchical, JPEG-LS), kLimit (more than
// kMaxJpegSegments).
#ifndef PCRFS_FORMAT_JPEG_PARSER_H_
#define PCRFS_FORMAT_JPEG_PARSER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "format/bytes.h"
#include "format/error.h"

namespace pcrfs {

class ByteSource;

// Codes of markers: the byte after FF (T.81, table B.1).
namespace jpeg_marker {
inline constexpr uint8_t kSof0 = 0xC0;   // baseline sequential
inline constexpr uint8_t kSof1 = 0xC1;   // extended sequential, Huffman
inline constexpr uint8_t kSof2 = 0xC2;   // progressive, Huffman
inline constexpr uint8_t kDht = 0xC4;    // Huffman tables
inline constexpr uint8_t kSof9 = 0xC9;   // extended sequential, arithmetic
inline constexpr uint8_t kSof10 = 0xCA;  // progressive, arithmetic
inline constexpr uint8_t kDac = 0xCC;    // arithmetic conditioning
inline constexpr uint8_t kRst0 = 0xD0;   // to kRst0 + 7
inline constexpr uint8_t kSoi = 0xD8;
inline constexpr uint8_t kEoi = 0xD9;
inline constexpr uint8_t kSos = 0xDA;
inline constexpr uint8_t kDqt = 0xDB;   // quantisation tables
inline constexpr uint8_t kDnl = 0xDC;   // number of lines, after the first scan
inline constexpr uint8_t kDri = 0xDD;   // restart interval
inline constexpr uint8_t kApp0 = 0xE0;  // to kApp0 + 15
inline constexpr uint8_t kCom = 0xFE;
inline constexpr uint8_t kTem = 0x01;
}  // namespace jpeg_marker

// Far beyond any real file (a scan a bit of every coefficient makes 10,000); bounds the memory of a hostile one.
inline constexpr size_t kMaxJpegSegments = size_t{1} << 20;

struct FrameComponent {
  uint8_t id = 0;           // Ci; nothing keeps two components from having the same
  uint8_t h = 1, v = 1;     // Hi, Vi: sampling factors, 1..4
  uint8_t quant_table = 0;  // Tqi

  friend bool operator==(const FrameComponent&, const FrameComponent&) = default;
};

struct JpegFrame {
  uint8_t marker = 0;                      // code of the SOF marker
  uint8_t precision = 0;                   // P, bits a sample
  uint16_t height = 0;                     // Y, lines; 0 when a DNL segment is to say it
  uint16_t width = 0;                      // X, samples a line, never 0
  std::vector<FrameComponent> components;  // in the order of SOF; 1..255

  [[nodiscard]] bool progressive() const { return marker == jpeg_marker::kSof2 || marker == jpeg_marker::kSof10; }
  [[nodiscard]] bool arithmetic() const { return marker == jpeg_marker::kSof9 || marker == jpeg_marker::kSof10; }
};

struct ScanHeader {
  uint8_t component_count = 0;          // Ns, 1..4
  std::array<uint8_t, 4> components{};  // positions in JpegFrame::components, of the first with the Cs of the scan
  uint8_t Ss = 0, Se = 0;               // band of coefficients in zigzag order, Ss <= Se <= 63
  uint8_t Ah = 0, Al = 0;               // successive approximation: bits before and after; Ah = 0: a first scan

  friend bool operator==(const ScanHeader&, const ScanHeader&) = default;
};

struct JpegScan {
  ScanHeader header;
  // The scan with the segments before it: from the end of the scan before it (from SOI, for the first) to its own end,
  // which is where the FF of the next marker lies. FF fill before that marker belongs to this scan.
  size_t begin = 0;
  size_t entropy = 0;  // where entropy-coded data begins, with its RSTn
  size_t end = 0;
};

struct JpegSegment {
  uint8_t marker = 0;
  size_t offset = 0;  // of the marker's FF, the last one where there is fill
  uint32_t size = 0;  // marker and length included; 2 for a marker that stands alone
};

struct JpegStructure {
  JpegFrame frame;
  std::vector<JpegScan> scans;        // at least one
  std::vector<JpegSegment> segments;  // all between SOI and EOI but RSTn within a scan, SOF and SOS too, in file order
  size_t eoi = 0;                     // offset of EOI's FF; the tail begins at eoi + 2
};

[[nodiscard]] Result<JpegStructure> ParseJpeg(ByteSpan bytes);

// The frame header alone, of a file of which at least the bytes up to its end are there.
[[nodiscard]] Result<JpegFrame> ParseJpegFrame(ByteSpan bytes);

// Begins with FF D8, what every file that could be a JPEG does.
[[nodiscard]] bool StartsWithSoi(ByteSpan bytes);
// The same of the `size` bytes at `offset` of a source, of which it reads no more than that takes.
[[nodiscard]] Result<bool> StartsWithSoi(const ByteSource& source, uint64_t offset, uint64_t size);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_JPEG_PARSER_H_
