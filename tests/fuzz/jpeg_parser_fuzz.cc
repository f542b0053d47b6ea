// The marker parser on any bytes: it must not crash, and what it returns must hang together.
#include <cstdlib>

#include "format/jpeg_parser.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const pcrfs::ByteSpan bytes(data, size);
  const pcrfs::Result<pcrfs::JpegStructure> parsed = pcrfs::ParseJpeg(bytes);
  if (!parsed) {
    Require(!parsed.error().message.empty());
    return 0;
  }
  Require(!parsed->scans.empty() && parsed->frame.width > 0 && !parsed->frame.components.empty());
  Require(parsed->eoi + 2 <= size && bytes[parsed->eoi] == 0xFF && bytes[parsed->eoi + 1] == 0xD9);
  size_t at = 0;
  for (const pcrfs::JpegScan& scan : parsed->scans) {
    Require(scan.begin == at && scan.begin < scan.entropy && scan.entropy <= scan.end && scan.end <= parsed->eoi);
    Require(scan.header.component_count >= 1 && scan.header.component_count <= 4);
    for (size_t i = 0; i < scan.header.component_count; ++i)
      Require(scan.header.components[i] < parsed->frame.components.size());
    at = scan.end;
  }
  at = 2;
  for (const pcrfs::JpegSegment& segment : parsed->segments) {
    Require(segment.offset >= at && segment.size >= 2 && segment.offset + segment.size <= parsed->eoi);
    Require(bytes[segment.offset] == 0xFF && bytes[segment.offset + 1] == segment.marker);
    at = segment.offset + segment.size;
  }
  return 0;
}
