// An entry as the file that one level shows: its size, and which stored bytes make up a part of it. Pure functions.
//
// An image at level k is fragments 1..k, then the two bytes of EOI (FF D9), which are stored nowhere, then, at the
// highest level, its tail. An opaque entry is its one extent at every level. Levels above the number of groups show
// what the highest shows.
#ifndef PCRFS_FS_LEVEL_VIEW_H_
#define PCRFS_FS_LEVEL_VIEW_H_

#include <cstdint>

#include "format/bytes.h"
#include "format/entry.h"
#include "format/error.h"
#include "format/file.h"
#include "format/level.h"

namespace pcrfs {

// Bytes of the file that `level` shows. `highest` is the data set's highest level.
[[nodiscard]] uint64_t SizeAtLevel(const EntryLayout& layout, Level level, int highest);

// Fills `out` with the bytes from `offset`, which together must lie within SizeAtLevel. Each checksum block that is
// touched is read whole and checked before a byte of it is handed out.
// kDamaged: a block's CRC differs (message: extent, offset, expected, found). kIo, kStale: from `shard`.
[[nodiscard]] Result<void> ReadAtLevel(const EntryLayout& layout, Level level, int highest, const ByteSource& shard,
                                       uint64_t offset, MutableByteSpan out);

}  // namespace pcrfs

#endif  // PCRFS_FS_LEVEL_VIEW_H_
