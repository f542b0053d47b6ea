#include "format/path_table.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "format/checksum.h"
#include "format/spool_text.h"

namespace pcrfs {
namespace {

// A slot: 16 bytes of key, u8 kind (0 = free), u8 has_items, u32 mode, i64 mtime, u64 number, content, size.
constexpr size_t kKeyBytes = 16;
constexpr size_t kSlotBytes = 56;
constexpr uint64_t kFirstSlots = 1024;

using Slot = std::array<uint8_t, kSlotBytes>;

Slot SlotWith(std::string_view key, const PathFacts& facts) {
  ByteWriter out;
  out.Append(key);
  out.U8(static_cast<uint8_t>(facts.kind));
  out.U8(facts.has_items ? 1 : 0);
  AppendAttributes(out, facts.attributes);
  out.U64(facts.number);
  out.U64(facts.content);
  out.U64(facts.size);
  Slot slot{};
  std::copy(out.bytes().begin(), out.bytes().end(), slot.begin());
  return slot;
}

PathFacts FactsIn(ByteSpan slot) {
  ByteReader in(slot.subspan(kKeyBytes));
  PathFacts facts;
  facts.kind = static_cast<PathFacts::Kind>(in.U8());
  facts.has_items = in.U8() != 0;
  facts.attributes = TakeAttributes(in);
  facts.number = in.U64();
  facts.content = in.U64();
  facts.size = in.U64();
  return facts;
}

bool IsFree(ByteSpan slot) { return slot[kKeyBytes] == 0; }

}  // namespace

PathTable::PathTable(std::string path, size_t memory) : path_(std::move(path)), memory_(memory) {}

Result<PathFacts> PathTable::Find(std::string_view path) const {
  if (slots_ == 0) return PathFacts();
  const Sha256Digest digest = Sha256::Of(AsBytes(path));
  Slot slot;
  auto found = SlotOf(AsText(ByteSpan(digest).first(kKeyBytes)), slot);
  if (!found) return PassOn(std::move(found));
  return IsFree(slot) ? PathFacts() : FactsIn(slot);
}

Result<void> PathTable::Put(std::string_view path, const PathFacts& facts) {
  if (2 * (used_ + 1) > slots_)
    if (auto grown = Grow(); !grown) return grown;
  const Sha256Digest digest = Sha256::Of(AsBytes(path));
  const std::string_view key = AsText(ByteSpan(digest).first(kKeyBytes));
  Slot slot;
  auto found = SlotOf(key, slot);
  if (!found) return PassOn(std::move(found));
  if (IsFree(slot)) ++used_;
  return WriteSlot(*found, SlotWith(key, facts));
}

// Where the key is, or where it belongs, and what is there. At most half of the slots are in use.
Result<uint64_t> PathTable::SlotOf(Key key, MutableByteSpan slot) const {
  uint64_t at = ByteReader(AsBytes(key)).U64() & (slots_ - 1);
  while (true) {
    if (auto read = ReadSlot(at, slot); !read) return PassOn(std::move(read));
    if (IsFree(slot) || AsText(ByteSpan(slot).first(kKeyBytes)) == key) return at;
    at = (at + 1) & (slots_ - 1);
  }
}

Result<void> PathTable::Grow() {
  PathTable larger(path_, memory_);
  if (auto made = larger.MakeRoom(std::max(kFirstSlots, 2 * slots_)); !made) return made;
  Slot slot, there;
  for (uint64_t at = 0; at < slots_; ++at) {
    if (auto read = ReadSlot(at, slot); !read) return read;
    if (IsFree(slot)) continue;
    auto place = larger.SlotOf(AsText(ByteSpan(slot).first(kKeyBytes)), there);
    if (!place) return PassOn(std::move(place));
    if (auto written = larger.WriteSlot(*place, slot); !written) return written;
  }
  larger.used_ = used_;
  *this = std::move(larger);
  return {};
}

Result<void> PathTable::MakeRoom(uint64_t slots) {
  slots_ = slots;
  if (slots * kSlotBytes <= memory_) {
    in_memory_.resize(static_cast<size_t>(slots * kSlotBytes));
    return {};
  }
  auto file = MakeNamelessFile(path_);
  if (!file) return PassOn(std::move(file));
  file_ = std::move(*file);
  if (ftruncate(file_.get(), static_cast<off_t>(slots * kSlotBytes)) != 0)
    return SystemFail("enlarging a temporary file beside " + Quoted(path_), errno);
  return {};
}

Result<void> PathTable::ReadSlot(uint64_t slot, MutableByteSpan out) const {
  const uint64_t offset = slot * kSlotBytes;
  if (!file_.valid()) {
    std::copy_n(in_memory_.begin() + static_cast<std::ptrdiff_t>(offset), kSlotBytes, out.begin());
    return {};
  }
  for (size_t done = 0; done < kSlotBytes;) {
    const ssize_t got = pread(file_.get(), out.data() + done, kSlotBytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return SystemFail("reading a temporary file beside " + Quoted(path_), got < 0 ? errno : EIO);
    done += static_cast<size_t>(got);
  }
  return {};
}

Result<void> PathTable::WriteSlot(uint64_t slot, ByteSpan bytes) {
  const uint64_t offset = slot * kSlotBytes;
  if (!file_.valid()) {
    std::copy(bytes.begin(), bytes.end(), in_memory_.begin() + static_cast<std::ptrdiff_t>(offset));
    return {};
  }
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t put =
        pwrite(file_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return SystemFail("writing a temporary file beside " + Quoted(path_), put < 0 ? errno : EIO);
    done += static_cast<size_t>(put);
  }
  return {};
}

}  // namespace pcrfs
