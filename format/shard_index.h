// The shard index: section D of a shard (FORMAT.md, ShardIndex), decoded and checked.
//
// DecodeShardIndex trusts nothing: what it returns obeys every rule of FORMAT.md that the index alone can show, so
// later code may use names, counts, offsets and sizes as they are. Both functions are pure and thread-safe; the
// results own their memory, which is bounded by the format's limits (index of at most 256 MiB, 65,536 entries);
// decoding takes at most about four times the bytes of the index beside them, and 96 MiB for 65,536 ordinary images.
// Errors: kDamaged (with what, expected, found), kLimit, kUnsupported (format_version of a later release).
#ifndef PCRFS_FORMAT_SHARD_INDEX_H_
#define PCRFS_FORMAT_SHARD_INDEX_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "format/bytes.h"
#include "format/entry.h"
#include "format/error.h"
#include "format/shard_names.h"

namespace pcrfs {

inline constexpr uint64_t kMaxShardEntries = 65536;
inline constexpr uint64_t kMaxShardDirectories = 65536;
inline constexpr uint64_t kMaxIndexBytes = uint64_t{256} << 20;
inline constexpr uint64_t kMaxFileBytes = uint64_t{1} << 42;                // of a shard and of a source file
inline constexpr uint64_t kPublishedEndLimit = (uint64_t{1} << 31) - 4096;  // metadata and groups stay below
inline constexpr uint64_t kMaxMetadataBytes = uint64_t{1} << 20;            // section A

using ShardId = std::array<uint8_t, 16>;  // first 16 bytes of SHA-256 of the encoded index

struct ShardIndex {
  // Sizes in bytes of the sections in file order: metadata, group 1 .. group L, blobs. Sum = offset of the index.
  std::vector<uint64_t> section_sizes;
  int levels = 0;  // number of scan groups L; 10 in our own shards
  // Every directory that holds an entry of this shard, all ancestors of those, and empty ones: byte-sorted paths
  // relative to the data set's root, which is not listed.
  std::vector<std::string> directories;
  // 1 + directories.size() items, the root's first.
  std::vector<Attributes> directory_attributes;
  // Images in group order, then opaque entries.
  std::vector<Entry> entries;
  uint32_t image_count = 0;
  // CRC-32 of the metadata section without its last 16 bytes (the shard id).
  uint32_t metadata_crc = 0;

  friend bool operator==(const ShardIndex&, const ShardIndex&) = default;
};

// The bytes of section D: every scalar set, fields in number order, so equal indexes give equal bytes. The caller
// guarantees the invariants above (a violation is kInvalidArgument: a defect of ours).
[[nodiscard]] Result<Bytes> EncodeShardIndex(const ShardIndex& index);

// `bytes` is section D whole. Offsets in the result are from the start of the shard file.
[[nodiscard]] Result<ShardIndex> DecodeShardIndex(ByteSpan bytes);

[[nodiscard]] ShardId ComputeShardId(ByteSpan encoded_index);

// The full path of an entry, relative to the data set's root.
[[nodiscard]] std::string EntryPath(const ShardIndex& index, const Entry& entry);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_SHARD_INDEX_H_
