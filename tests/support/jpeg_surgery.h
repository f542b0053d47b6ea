// Byte surgery on JPEGs, for tests that need files no encoder writes.
#ifndef PCRFS_TESTS_SUPPORT_JPEG_SURGERY_H_
#define PCRFS_TESTS_SUPPORT_JPEG_SURGERY_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "format/bytes.h"
#include "format/jpeg_parser.h"

namespace pcrfs::testing {

// A whole marker segment: FF, code, length, content (at most 65,533 bytes).
[[nodiscard]] Bytes Segment(uint8_t marker, ByteSpan content);
[[nodiscard]] Bytes Segment(uint8_t marker, std::string_view content);

void InsertAt(Bytes& bytes, size_t offset, const Bytes& inserted);
void Append(Bytes& bytes, ByteSpan appended);

// The structure of a JPEG that is sound; otherwise the test program ends.
[[nodiscard]] JpegStructure StructureOf(ByteSpan jpeg);

// Offset of the FF of the n-th segment with that marker, from 0, and of the frame header.
[[nodiscard]] size_t SegmentOffset(ByteSpan jpeg, uint8_t marker, size_t n = 0);
[[nodiscard]] size_t FrameOffset(ByteSpan jpeg);

// Scan n, from 0, with the segments before it: a copy, and the file without it.
[[nodiscard]] Bytes ScanBytes(ByteSpan jpeg, size_t n);
[[nodiscard]] Bytes WithoutScan(ByteSpan jpeg, size_t n);

[[nodiscard]] Bytes WithFrameSize(Bytes jpeg, unsigned width, unsigned height);

// 8x8 gray pixels, all tables of ones: one block with DC 0, coded by hand. The DC code 0 stands for 0; the AC codes are
// 00 for `symbol` (run and size) and 01 for end of block.
[[nodiscard]] Bytes TinyGray(uint8_t symbol, const Bytes& entropy_coded);

}  // namespace pcrfs::testing

#endif  // PCRFS_TESTS_SUPPORT_JPEG_SURGERY_H_
