#include "tests/support/jpeg_surgery.h"

#include <cstdlib>

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

}  // namespace pcrfs::testing
