// A converted image's source: read whole from its shard, checked, and restored (format/jpeg_restorer.h).
//
// Ownership: nothing is kept. Thread safety: pure functions, but for reading `shard`.
#ifndef PCRFS_FS_ORIGINAL_IMAGE_H_
#define PCRFS_FS_ORIGINAL_IMAGE_H_

#include <cstdint>

#include "format/bytes.h"
#include "format/entry.h"
#include "format/file.h"
#include "format/jpeg_restorer.h"
#include "format/level.h"
#include "fs/level_view.h"

namespace pcrfs {

// An image that NeedsRestoring, where it lies.
struct StoredImage {
  const EntryLayout& layout;
  CrcWindow crcs;  // of all its blocks
  const ByteSource& shard;
  Level highest;
  SourceIdentity source;
};

// Bytes of memory that RestoreOriginal takes at most, its result included: known from the image's first bytes, which
// this reads. kLimit: over the fixed limits of what is restored. Other errors: those of ReadAtLevel, kDamaged.
[[nodiscard]] tl::expected<uint64_t, BlockFault> MemoryToRestore(const StoredImage& image);

// The source, whose size and SHA-256 were compared. Errors: those of ReadAtLevel and RestoreJpeg.
[[nodiscard]] tl::expected<Bytes, BlockFault> RestoreOriginal(const StoredImage& image);

}  // namespace pcrfs

#endif  // PCRFS_FS_ORIGINAL_IMAGE_H_
