#include "fs/level_view.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "format/checksum.h"

namespace pcrfs {
namespace {

using Done = tl::expected<void, BlockFault>;

constexpr std::array<uint8_t, 2> kEoiMarker = {0xFF, 0xD9};

// What a level's file is made of, one after the other.
struct Part {
  enum class Kind : uint8_t { kFragment, kEoi, kTail, kRestore, kWhole };
  Kind kind = Kind::kWhole;
  size_t group = 0;   // of a fragment
  Extent extent;      // but of EOI only the size
  uint64_t from = 0;  // what is wanted of it
  uint64_t size = 0;
};

std::string Name(const Part& part) {
  switch (part.kind) {
    case Part::Kind::kFragment:
      return "fragment " + std::to_string(part.group);
    case Part::Kind::kTail:
      return "the bytes after its end";
    case Part::Kind::kRestore:
      return "its restore record";
    default:
      return "its content";
  }
}

// Calls `visit` with each part that [offset, offset + size) of the level's file touches, in order, until that fails.
template <typename Visit>
Done ForEachPart(const EntryLayout& layout, Level level, int highest, uint64_t offset, uint64_t size,
                 const Visit& visit) {
  uint64_t position = 0;
  const auto consider = [&](Part part) -> Done {
    const uint64_t begin = std::max(offset, position), end = std::min(offset + size, position + part.extent.size);
    part.from = begin - position;
    position += part.extent.size;
    if (begin >= end) return {};
    part.size = end - begin;
    return visit(part);
  };
  if (layout.kind == EntryKind::kOpaque) return consider({Part::Kind::kWhole, 0, layout.extents.at(0)});
  for (size_t g = 0; g < GroupsAtLevel(layout, level); ++g)
    if (auto done = consider({Part::Kind::kFragment, g + 1, layout.extents[g]}); !done) return done;
  if (auto done = consider({Part::Kind::kEoi, 0, {0, kEoiMarker.size(), 0}}); !done) return done;
  return level.number() >= highest ? consider({Part::Kind::kTail, 0, layout.tail}) : Done();
}

// Buffers one behind the other: what comes before what is wanted, that, and what follows it.
using Pieces = std::array<MutableByteSpan, 3>;

// Bytes before and behind what is wanted, down to and up to the borders of blocks.
struct Padding {
  uint64_t head, tail;
};

Padding PaddingOf(const Part& part) {
  const uint64_t end = part.from + part.size;
  const uint64_t block_end = std::min(part.extent.size, BlockCount(end) * kChecksumBlock);
  return {part.from % kChecksumBlock, block_end - end};
}

// Room for the padding of one read. Not zeroed, so pages that are never used cost nothing.
MutableByteSpan Scratch() {
  thread_local const std::unique_ptr<uint8_t[]> bytes(new uint8_t[2 * kChecksumBlock]);
  return {bytes.get(), 2 * kChecksumBlock};
}

tl::unexpected<BlockFault> Fault(ErrorCode code, std::string message, uint64_t offset, uint64_t size) {
  return tl::unexpected<BlockFault>({Error{code, std::move(message)}, offset, size});
}

// Checks the blocks of `part` from `block` on, whose bytes lie in `pieces`, one after the other.
Done CheckBlocks(const Part& part, uint64_t block, const CrcWindow& crcs, std::span<const MutableByteSpan> pieces) {
  ByteSpan rest;
  for (const uint64_t end = BlockCount(part.from + part.size); block < end; ++block) {
    uint32_t found = 0;
    const uint64_t size = std::min(kChecksumBlock, part.extent.size - block * kChecksumBlock);
    for (uint64_t left = size; left > 0;) {
      for (; rest.empty(); pieces = pieces.subspan(1)) rest = pieces.front();
      const ByteSpan taken = rest.first(static_cast<size_t>(std::min<uint64_t>(left, rest.size())));
      found = Crc32(taken, found);
      rest = rest.subspan(taken.size());
      left -= taken.size();
    }
    const uint64_t offset = part.extent.offset + block * kChecksumBlock, index = part.extent.first_crc + block;
    if (index < crcs.first || index - crcs.first >= crcs.values.size())
      return Fault(ErrorCode::kInvalidArgument, "no checksum was given for " + Name(part), offset, size);
    const uint32_t expected = crcs.values[static_cast<size_t>(index - crcs.first)];
    if (found == expected) continue;
    char text[48];
    std::snprintf(text, sizeof text, "CRC-32 expected %08x, found %08x", expected, found);
    return Fault(ErrorCode::kDamaged, Name(part) + ", block at offset " + std::to_string(offset) + ": " + text, offset,
                 size);
  }
  return {};
}

// `size` bytes of the buffers `pieces`, from `from` on.
Pieces Cut(const Pieces& pieces, uint64_t from, uint64_t size) {
  Pieces cut;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const uint64_t skipped = std::min<uint64_t>(from, pieces[i].size());
    const uint64_t taken = std::min(size, pieces[i].size() - skipped);
    cut[i] = pieces[i].subspan(static_cast<size_t>(skipped), static_cast<size_t>(taken));
    from -= skipped;
    size -= taken;
  }
  return cut;
}

// Fills `pieces` with the bytes of `part` from `begin` on.
Done ReadBlocks(const Part& part, uint64_t begin, const ByteSource& shard, const Pieces& pieces) {
  const uint64_t end = begin + pieces[0].size() + pieces[1].size() + pieces[2].size();
  const auto read = [&](uint64_t from, uint64_t to) -> Done {
    const uint64_t offset = part.extent.offset + from;
    auto filled = shard.ReadParts(offset, Cut(pieces, from - begin, to - from));
    if (filled) return {};
    return tl::unexpected<BlockFault>({std::move(filled).error(), offset, to - from});
  };
  const auto block_end = [end](uint64_t at) { return std::min((at / kChecksumBlock + 1) * kChecksumBlock, end); };
  auto all = read(begin, end);
  if (all || block_end(begin) == end) return all;
  for (uint64_t at = begin; at < end; at = block_end(at))
    if (auto block = read(at, block_end(at)); !block) return block;
  return {};
}

// Blocks are read whole, by one request, what is wanted straight to where it is wanted.
Done ReadPart(const Part& part, bool checked, const CrcWindow& crcs, const ByteSource& shard, MutableByteSpan out) {
  const Padding padding = checked ? PaddingOf(part) : Padding{0, 0};
  Pieces pieces = {MutableByteSpan(), out, MutableByteSpan()};
  if (padding.head + padding.tail > 0) {
    const MutableByteSpan scratch = Scratch();
    pieces[0] = scratch.first(static_cast<size_t>(padding.head));
    pieces[2] = scratch.last(static_cast<size_t>(padding.tail));
  }
  const uint64_t begin = part.from - padding.head;
  if (auto read = ReadBlocks(part, begin, shard, pieces); !read) return read;
  return checked ? CheckBlocks(part, begin / kChecksumBlock, crcs, pieces) : Done();
}

}  // namespace

CrcRange CrcsNeeded(const EntryLayout& layout, Level level, int highest, uint64_t offset, uint64_t size) {
  if (!layout.checked) return {};
  uint64_t first = UINT64_MAX, end = 0;
  (void)ForEachPart(layout, level, highest, offset, size, [&](const Part& part) -> Done {
    if (part.kind == Part::Kind::kEoi) return {};
    first = std::min(first, part.extent.first_crc + part.from / kChecksumBlock);
    end = std::max(end, part.extent.first_crc + BlockCount(part.from + part.size));
    return {};
  });
  return end == 0 ? CrcRange{} : CrcRange{first, end - first};
}

Done ReadAtLevel(const EntryLayout& layout, Level level, int highest, const CrcWindow& crcs, const ByteSource& shard,
                 uint64_t offset, MutableByteSpan out) {
  const uint64_t size = SizeAtLevel(layout, level, highest);
  if (layout.extents.empty() || offset > size || out.size() > size - offset)
    return Fault(ErrorCode::kInvalidArgument, "a read beyond the end of the file", 0, 0);
  return ForEachPart(layout, level, highest, offset, out.size(), [&](const Part& part) -> Done {
    const MutableByteSpan wanted = out.first(static_cast<size_t>(part.size));
    out = out.subspan(wanted.size());
    if (part.kind != Part::Kind::kEoi) return ReadPart(part, layout.checked, crcs, shard, wanted);
    std::memcpy(wanted.data(), kEoiMarker.data() + part.from, wanted.size());
    return {};
  });
}

Done ReadRestoreRecord(const EntryLayout& layout, const CrcWindow& crcs, const ByteSource& shard, MutableByteSpan out) {
  if (out.size() != layout.restore.size)
    return Fault(ErrorCode::kInvalidArgument, "a restore record is read whole", layout.restore.offset,
                 layout.restore.size);
  return ReadPart({Part::Kind::kRestore, 0, layout.restore, 0, out.size()}, layout.checked, crcs, shard, out);
}

}  // namespace pcrfs
