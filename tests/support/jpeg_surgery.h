// Byte surgery on JPEGs, for tests that need files no encoder writes.
#ifndef PCRFS_TESTS_SUPPORT_JPEG_SURGERY_H_
#define PCRFS_TESTS_SUPPORT_JPEG_SURGERY_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "format/bytes.h"

namespace pcrfs::testing {

// A whole marker segment: FF, code, length, content (at most 65,533 bytes).
[[nodiscard]] Bytes Segment(uint8_t marker, ByteSpan content);
[[nodiscard]] Bytes Segment(uint8_t marker, std::string_view content);

void InsertAt(Bytes& bytes, size_t offset, const Bytes& inserted);

}  // namespace pcrfs::testing

#endif  // PCRFS_TESTS_SUPPORT_JPEG_SURGERY_H_
