#include "format/shard_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "format/shard_footer.h"
#include "format/shard_reader.h"
#include "tests/support/sample_dataset.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_jpeg.h"

namespace pcrfs {
namespace {

using ::testing::HasSubstr;
using testing::KeptImage;
using testing::MakeJpeg;
using testing::ReadFile;
using testing::TempDir;
using testing::WriteShard;

constexpr Attributes kAttributes{0755, 12};

// Pretends to be a large file; fails from `bad_from` on.
class LargeSource final : public ByteSource {
 public:
  LargeSource(uint64_t size, uint64_t bad_from) : size_(size), bad_from_(bad_from) {}
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return size_; }
  Result<void> ReadAt(uint64_t offset, MutableByteSpan out) const override {
    if (offset + out.size() > bad_from_) return Fail(ErrorCode::kStale, "it has shrunk");
    largest = std::max<uint64_t>(largest, out.size());
    std::fill(out.begin(), out.end(), static_cast<uint8_t>(offset / kChecksumBlock));
    return {};
  }
  mutable uint64_t largest = 0;

 private:
  std::string name_ = "large";
  uint64_t size_, bad_from_;
};

Bytes Jpeg(uint32_t seed) { return MakeJpeg({.width = 40, .height = 32, .progressive = true, .seed = seed}); }

LoneShard ReadBack(const std::string& path) {
  const auto file = FileSource::Open(path, FileSource::Access::kRandom);
  EXPECT_TRUE(file.has_value());
  auto lone = ReadLoneShard(**file, std::filesystem::path(path).filename().string());
  EXPECT_TRUE(lone.has_value()) << lone.error().message;
  return lone ? std::move(*lone) : LoneShard{};
}

TEST(ShardWriterTest, LaysTheShardOutAsTheFormatSays) {
  const TempDir dir;
  ImageItem item = KeptImage("", "a.jpg", -1, Jpeg(1));
  const ShardRow row = WriteShard({dir.path(), 7, kAttributes, {}}, {item}, {{{"", "note", kAttributes}, {'x'}}});
  EXPECT_EQ(row.name, "PCR_7.pcr");
  const Bytes file = ReadFile(dir / "PCR_7.pcr");
  ASSERT_EQ(file.size(), row.file_size);

  // Section A: label -1, levels, version, id.
  const Bytes head = {0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
                      0xFF, 0x01, 0x10, 0x0A, 0x18, 0x01, 0xBA, 0x77, 0x10};
  ByteWriter expected;
  expected.Append(head);
  expected.Append(row.id);
  EXPECT_EQ(row.part_sizes[0], expected.size());
  // Groups: the fragments framed; then the opaque file; then the index.
  size_t at = 0;
  for (const uint32_t size : item.image.fragment_sizes) {
    expected.U8(0x0A);
    expected.Varint(size);
    expected.Append(ByteSpan(item.image.bytes).subspan(at, size));
    at += size;
  }
  expected.U8('x');
  EXPECT_EQ(row.index_offset, expected.size());
  EXPECT_EQ(Bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(expected.size())), expected.bytes());
  const ByteSpan index = ByteSpan(file).subspan(row.index_offset, row.index_length);
  EXPECT_EQ(ComputeShardId(index), row.id);
  EXPECT_EQ(Crc32(index), row.index_crc);
  const auto footer = DecodeShardFooter(ByteSpan(file).last(kFooterBytes));
  ASSERT_TRUE(footer.has_value());
  EXPECT_EQ(footer->published_end, row.index_offset - 1);
}

TEST(ShardWriterTest, TheSameInputGivesTheSameBytes) {
  const TempDir one, two;
  std::vector<ShardDirectory> directories = {{"a", kAttributes}, {"a-b", kAttributes}, {"a/c", kAttributes}};
  const std::vector<ImageItem> images = {KeptImage("a", "1", 0, Jpeg(1)), KeptImage("a/c", "2", 0, Jpeg(2))};
  const ShardRow first = WriteShard({one.path(), 0, kAttributes, directories}, images, {});
  std::reverse(directories.begin(), directories.end());
  const ShardRow second = WriteShard({two.path(), 0, kAttributes, directories}, images, {});
  EXPECT_EQ(first, second);
  EXPECT_EQ(ReadFile(one / "PCR_0.pcr"), ReadFile(two / "PCR_0.pcr"));
}

TEST(ShardWriterTest, TheRowCanBeHadFromTheShardAlone) {
  const TempDir dir;
  const ShardRow row = WriteShard({dir.path(), 0, kAttributes, {{"a", kAttributes}}},
                                  {KeptImage("a", "1", 0, Jpeg(1)), KeptImage("", "2", -1, Jpeg(2))}, {});
  const LoneShard lone = ReadBack(dir / "PCR_0.pcr");
  EXPECT_EQ(lone.row, row);
  EXPECT_EQ(lone.index.image_count, 2u);
  const auto misnamed = FileSource::Open(dir / "PCR_0.pcr", FileSource::Access::kRandom);
  EXPECT_FALSE(ReadLoneShard(**misnamed, "PCR_0.files").has_value()) << "images need a .pcr";
}

TEST(ShardWriterTest, AnEmptySourceGivesAShardWithNothingButTheRoot) {
  const TempDir dir;
  const ShardRow row = WriteShard({dir.path(), 0, kAttributes, {}}, {}, {});
  EXPECT_EQ(row.name, "PCR_0.files");
  EXPECT_EQ(row.part_sizes[0], 23u);
  EXPECT_EQ(row.index_offset, 23u);
  const LoneShard lone = ReadBack(dir / "PCR_0.files");
  EXPECT_TRUE(lone.index.entries.empty());
  EXPECT_EQ(lone.index.directory_attributes, std::vector<Attributes>{kAttributes});
}

TEST(ShardWriterTest, StreamsLargeFilesInBlocks) {
  const TempDir dir;
  auto writer = ShardWriter::Create({dir.path(), 0, kAttributes, {}}, {});
  ASSERT_TRUE(writer.has_value());
  const LargeSource large(20 * kChecksumBlock + 1, UINT64_MAX);
  const auto added = writer->AddOpaque({"", "large", kAttributes}, large);
  ASSERT_TRUE(added.has_value() && !added->has_value());
  EXPECT_EQ(large.largest, kChecksumBlock);
  ASSERT_TRUE(writer->Finish().has_value());
  const LoneShard lone = ReadBack(dir / "PCR_0.files");
  ASSERT_EQ(lone.index.entries.size(), 1u);
  EXPECT_EQ(lone.index.entries[0].layout.crcs.size(), 21u);
  EXPECT_EQ(lone.index.entries[0].source_size, 20 * kChecksumBlock + 1);
}

TEST(ShardWriterTest, GoesOnWithoutAFileThatCannotBeRead) {
  const TempDir dir;
  auto writer = ShardWriter::Create({dir.path(), 0, kAttributes, {}}, {});
  ASSERT_TRUE(writer.has_value());
  const auto failed =
      writer->AddOpaque({"", "large", kAttributes}, LargeSource(3 * kChecksumBlock, 2 * kChecksumBlock));
  ASSERT_TRUE(failed.has_value()) << failed.error().message;
  ASSERT_TRUE(failed->has_value());
  EXPECT_EQ((*failed)->code, ErrorCode::kStale);
  const auto too_large = writer->AddOpaque({"", "huge", kAttributes}, LargeSource(uint64_t{1} << 42, UINT64_MAX));
  ASSERT_TRUE(too_large.has_value() && too_large->has_value());
  EXPECT_EQ((*too_large)->code, ErrorCode::kLimit);
  const auto added = writer->AddOpaque({"", "small", kAttributes}, MemorySource("small", {1, 2, 3}));
  ASSERT_TRUE(added.has_value() && !added->has_value());
  ASSERT_TRUE(writer->Finish().has_value());

  const LoneShard lone = ReadBack(dir / "PCR_0.files");
  ASSERT_EQ(lone.index.entries.size(), 1u);
  EXPECT_EQ(lone.index.entries[0].name, "small");
  EXPECT_EQ(ReadFile(dir / "PCR_0.files")[23], 1);
}

TEST(ShardWriterTest, NothingIsLeftOfAShardThatWasNotFinished) {
  const TempDir dir;
  {
    const auto writer = ShardWriter::Create({dir.path(), 0, kAttributes, {}}, {KeptImage("", "1", -1, Jpeg(1))});
    ASSERT_TRUE(writer.has_value());
    EXPECT_FALSE(std::filesystem::exists(dir / "PCR_0.pcr"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(ShardWriterTest, RefusesWhatNoReaderWouldTake) {
  const TempDir dir;
  const ImageItem good = KeptImage("", "1.jpg", -1, Jpeg(1));
  const auto refusal = [&](const std::vector<ShardDirectory>& directories, const std::vector<ImageItem>& images) {
    auto writer = ShardWriter::Create({dir.path(), 0, kAttributes, directories}, images);
    if (!writer) return writer.error();
    const auto row = writer->Finish();
    return row ? Error{ErrorCode::kExists, "accepted"} : row.error();
  };
  EXPECT_EQ(refusal({}, {good}).code, ErrorCode::kExists);
  EXPECT_EQ(refusal({}, {good, good}).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal({{"1.jpg", kAttributes}}, {good}).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal({{"a/b", kAttributes}}, {good}).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal({{"a", kAttributes}, {"a", kAttributes}}, {good}).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal({{"/a", kAttributes}}, {good}).code, ErrorCode::kInvalidArgument);
  ImageItem bad = good;
  bad.file.name = "..";
  EXPECT_EQ(refusal({}, {bad}).code, ErrorCode::kInvalidArgument);
  bad = good;
  bad.file.directory = "elsewhere";
  EXPECT_THAT(refusal({}, {bad}).message, HasSubstr("elsewhere"));
  bad = good;
  bad.file.attributes.mode = 0100644;
  EXPECT_EQ(refusal({}, {bad}).code, ErrorCode::kInvalidArgument);
  bad = good;
  bad.image.bytes.push_back(0);
  EXPECT_EQ(refusal({}, {bad}).code, ErrorCode::kInvalidArgument);
  bad = good;
  bad.image.fragment_sizes[1] += bad.image.fragment_sizes[0];
  bad.image.fragment_sizes[0] = 0;
  EXPECT_EQ(refusal({}, {bad}).code, ErrorCode::kInvalidArgument);
  bad = good;
  bad.source_size -= 1;
  EXPECT_EQ(refusal({}, {bad}).code, ErrorCode::kInvalidArgument) << "kept, but not its source";
  bad = good;
  bad.image.restore = {1};
  EXPECT_EQ(refusal({}, {bad}).code, ErrorCode::kInvalidArgument) << "kept files need no restore record";
}

}  // namespace
}  // namespace pcrfs
