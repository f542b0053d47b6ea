#include "fs/original_image.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace pcrfs {
namespace {

constexpr uint64_t kShortHead = uint64_t{128} << 10;

tl::expected<Bytes, BlockFault> ReadStart(const StoredImage& image, uint64_t size) {
  Bytes bytes(static_cast<size_t>(size));
  auto read = ReadAtLevel(image.layout, image.highest, image.highest.number(), image.crcs, image.shard, 0, bytes);
  if (!read) return tl::unexpected<BlockFault>(std::move(read).error());
  return bytes;
}

// Of no single block; the restore record's place stands for the image.
tl::unexpected<BlockFault> WholeImage(const StoredImage& image, Error error) {
  return tl::unexpected<BlockFault>({std::move(error), image.layout.restore.offset, image.layout.restore.size});
}

tl::expected<uint64_t, BlockFault> MemoryByHead(const StoredImage& image, uint64_t head_size) {
  const auto head = ReadStart(image, head_size);
  if (!head) return tl::unexpected<BlockFault>(head.error());
  const auto memory = RestoreMemory(*head, image.source.size);
  if (!memory) return WholeImage(image, memory.error());
  const uint64_t stored = SizeAtLevel(image.layout, image.highest, image.highest.number());
  return *memory + stored + image.layout.restore.size;
}

}  // namespace

tl::expected<uint64_t, BlockFault> MemoryToRestore(const StoredImage& image) {
  const uint64_t fragment = image.layout.extents.at(0).size;
  auto memory = MemoryByHead(image, std::min(fragment, kShortHead));
  if (memory || fragment <= kShortHead || memory.error().error.code == ErrorCode::kLimit) return memory;
  // Metadata of more than two APPn segments stands before the frame header. This memory is counted nowhere, so it is
  // taken for one image at a time.
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  return MemoryByHead(image, fragment);
}

tl::expected<Bytes, BlockFault> RestoreOriginal(const StoredImage& image) {
  const uint64_t size = SizeAtLevel(image.layout, image.highest, image.highest.number());
  const auto stored = ReadStart(image, size);
  if (!stored) return tl::unexpected<BlockFault>(stored.error());
  Bytes record(static_cast<size_t>(image.layout.restore.size));
  if (auto read = ReadRestoreRecord(image.layout, image.crcs, image.shard, record); !read)
    return tl::unexpected<BlockFault>(std::move(read).error());
  auto restored = RestoreJpeg(*stored, record, image.source);
  if (!restored) return WholeImage(image, std::move(restored).error());
  return *std::move(restored);
}

}  // namespace pcrfs
