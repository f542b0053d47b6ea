#include "fs/level_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/support/faulty_source.h"
#include "tests/support/test_shard_index.h"

namespace pcrfs {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FaultySource;
using ::testing::HasSubstr;
using testing::ImageAtLevel;
using testing::RandomBytes;
using testing::ReadRequest;
using testing::TestShard;
using testing::TestShardBuilder;

constexpr uint64_t kBlock = kChecksumBlock;

Level L(int number) { return *Level::FromNumber(number); }

struct Sample {
  std::vector<Bytes> fragments;
  Bytes tail, opaque;
  TestShard shard;

  [[nodiscard]] const EntryLayout& image() const { return shard.index.entries[1].layout; }
  [[nodiscard]] const EntryLayout& blob() const { return shard.index.entries[2].layout; }
};

// One image of many blocks between others, and an opaque file; four levels.
Sample MakeSample(bool checked = true) {
  Sample sample;
  for (const uint64_t size : {3 * kBlock + 1000, uint64_t{0}, kBlock, 2 * kBlock - 1})
    sample.fragments.push_back(RandomBytes(size, size));
  sample.tail = RandomBytes(kBlock + 77, 5);
  sample.opaque = RandomBytes(5 * kBlock + 3, 6);
  TestShardBuilder builder("PCR_0.pcr", 4, checked);
  builder.AddImage("before.jpg").AddImage("image.jpg", sample.fragments, sample.tail);
  sample.shard = builder.AddOpaque("blob", sample.opaque).Build();
  return sample;
}

tl::expected<Bytes, BlockFault> ReadWith(const EntryLayout& layout, Level level, const ByteSource& source,
                                         uint64_t offset, uint64_t size) {
  Bytes out(static_cast<size_t>(size), 0xEE);
  auto read = ReadAtLevel(layout, level, 4, {0, layout.crcs}, source, offset, out);
  if (!read) return tl::unexpected<BlockFault>(std::move(read).error());
  return out;
}

Bytes Slice(const Bytes& bytes, uint64_t offset, uint64_t size) {
  return {bytes.begin() + static_cast<std::ptrdiff_t>(offset),
          bytes.begin() + static_cast<std::ptrdiff_t>(offset + size)};
}

TEST(LevelViewTest, ShowsFragmentsThenEoiThenAtTheHighestLevelTheTail) {
  const Sample sample = MakeSample();
  const MemorySource source("shard", sample.shard.bytes);
  for (int level = 1; level <= 4; ++level) {
    const Bytes expected = ImageAtLevel(sample.fragments, sample.tail, level, 4);
    ASSERT_EQ(SizeAtLevel(sample.image(), L(level), 4), expected.size());
    const auto read = ReadWith(sample.image(), L(level), source, 0, expected.size());
    ASSERT_TRUE(read);
    EXPECT_EQ(*read, expected) << level;
    EXPECT_EQ(*ReadWith(sample.blob(), L(level), source, 0, sample.opaque.size()), sample.opaque);
  }
}

TEST(LevelViewTest, ReadsAnyPartAsTheWholeHasIt) {
  for (const bool checked : {true, false}) {
    const Sample sample = MakeSample(checked);
    const MemorySource source("shard", sample.shard.bytes);
    std::mt19937_64 random(1);
    for (int level = 1; level <= 4; ++level) {
      const Bytes whole = ImageAtLevel(sample.fragments, sample.tail, level, 4);
      for (int i = 0; i < 150; ++i) {
        const uint64_t offset = random() % (whole.size() + 1);
        const uint64_t most = std::min<uint64_t>(whole.size() - offset, i % 3 == 0 ? 10 : 300'000);
        const uint64_t size = random() % (most + 1);
        const auto read = ReadWith(sample.image(), L(level), source, offset, size);
        ASSERT_TRUE(read) << read.error().error.message;
        ASSERT_EQ(*read, Slice(whole, offset, size)) << "level " << level << ", " << size << " at " << offset;
      }
    }
  }
}

TEST(LevelViewTest, ReadsAroundEveryBorder) {
  const Sample sample = MakeSample();
  const MemorySource source("shard", sample.shard.bytes);
  const Bytes whole = ImageAtLevel(sample.fragments, sample.tail, 4, 4);
  std::vector<uint64_t> borders = {0, kBlock, 2 * kBlock, 3 * kBlock};
  uint64_t position = 0;
  for (const Bytes& fragment : sample.fragments) borders.push_back(position += fragment.size());
  borders.insert(borders.end(), {position + 2, position + 2 + kBlock, whole.size()});
  std::vector<uint64_t> points;
  for (const uint64_t border : borders)
    for (const int64_t step : {-1, 0, 1}) {
      const int64_t point = static_cast<int64_t>(border) + step;
      if (point >= 0 && point <= static_cast<int64_t>(whole.size())) points.push_back(static_cast<uint64_t>(point));
    }
  for (const uint64_t begin : points)
    for (const uint64_t end : points) {
      if (end < begin) continue;
      const auto read = ReadWith(sample.image(), L(4), source, begin, end - begin);
      ASSERT_TRUE(read) << read.error().error.message;
      ASSERT_EQ(*read, Slice(whole, begin, end - begin)) << begin << " to " << end;
    }
}

TEST(LevelViewTest, RefusesWhatLiesBeyondTheEnd) {
  const Sample sample = MakeSample();
  const MemorySource source("shard", sample.shard.bytes);
  const uint64_t size = SizeAtLevel(sample.image(), L(1), 4);
  EXPECT_TRUE(ReadWith(sample.image(), L(1), source, size, 0));
  for (const auto& [offset, count] :
       {std::pair<uint64_t, uint64_t>{size, 1}, {size + 1, 0}, {0, size + 1}, {UINT64_MAX, 2}}) {
    const auto read = ReadWith(sample.image(), L(1), source, offset, count);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().error.code, ErrorCode::kInvalidArgument);
  }
}

TEST(LevelViewTest, ReadsWholeBlocksByOneRequestAPart) {
  const Sample sample = MakeSample();
  const FaultySource source("shard", sample.shard.bytes);
  const Extent& first = sample.image().extents[0];
  const Extent& third = sample.image().extents[2];
  // From the middle of block 1 of fragment 1 into fragment 3: the rest of fragment 1 and all of the one block.
  ASSERT_TRUE(ReadWith(sample.image(), L(3), source, kBlock + 500, 2 * kBlock + 500 + 7));
  EXPECT_THAT(source.reads(),
              ElementsAre(ReadRequest{first.offset + kBlock, 2 * kBlock + 1000}, ReadRequest{third.offset, kBlock}));
}

TEST(LevelViewTest, ReadsWithoutChecksumsExactlyWhatIsAsked) {
  const Sample sample = MakeSample(false);
  const FaultySource source("shard", sample.shard.bytes);
  ASSERT_TRUE(ReadWith(sample.image(), L(3), source, kBlock + 500, 10));
  EXPECT_THAT(source.reads(), ElementsAre(ReadRequest{sample.image().extents[0].offset + kBlock + 500, 10}));
}

// The blocks of the entry's parts, each with the range of the level-4 file that needs it.
struct Needed {
  uint64_t shard_offset, block_size, file_begin;
};

std::vector<Needed> BlocksOf(const Sample& sample) {
  std::vector<Needed> blocks;
  uint64_t position = 0;
  const auto add = [&](const Extent& extent) {
    for (uint64_t at = 0; at < extent.size; at += kBlock)
      blocks.push_back({extent.offset + at, std::min(kBlock, extent.size - at), position + at});
    position += extent.size;
  };
  for (const Extent& extent : sample.image().extents) add(extent);
  position += 2;
  add(sample.image().tail);
  return blocks;
}

TEST(LevelViewTest, AFlippedByteFailsExactlyTheReadsThatTouchItsBlock) {
  const Sample sample = MakeSample();
  const Bytes whole = ImageAtLevel(sample.fragments, sample.tail, 4, 4);
  std::mt19937_64 random(2);
  for (const Needed& block : BlocksOf(sample)) {
    FaultySource source("shard", sample.shard.bytes);
    source.Flip(block.shard_offset + random() % block.block_size);
    const uint64_t end = block.file_begin + block.block_size;
    for (const uint64_t size : {uint64_t{1}, uint64_t{4096}, kBlock, 2 * kBlock})
      for (uint64_t offset = 0; offset + size <= whole.size(); offset += size / 2 + 1 + random() % 20'000) {
        const bool touches = offset < end && offset + size > block.file_begin;
        const auto read = ReadWith(sample.image(), L(4), source, offset, size);
        ASSERT_EQ(read.has_value(), !touches) << size << " at " << offset;
        if (read) {
          ASSERT_EQ(*read, Slice(whole, offset, size));
        } else {
          ASSERT_EQ(read.error().error.code, ErrorCode::kDamaged);
          ASSERT_EQ(read.error().offset, block.shard_offset);
        }
      }
  }
}

TEST(LevelViewTest, LowerLevelsReadPastDamageInHigherOnes) {
  const Sample sample = MakeSample();
  FaultySource source("shard", sample.shard.bytes);
  source.Flip(sample.image().extents[2].offset);
  source.FailAt(sample.image().tail.offset, {ErrorCode::kIo, "bad sector"});
  for (int level = 1; level <= 4; ++level) {
    const uint64_t size = SizeAtLevel(sample.image(), L(level), 4);
    EXPECT_EQ(ReadWith(sample.image(), L(level), source, 0, size).has_value(), level < 3) << level;
  }
}

TEST(LevelViewTest, SaysWhatIsDamagedAndHow) {
  const Sample sample = MakeSample();
  FaultySource source("shard", sample.shard.bytes);
  const Extent& extent = sample.image().extents[3];
  source.Flip(extent.offset + kBlock);
  const auto read = ReadWith(sample.image(), L(4), source, SizeAtLevel(sample.image(), L(3), 4) - 2 + kBlock, 1);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().error.message,
              AllOf(HasSubstr("fragment 4"), HasSubstr(std::to_string(extent.offset + kBlock)), HasSubstr("expected"),
                    HasSubstr("found")));
}

TEST(LevelViewTest, PassesOnWhyAReadFailed) {
  const Sample sample = MakeSample();
  FaultySource source("shard", sample.shard.bytes);
  source.FailAt(sample.image().extents[0].offset + 2 * kBlock + 5, {ErrorCode::kStale, "it has shrunk"});
  const auto read = ReadWith(sample.image(), L(1), source, 2 * kBlock, 1);
  ASSERT_FALSE(read) << "the whole block is read";
  EXPECT_EQ(read.error().error.code, ErrorCode::kStale);
  EXPECT_EQ(read.error().error.message, "it has shrunk");
  EXPECT_EQ(read.error().offset, sample.image().extents[0].offset + 2 * kBlock);
  EXPECT_TRUE(ReadWith(sample.image(), L(1), source, 0, 2 * kBlock));
}

TEST(LevelViewTest, NeedsNoMoreCrcsThanItSays) {
  const Sample sample = MakeSample();
  const MemorySource source("shard", sample.shard.bytes);
  std::mt19937_64 random(3);
  for (const EntryLayout* layout : {&sample.image(), &sample.blob()})
    for (int level = 1; level <= 4; ++level)
      for (int i = 0; i < 100; ++i) {
        const uint64_t whole = SizeAtLevel(*layout, L(level), 4);
        const uint64_t offset = random() % whole, size = 1 + random() % std::min<uint64_t>(whole - offset, 200'000);
        const CrcRange range = CrcsNeeded(*layout, L(level), 4, offset, size);
        ASSERT_LE(range.count, size / kBlock + 7);
        const CrcWindow window{range.first, std::span(layout->crcs).subspan(range.first, range.count)};
        Bytes out(static_cast<size_t>(size));
        ASSERT_TRUE(ReadAtLevel(*layout, L(level), 4, window, source, offset, out)) << offset << " " << size;
        if (range.count == 0) continue;
        const CrcWindow less{range.first + 1, window.values.subspan(1)};
        ASSERT_FALSE(ReadAtLevel(*layout, L(level), 4, less, source, offset, out)) << "it is needed";
      }
}

TEST(LevelViewTest, ShowsAllGroupsOfAPublishedRecordAt31) {
  const std::vector<Bytes> fragments(40, RandomBytes(10, 1));
  TestShardBuilder builder("record", 40, false);
  const TestShard shard = builder.AddImage("a.jpg", fragments).Build();
  const EntryLayout& layout = shard.index.entries[0].layout;
  const MemorySource source("shard", shard.bytes);
  for (const auto& [level, groups] : {std::pair<int, uint64_t>{1, 1}, {30, 30}, {31, 40}}) {
    ASSERT_EQ(SizeAtLevel(layout, L(level), 31), groups * 10 + 2);
    Bytes out(groups * 10 + 2);
    ASSERT_TRUE(ReadAtLevel(layout, L(level), 31, {}, source, 0, out));
    EXPECT_EQ(out, ImageAtLevel(fragments, {}, static_cast<int>(groups), 31));
  }
}

TEST(LevelViewTest, AnImageOfFewerGroupsShowsAllItHas) {
  TestShardBuilder builder("record", 3);
  const std::vector<Bytes> fragments(3, RandomBytes(10, 1));
  const TestShard shard = builder.AddImage("a.jpg", fragments, RandomBytes(5, 2)).Build();
  const EntryLayout& layout = shard.index.entries[0].layout;
  EXPECT_EQ(SizeAtLevel(layout, L(3), 10), 32u);
  EXPECT_EQ(SizeAtLevel(layout, L(9), 10), 32u);
  EXPECT_EQ(SizeAtLevel(layout, L(10), 10), 37u);
}

TEST(LevelViewTest, ReadsNothingOfAnEmptyFile) {
  const TestShard shard = TestShardBuilder("PCR_0.files").AddOpaque("empty", {}).Build();
  const MemorySource source("shard", shard.bytes);
  EXPECT_TRUE(ReadAtLevel(shard.index.entries[0].layout, L(1), 10, {}, source, 0, {}));
  EXPECT_EQ(CrcsNeeded(shard.index.entries[0].layout, L(1), 10, 0, 0).count, 0u);
}

}  // namespace
}  // namespace pcrfs
