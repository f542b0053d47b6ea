// An entry as the file that one level shows: which stored bytes make up a part of it, read and checked.
//
// An image at level k is fragments 1..k, then the two bytes of EOI (FF D9), which are stored nowhere, then, at the
// highest level, its tail. An opaque entry is its one extent at every level. Its size is SizeAtLevel (format/entry.h).
//
// Thread safety: pure functions, but for reading `shard`; a thread's first read of part of a block sets 256 KiB aside
// for that thread, otherwise nothing is allocated and whole blocks are read to where they are wanted.
#ifndef PCRFS_FS_LEVEL_VIEW_H_
#define PCRFS_FS_LEVEL_VIEW_H_

#include <cstdint>
#include <span>

#include "format/bytes.h"
#include "format/entry.h"
#include "format/error.h"
#include "format/file.h"
#include "format/level.h"

namespace pcrfs {

// A run of an entry's CRCs: values[0] is EntryLayout::crcs[first].
struct CrcWindow {
  uint64_t first = 0;
  std::span<const uint32_t> values;
};

struct CrcRange {
  uint64_t first = 0;
  uint64_t count = 0;
};

// The CRCs that a ReadAtLevel of the same arguments needs; none when the entry has no checksums.
[[nodiscard]] CrcRange CrcsNeeded(const EntryLayout& layout, Level level, int highest, uint64_t offset, uint64_t size);

// Why a read failed, and where: the first block that could not be read or does not match its checksum, or what of it
// was to be read.
struct BlockFault {
  Error error;
  uint64_t offset = 0, size = 0;  // offset: from the start of the shard
};

// Fills `out` with the bytes from `offset`, which together must lie within SizeAtLevel; `crcs` covers CrcsNeeded. Each
// checksum block that is touched is read whole and checked; after a failure what `out` holds is worth nothing. Blocks
// are read by one request; where that fails, one by one, so that one which cannot be read is known by its offset.
// kDamaged: a block's CRC differs (message: fragment, offset, expected, found). kInvalidArgument: `offset`, `out` or
// `crcs` not as said. kIo, kStale: from `shard`.
[[nodiscard]] tl::expected<void, BlockFault> ReadAtLevel(const EntryLayout& layout, Level level, int highest,
                                                         const CrcWindow& crcs, const ByteSource& shard,
                                                         uint64_t offset, MutableByteSpan out);

// Fills `out`, of layout.restore.size bytes, with an image's restore record; `crcs` covers its blocks. Errors as above.
[[nodiscard]] tl::expected<void, BlockFault> ReadRestoreRecord(const EntryLayout& layout, const CrcWindow& crcs,
                                                               const ByteSource& shard, MutableByteSpan out);

}  // namespace pcrfs

#endif  // PCRFS_FS_LEVEL_VIEW_H_
