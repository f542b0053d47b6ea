// How much memory a hostile index, list or restore record makes a decoder allocate: counted, not hoped for.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>

#include "format/checksum.h"
#include "format/dataset_index.h"
#include "format/proto/pcrfs.pb.h"
#include "format/protobuf.h"
#include "format/restore_record.h"
#include "format/shard_layout.h"

namespace {

std::atomic<size_t> live_bytes{0}, peak_bytes{0};

}  // namespace

// NOLINTBEGIN(misc-new-delete-overloads)
void* operator new(size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  const size_t live = live_bytes += malloc_usable_size(memory);
  peak_bytes = std::max<size_t>(peak_bytes, live);
  return memory;
}
void operator delete(void* memory) noexcept {
  if (memory != nullptr) live_bytes -= malloc_usable_size(memory);
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }
// NOLINTEND(misc-new-delete-overloads)

namespace pcrfs {
namespace {

constexpr size_t kMiB = 1 << 20;

// The most that `action` had allocated at once, beyond what was there before.
size_t PeakOf(const std::function<void()>& action) {
  const size_t before = live_bytes;
  peak_bytes = before;
  action();
  return peak_bytes - before;
}

// The same few bytes again and again, `size` or a little more.
Bytes Repeated(const Bytes& item, size_t size) {
  Bytes bytes(size - size % item.size() + item.size());
  for (size_t at = 0; at < bytes.size(); at += item.size()) {
    std::copy(item.begin(), item.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return bytes;
}

Bytes Tagged(uint64_t field, ByteSpan content) {
  ByteWriter writer;
  writer.Varint(field << 3 | 2);
  writer.Varint(content.size());
  writer.Append(content);
  return writer.Release();
}

Bytes Closed(const Bytes& body) {
  ByteWriter writer;
  writer.Append(body);
  writer.Append(Bytes{0xC5, 0x77});
  writer.U32(Crc32(body));
  return writer.Release();
}

TEST(DecoderMemoryTest, TheCounterCounts) {
  EXPECT_GE(PeakOf([] { Bytes(10 * kMiB); }), 10 * kMiB);
  // The reason for all this: what libprotobuf alone makes of 1 MiB of empty items.
  const Bytes bytes = Repeated({0x82, 0x01, 0x00}, kMiB);
  EXPECT_GE(PeakOf([&] {
              wire::ShardIndex message;
              ASSERT_TRUE(ParseMessage(bytes, "it", message).has_value());
            }),
            16 * kMiB);
}

TEST(DecoderMemoryTest, EmptyItemsOfAnIndexAreCountedBeforeTheyAreMade) {
  for (const uint64_t field : {5u, 13u, 16u, 17u, 18u}) {
    const Bytes bytes = Repeated(Tagged(field, {}), 16 * kMiB);
    EXPECT_LT(PeakOf([&] { EXPECT_EQ(DecodeShardIndex(bytes).error().code, ErrorCode::kLimit) << field; }), kMiB / 16);
  }
  for (const uint64_t field : {4u, 6u, 8u, 9u, 10u, 12u, 14u}) {
    const Bytes packed = Tagged(field, Bytes(16 * kMiB));
    EXPECT_LT(PeakOf([&] { EXPECT_EQ(DecodeShardIndex(packed).error().code, ErrorCode::kLimit) << field; }), kMiB / 16);
    const Bytes unpacked = Repeated({static_cast<uint8_t>(field << 3), 0x00}, 16 * kMiB);
    EXPECT_LT(PeakOf([&] { EXPECT_EQ(DecodeShardIndex(unpacked).error().code, ErrorCode::kLimit) << field; }),
              kMiB / 16);
  }
}

TEST(DecoderMemoryTest, UnknownFieldsCostWhatTheyAre) {
  const Bytes bytes = Repeated({0xF8, 0x01, 0x00}, 16 * kMiB);  // field 31, again and again
  // The string that holds them grows by doubling.
  EXPECT_LT(PeakOf([&] { EXPECT_FALSE(DecodeShardIndex(bytes).has_value()); }), 3 * 16 * kMiB);
  // Repeated scalars and blobs inside one item are no more than the last of them.
  const Bytes names = Tagged(16, Repeated({0x12, 0x00, 0x2A, 0x00}, 16 * kMiB));
  EXPECT_LT(PeakOf([&] { EXPECT_FALSE(DecodeShardIndex(names).has_value()); }), kMiB);
}

TEST(DecoderMemoryTest, SoAreRowsSizesAndLabelsOfTheList) {
  const Bytes facts = Tagged(1911, Bytes{0x08, 0x01});
  Bytes rows = Repeated(Tagged(1, {}), 16 * kMiB);
  rows.insert(rows.end(), facts.begin(), facts.end());
  Bytes sizes = Tagged(1, Tagged(2, Bytes(16 * kMiB)));
  sizes.insert(sizes.end(), facts.begin(), facts.end());
  Bytes loose_sizes = Tagged(1, Repeated({0x10, 0x00}, 16 * kMiB));
  loose_sizes.insert(loose_sizes.end(), facts.begin(), facts.end());
  const Bytes labels = Tagged(1911, Repeated(Tagged(2, {}), 16 * kMiB));
  for (const Bytes& body : {rows, sizes, loose_sizes, labels}) {
    const Bytes bytes = Closed(body);
    EXPECT_LT(PeakOf([&] { EXPECT_EQ(DecodeDatasetIndex(bytes).error().code, ErrorCode::kLimit); }), kMiB / 16);
  }
}

TEST(DecoderMemoryTest, SoAreSegmentsAndPatchesOfARestoreRecord) {
  for (const Bytes& item : {Bytes{0x0A, 0x00}, Bytes{0x18, 0x00}, Bytes{0x22, 0x00}}) {
    const Bytes bytes = Repeated(item, kMaxRestoreBytes - 2 * item.size());
    EXPECT_LT(PeakOf([&] { EXPECT_EQ(DecodeRestoreRecord(bytes).error().code, ErrorCode::kLimit); }), kMiB / 16);
  }
  const Bytes most = Repeated({0x0A, 0x02, 0x20, 0x01}, 4 * kMaxRestoreSegments);
  EXPECT_LT(PeakOf([&] { EXPECT_FALSE(DecodeRestoreRecord(most).has_value()); }), 12 * kMiB);
}

TEST(DecoderMemoryTest, TheLargestHonestIndexStaysWithinReason) {
  ShardIndex index;
  index.levels = kShardLevels;
  index.directory_attributes = {{0755, 1}};
  index.image_count = static_cast<uint32_t>(kMaxShardEntries);
  for (size_t i = 0; i < kMaxShardEntries; ++i) {
    Entry entry;
    entry.name = "n" + std::to_string(i);
    entry.layout.kind = EntryKind::kImage;
    entry.layout.extents.assign(kShardLevels, Extent{.size = 10});
    entry.layout.crcs.assign(kShardLevels, 1);
    index.entries.push_back(std::move(entry));
  }
  index.section_sizes = {23 + 2 * kMaxShardEntries};
  PlaceParts(index);
  const auto encoded = EncodeShardIndex(index);
  ASSERT_TRUE(encoded.has_value()) << encoded.error().message;
  EXPECT_LT(PeakOf([&] { EXPECT_EQ(DecodeShardIndex(*encoded).value(), index); }), 96 * kMiB);
}

}  // namespace
}  // namespace pcrfs
