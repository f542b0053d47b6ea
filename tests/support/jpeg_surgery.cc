#include "tests/support/jpeg_surgery.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace pcrfs::testing {

Bytes Segment(uint8_t marker, ByteSpan content) {
  const size_t length = content.size() + 2;
  if (length > 0xFFFF) std::abort();
  Bytes segment = {0xFF, marker, static_cast<uint8_t>(length >> 8), static_cast<uint8_t>(length & 0xFF)};
  segment.insert(segment.end(), content.begin(), content.end());
  return segment;
}

Bytes Segment(uint8_t marker, std::string_view content) { return Segment(marker, AsBytes(content)); }

void InsertAt(Bytes& bytes, size_t offset, const Bytes& inserted) {
  if (offset > bytes.size()) std::abort();
  bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(offset), inserted.begin(), inserted.end());
}

void Append(Bytes& bytes, ByteSpan appended) { bytes.insert(bytes.end(), appended.begin(), appended.end()); }

JpegStructure StructureOf(ByteSpan jpeg) {
  Result<JpegStructure> parsed = ParseJpeg(jpeg);
  if (!parsed) {
    std::fprintf(stderr, "test support: no sound JPEG: %s\n", parsed.error().message.c_str());
    std::abort();
  }
  return *std::move(parsed);
}

size_t SegmentOffset(ByteSpan jpeg, uint8_t marker, size_t n) {
  for (const JpegSegment& segment : StructureOf(jpeg).segments)
    if (segment.marker == marker && n-- == 0) return segment.offset;
  std::abort();
}

size_t FrameOffset(ByteSpan jpeg) { return SegmentOffset(jpeg, StructureOf(jpeg).frame.marker); }

Bytes ScanBytes(ByteSpan jpeg, size_t n) {
  const JpegScan scan = StructureOf(jpeg).scans.at(n);
  const ByteSpan bytes = jpeg.subspan(scan.begin, scan.end - scan.begin);
  return {bytes.begin(), bytes.end()};
}

Bytes WithoutScan(ByteSpan jpeg, size_t n) {
  const JpegScan scan = StructureOf(jpeg).scans.at(n);
  Bytes rest;
  Append(rest, jpeg.first(scan.begin));
  Append(rest, jpeg.subspan(scan.end));
  return rest;
}

Bytes WithFrameSize(Bytes jpeg, unsigned width, unsigned height) {
  const size_t at = FrameOffset(jpeg) + 5;
  jpeg[at] = static_cast<uint8_t>(height >> 8), jpeg[at + 1] = static_cast<uint8_t>(height & 0xFF);
  jpeg[at + 2] = static_cast<uint8_t>(width >> 8), jpeg[at + 3] = static_cast<uint8_t>(width & 0xFF);
  return jpeg;
}

Bytes TinyGray(uint8_t symbol, const Bytes& entropy_coded) {
  Bytes table(65, 1);
  table[0] = 0;
  Bytes dc_codes(18, 0), ac_codes(19, 0);
  dc_codes[1] = 1;  // one code of 1 bit, for symbol 0
  ac_codes[0] = 0x10;
  ac_codes[2] = 2;  // two codes of 2 bits
  ac_codes[17] = symbol;
  Bytes jpeg = {0xFF, jpeg_marker::kSoi};
  Append(jpeg, Segment(jpeg_marker::kDqt, table));
  Append(jpeg, Segment(jpeg_marker::kSof0, Bytes{8, 0, 8, 0, 8, 1, 1, 0x11, 0}));
  Append(jpeg, Segment(jpeg_marker::kDht, dc_codes));
  Append(jpeg, Segment(jpeg_marker::kDht, ac_codes));
  Append(jpeg, Segment(jpeg_marker::kSos, Bytes{1, 1, 0, 0, 63, 0}));
  Append(jpeg, entropy_coded);
  Append(jpeg, Bytes{0xFF, jpeg_marker::kEoi});
  return jpeg;
}

}  // namespace pcrfs::testing
