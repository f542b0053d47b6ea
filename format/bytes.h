// Bounded reading and writing of little-endian integers: the only way bytes from disk become numbers, protobuf aside.
//
// ByteReader does not own its bytes; they must outlive it. A read past the end makes it fail for good: every later
// read gives 0 and ok() stays false, so a decoder may read a whole structure and check once, before it uses a value.
// Thread safety: none; use one per thread.
#ifndef PCRFS_FORMAT_BYTES_H_
#define PCRFS_FORMAT_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace pcrfs {

using ByteSpan = std::span<const uint8_t>;
using MutableByteSpan = std::span<uint8_t>;
using Bytes = std::vector<uint8_t>;

inline ByteSpan AsBytes(std::string_view text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }
inline std::string_view AsText(ByteSpan bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

class ByteReader {
 public:
  explicit ByteReader(ByteSpan bytes) : bytes_(bytes) {}

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] size_t position() const { return position_; }
  [[nodiscard]] size_t remaining() const { return bytes_.size() - position_; }

  uint8_t U8() { return static_cast<uint8_t>(LittleEndian(1)); }
  uint16_t U16() { return static_cast<uint16_t>(LittleEndian(2)); }
  uint32_t U32() { return static_cast<uint32_t>(LittleEndian(4)); }
  uint64_t U64() { return LittleEndian(8); }

  // Base-128 varint of protobuf, at most 10 bytes; longer ones and ones that overflow 64 bits fail.
  uint64_t Varint();

  // The next `size` bytes, or an empty span and failure when fewer remain.
  ByteSpan Take(uint64_t size);

 private:
  uint64_t LittleEndian(size_t size);

  ByteSpan bytes_;
  size_t position_ = 0;
  bool ok_ = true;
};

class ByteWriter {
 public:
  void U8(uint8_t value) { bytes_.push_back(value); }
  void U16(uint16_t value) { LittleEndian(value, 2); }
  void U32(uint32_t value) { LittleEndian(value, 4); }
  void U64(uint64_t value) { LittleEndian(value, 8); }
  void Varint(uint64_t value);
  void Append(ByteSpan bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void Append(std::string_view text) { Append(AsBytes(text)); }

  [[nodiscard]] size_t size() const { return bytes_.size(); }
  [[nodiscard]] const Bytes& bytes() const { return bytes_; }
  void Clear() { bytes_.clear(); }  // keeps the memory
  [[nodiscard]] Bytes Release() { return std::move(bytes_); }

 private:
  void LittleEndian(uint64_t value, size_t size);

  Bytes bytes_;
};

// Number of bytes of `value` as a varint, 1 to 10.
constexpr size_t VarintSize(uint64_t value) {
  size_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_BYTES_H_
