#include "format/bytes.h"

namespace pcrfs {

uint64_t ByteReader::LittleEndian(size_t size) {
  const ByteSpan bytes = Take(size);
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

uint64_t ByteReader::Varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    const uint8_t byte = U8();
    if (!ok_) return 0;
    if (shift == 63 && byte > 1) break;
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  ok_ = false;
  return 0;
}

ByteSpan ByteReader::Take(uint64_t size) {
  if (!ok_ || size > remaining()) {
    ok_ = false;
    return {};
  }
  const ByteSpan taken = bytes_.subspan(position_, static_cast<size_t>(size));
  position_ += taken.size();
  return taken;
}

void ByteWriter::LittleEndian(uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i) bytes_.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

void ByteWriter::Varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<uint8_t>(value | 0x80));
  bytes_.push_back(static_cast<uint8_t>(value));
}

}  // namespace pcrfs
