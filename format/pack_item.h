// One file on its way into a shard: read, encoded and hashed, or to be kept whole, or skipped.
//
// Thread-safe functions; results own their memory.
#ifndef PCRFS_FORMAT_PACK_ITEM_H_
#define PCRFS_FORMAT_PACK_ITEM_H_

#include <optional>
#include <string>
#include <variant>

#include "format/bytes.h"
#include "format/error.h"
#include "format/image_encoder.h"
#include "format/memory_gate.h"
#include "format/pack_source.h"
#include "format/shard_writer.h"
#include "format/skipped.h"
#include "format/source_tree.h"

namespace pcrfs {

struct OpaqueItem {
  FileFacts file;
  std::optional<Bytes> content;  // nothing: to be read again and streamed when the shard is written
  uint64_t source_size = 0;
  Opaque why;
};

// Nothing for an empty folder, which is only a directory of the shard, and for what was skipped: an Error says why.
using PackItem = std::variant<std::monostate, Error, ImageItem, OpaqueItem>;

// Why a file is opaque whatever else is in it; nothing when EncodeImage is to say.
// `like_jpeg`: it starts with SOI.
[[nodiscard]] std::optional<Opaque> OpaqueUnread(uint64_t size, bool like_jpeg);

// Of an image that is whole and right, but for which its shard has no room.
[[nodiscard]] Opaque NoRoomInShard();

// What an error of reading a file of SOURCE means for the pack.
[[nodiscard]] Skipped WhySkipped(Error error);

// EncodeImage, after what it takes beside `source` was claimed from `memory`.
[[nodiscard]] tl::expected<EncodedImage, Opaque> EncodeWithin(MemoryGate& memory, ByteSpan source,
                                                              const EncodeOptions& options);

// Takes what is `held` of `item`, or opens and reads it, and makes of it what the shard will store. What that takes
// beside the file's own bytes is claimed from `memory` first.
[[nodiscard]] PackItem MakePackItem(const PackSource& source, const SourceRecord& item, HeldContent held,
                                    const EncodeOptions& options, MemoryGate& memory);

// How often a file that changes while it is read is read anew before it is skipped.
inline constexpr int kReadAttempts = 3;

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_PACK_ITEM_H_
