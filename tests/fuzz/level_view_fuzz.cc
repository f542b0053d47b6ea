// Reads of any part of an entry of any make-up, in a shard of any bytes: they must not crash, must refuse what lies
// beyond the end or the shard, and must give the same bytes whether read at once or in two.
#include <algorithm>
#include <cstdlib>

#include "fs/level_view.h"

namespace {

using namespace pcrfs;

void Require(bool condition) {
  if (!condition) std::abort();
}

constexpr uint64_t kShardBytes = 300'000;

EntryLayout MakeLayout(ByteReader& in, const MemorySource& shard) {
  EntryLayout layout;
  const uint8_t flags = in.U8();
  layout.kind = (flags & 1) != 0 ? EntryKind::kImage : EntryKind::kOpaque;
  layout.checked = (flags & 2) != 0;
  const size_t extents = layout.kind == EntryKind::kImage ? size_t{1} + (flags >> 4) : 1;
  const auto next = [&] {
    Extent extent{in.U32() % (kShardBytes + 10), in.U32() % (kShardBytes + 10), 0};
    extent.first_crc = static_cast<uint32_t>(layout.crcs.size());
    Bytes bytes(static_cast<size_t>(extent.size));
    // What lies beyond the shard has CRCs, too; a reader must find out.
    if (!shard.ReadAt(extent.offset, bytes)) std::ranges::fill(bytes, uint8_t{0});
    if (layout.checked) std::ranges::copy(BlockCrcs(bytes), std::back_inserter(layout.crcs));
    return extent;
  };
  for (size_t i = 0; i < extents; ++i) layout.extents.push_back(next());
  if (layout.kind == EntryKind::kImage && (flags & 4) != 0) layout.tail = next();
  return layout;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const MemorySource shard = [] {
    Bytes bytes(kShardBytes);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * i / 7);
    return MemorySource("shard", std::move(bytes));
  }();
  ByteReader in(ByteSpan(data, size));
  const EntryLayout layout = MakeLayout(in, shard);
  const Level level = *Level::FromNumber(1 + in.U8() % 31);
  const uint64_t file_size = SizeAtLevel(layout, level, 10), offset = in.U32() % (file_size + 5);
  Bytes out(static_cast<size_t>(in.U32() % (file_size + 5)));
  const CrcRange range = CrcsNeeded(layout, level, 10, offset, out.size());
  Require(range.first + range.count <= layout.crcs.size());
  const CrcWindow window{range.first, std::span(layout.crcs).subspan(range.first, range.count)};
  const auto read = ReadAtLevel(layout, level, 10, window, shard, offset, out);
  Require(!read || offset + out.size() <= file_size);
  if (!read) {
    Require(!read.error().error.message.empty());
    return 0;
  }
  Bytes halves(out.size());
  const size_t half = out.size() / 3;
  const CrcWindow all{0, layout.crcs};
  Require(ReadAtLevel(layout, level, 10, all, shard, offset, MutableByteSpan(halves).first(half)).has_value());
  Require(ReadAtLevel(layout, level, 10, all, shard, offset + half, MutableByteSpan(halves).subspan(half)).has_value());
  Require(halves == out);
  return 0;
}
