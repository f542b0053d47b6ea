// An entry, one file of a data set, as its shard's index describes it: attributes, and where its bytes lie.
//
// This is the common coin of the project: the shard index decodes to entries, the catalog stores them, the read path
// maps reads onto them, published data sets become them. Plain values: whoever holds one owns it, nothing in it
// points elsewhere, no thread rules.
#ifndef PCRFS_FORMAT_ENTRY_H_
#define PCRFS_FORMAT_ENTRY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "format/checksum.h"
#include "format/level.h"

namespace pcrfs {

// A run of bytes of a shard. Its block CRCs are EntryLayout::crcs[first_crc .. first_crc + BlockCount(size)).
struct Extent {
  uint64_t offset = 0;  // from the start of the shard file
  uint64_t size = 0;    // bytes; 0 = nothing there
  uint32_t first_crc = 0;

  friend bool operator==(const Extent&, const Extent&) = default;
};

enum class EntryKind : uint8_t {
  kImage,   // cut into fragments, one a scan group; EOI is stored nowhere and appended when read
  kOpaque,  // kept whole, byte for byte the same at every level
};

struct EntryLayout {
  EntryKind kind = EntryKind::kOpaque;
  // Image: fragment g - 1 for group g, as many as the shard has groups; empty ones have size 0 (never the first).
  // Opaque: exactly one extent, the whole file.
  std::vector<Extent> extents;
  Extent tail;        // image: the bytes that follow EOI at the highest level; size 0 = none
  Extent restore;     // image: its restore record; size 0 = none
  bool kept = false;  // image: a progressive source kept byte for byte, so the highest level is the source itself
  // CRC-32 of every block of all the extents above, in that order. Empty when `checked` is false.
  std::vector<uint32_t> crcs;
  bool checked = true;  // false in published data sets, which hold no checksums

  friend bool operator==(const EntryLayout&, const EntryLayout&) = default;
};

// How many leading fragments of an image `level` shows; one of fewer groups shows all it has, and level 31 stands for
// whatever groups follow, too.
[[nodiscard]] inline size_t GroupsAtLevel(const EntryLayout& layout, Level level) {
  if (level.number() == Level::kMaximum) return layout.extents.size();
  return std::min<size_t>(level.index() + 1, layout.extents.size());
}

// Bytes of the file that `level` shows: an image's fragments 1..k and the two bytes of EOI, at the data set's `highest`
// level its tail too; an opaque entry whole at every level.
[[nodiscard]] inline uint64_t SizeAtLevel(const EntryLayout& layout, Level level, int highest) {
  if (layout.kind == EntryKind::kOpaque) return layout.extents.empty() ? 0 : layout.extents[0].size;
  uint64_t size = 2;
  for (size_t g = 0; g < GroupsAtLevel(layout, level); ++g) size += layout.extents[g].size;
  return size + (level.number() >= highest ? layout.tail.size : 0);
}

// Whether an image's source is had by restoring it (format/jpeg_restorer.h). Otherwise its highest level is shown for
// it, which for opaque entries and kept images is the source itself.
[[nodiscard]] inline bool NeedsRestoring(const EntryLayout& layout) {
  return layout.kind == EntryKind::kImage && !layout.kept && layout.restore.size > 0;
}

// Bytes of the file that `original` shows.
[[nodiscard]] inline uint64_t OriginalSize(const EntryLayout& layout, uint64_t source_size, Level highest) {
  return NeedsRestoring(layout) ? source_size : SizeAtLevel(layout, highest, highest.number());
}

// Attributes of a source file or folder that are kept.
struct Attributes {
  uint32_t mode = 0;     // st_mode & 07777
  int64_t mtime_ns = 0;  // since 1970

  friend bool operator==(const Attributes&, const Attributes&) = default;
};

struct Entry {
  uint32_t directory = 0;  // 0 = the data set's root, k = k-th of ShardIndex::directories counted from 1
  std::string name;        // 1..255 bytes, no '/' and no NUL, not "." or ".."
  Attributes attributes;
  uint64_t source_size = 0;  // bytes of the source file
  Sha256Digest source_sha256{};
  EntryLayout layout;

  friend bool operator==(const Entry&, const Entry&) = default;
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_ENTRY_H_
