// The arithmetic of a shard: where each part lies, given how large each is (FORMAT.md, "Where a fragment lies").
//
// The writer fills offsets in by it, the decoder compares what a file claims with it; nobody else computes an offset.
#ifndef PCRFS_FORMAT_SHARD_LAYOUT_H_
#define PCRFS_FORMAT_SHARD_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "format/bytes.h"
#include "format/level.h"
#include "format/shard_index.h"

namespace pcrfs {

// Positions in ShardIndex::section_sizes.
inline constexpr size_t kMetadataSection = 0;
inline constexpr size_t kFirstGroupSection = 1;
inline constexpr size_t kBlobSection = kFirstGroupSection + kShardLevels;
inline constexpr size_t kSectionCount = kBlobSection + 1;

// The bytes before a fragment in its scan group: field 1, length-delimited.
inline constexpr uint8_t kFragmentTag = 0x0A;
constexpr uint64_t FramingSize(uint64_t fragment_size) { return 1 + VarintSize(fragment_size); }

// From the size of the metadata and of every extent, sets all other section sizes, every offset, and every first_crc.
// Expects 10 extents an image and one an opaque entry, sizes of at most 2^42; absent tails and restore records stay
// all zero.
void PlaceParts(ShardIndex& index);

// Where the scan groups end.
[[nodiscard]] uint64_t PublishedEnd(const ShardIndex& index);
// Where the index begins.
[[nodiscard]] uint64_t IndexOffset(const ShardIndex& index);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_SHARD_LAYOUT_H_
