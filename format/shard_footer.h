// Section E of a shard: its last 48 bytes, which say where the index lies (FORMAT.md, "Section E").
//
// Plain values, pure functions, thread-safe. Offsets and lengths are bytes. Errors of decoding: kDamaged (no magic, a
// wrong checksum, claims that contradict one another), kUnsupported (a footer version of a later release), kLimit.
#ifndef PCRFS_FORMAT_SHARD_FOOTER_H_
#define PCRFS_FORMAT_SHARD_FOOTER_H_

#include <array>
#include <cstdint>

#include "format/bytes.h"
#include "format/error.h"

namespace pcrfs {

inline constexpr size_t kFooterBytes = 48;

struct ShardFooter {
  uint64_t index_offset = 0;
  uint32_t index_length = 0;
  uint32_t index_crc = 0;
  uint64_t file_size = 0;      // of the whole shard, footer included
  uint64_t published_end = 0;  // end of the last scan group: what a published reader may see

  friend bool operator==(const ShardFooter&, const ShardFooter&) = default;
};

[[nodiscard]] Bytes EncodeShardFooter(const ShardFooter& footer);
// `bytes` are the last 48 of the file. What comes back fits together: published_end <= index_offset, and index and
// footer end exactly at file_size; that this is the size of the file is for the caller to compare.
[[nodiscard]] Result<ShardFooter> DecodeShardFooter(ByteSpan bytes);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_SHARD_FOOTER_H_
