// How attributes and numbers are written into the temporary files of a listing (sorted_spool.h, path_table.h).
//
// Pure functions. Nobody but the process that wrote them reads them.
#ifndef PCRFS_FORMAT_SPOOL_TEXT_H_
#define PCRFS_FORMAT_SPOOL_TEXT_H_

#include <cstdint>

#include "format/bytes.h"
#include "format/entry.h"

namespace pcrfs {

inline void AppendAttributes(ByteWriter& out, const Attributes& attributes) {
  out.U32(attributes.mode);
  out.U64(static_cast<uint64_t>(attributes.mtime_ns));
}

[[nodiscard]] inline Attributes TakeAttributes(ByteReader& in) {
  Attributes attributes;
  attributes.mode = in.U32();
  attributes.mtime_ns = static_cast<int64_t>(in.U64());
  return attributes;
}

// Big-endian, so that keys sort by it.
inline void AppendKeyNumber(ByteWriter& out, uint64_t number) {
  for (int shift = 56; shift >= 0; shift -= 8) out.U8(static_cast<uint8_t>(number >> shift));
}

inline uint64_t TakeKeyNumber(ByteReader& in) {
  uint64_t number = 0;
  for (int i = 0; i < 8; ++i) number = number << 8 | in.U8();
  return number;
}

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_SPOOL_TEXT_H_
