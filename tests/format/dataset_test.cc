#include "format/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "format/shard_footer.h"
#include "tests/support/sample_dataset.h"
#include "tests/support/temp_dir.h"

namespace pcrfs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ReadFile;
using testing::SampleDataset;
using testing::TempDir;
using testing::WriteFile;
using testing::WriteSampleDataset;

// Counts the reads of another source.
class CountingSource final : public ByteSource {
 public:
  explicit CountingSource(const ByteSource& inner) : inner_(inner) {}
  const std::string& name() const override { return inner_.name(); }
  uint64_t size() const override { return inner_.size(); }
  Result<void> ReadAt(uint64_t offset, MutableByteSpan out) const override {
    ++reads;
    bytes += out.size();
    return inner_.ReadAt(offset, out);
  }
  mutable int reads = 0;
  mutable uint64_t bytes = 0;

 private:
  const ByteSource& inner_;
};

class DatasetTest : public ::testing::Test {
 protected:
  TempDir dir_;
  SampleDataset sample_ = WriteSampleDataset(dir_.path());

  // The error of opening and reading shard `position` of the data set as it is now.
  Error ShardError(size_t position) {
    const auto dataset = Dataset::Open(dir_.path());
    if (!dataset) return dataset.error();
    const auto shard = dataset->OpenShard(position);
    if (!shard) return shard.error();
    const auto index = dataset->ReadShardIndex(position, **shard);
    return index ? Error{ErrorCode::kExists, "no error"} : index.error();
  }
};

TEST_F(DatasetTest, ShowsWhatWasWritten) {
  const auto dataset = Dataset::Open(dir_.path() + "/.");
  ASSERT_TRUE(dataset.has_value()) << dataset.error().message;
  EXPECT_EQ(dataset->path(), std::filesystem::canonical(dir_.path()));
  EXPECT_EQ(dataset->index(), sample_.index);
  EXPECT_EQ(dataset->shard_count(), 3u);
  EXPECT_EQ(dataset->levels(), 10);

  size_t at = 0;
  for (size_t i = 0; i < dataset->shard_count(); ++i) {
    const auto shard = dataset->OpenShard(i);
    ASSERT_TRUE(shard.has_value()) << shard.error().message;
    const auto index = dataset->ReadShardIndex(i, **shard);
    ASSERT_TRUE(index.has_value()) << index.error().message;
    for (const Entry& entry : index->entries) {
      const testing::SampleFile& file = sample_.files[at++];
      EXPECT_EQ(EntryPath(*index, entry), file.path);
      EXPECT_EQ(entry.attributes, file.attributes);
      EXPECT_EQ(entry.layout.kind, file.is_image ? EntryKind::kImage : EntryKind::kOpaque);
      Bytes shown;
      for (const Extent& extent : entry.layout.extents) {
        Bytes bytes(extent.size);
        ASSERT_TRUE((*shard)->ReadAt(extent.offset, bytes).has_value());
        EXPECT_THAT(BlockCrcs(bytes),
                    ::testing::ElementsAreArray(entry.layout.crcs.begin() + extent.first_crc,
                                                entry.layout.crcs.begin() + extent.first_crc +
                                                    static_cast<std::ptrdiff_t>(BlockCount(extent.size))));
        shown.insert(shown.end(), bytes.begin(), bytes.end());
        if (!file.is_image) continue;
        const auto level = static_cast<size_t>(&extent - entry.layout.extents.data());
        EXPECT_EQ(
            Bytes(file.levels[level].begin(), file.levels[level].begin() + static_cast<std::ptrdiff_t>(shown.size())),
            shown);
        EXPECT_EQ(SizeAtLevel(entry.layout, *Level::FromNumber(static_cast<int>(level) + 1), 10),
                  file.levels[level].size());
      }
      if (!file.is_image) {
        EXPECT_EQ(shown, file.levels[9]);
      }
    }
  }
  EXPECT_EQ(at, sample_.files.size());
}

TEST_F(DatasetTest, OneReadOpensAShard) {
  const auto dataset = Dataset::Open(dir_.path());
  ASSERT_TRUE(dataset.has_value());
  for (size_t i = 0; i < dataset->shard_count(); ++i) {
    const auto shard = dataset->OpenShard(i);
    ASSERT_TRUE(shard.has_value());
    const CountingSource counting(**shard);
    ASSERT_TRUE(dataset->ReadShardIndex(i, counting).has_value());
    EXPECT_EQ(counting.reads, 1);
    EXPECT_EQ(counting.bytes, sample_.index.rows[i].index_length + kFooterBytes);
  }
}

TEST_F(DatasetTest, RefusesWhatIsNoDataSet) {
  std::filesystem::remove(dir_ / "PCR_index.pb");
  auto dataset = Dataset::Open(dir_.path());
  ASSERT_FALSE(dataset.has_value());
  EXPECT_EQ(dataset.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(dataset.error().message, AllOf(HasSubstr("no data set"), HasSubstr("PCR_index.pb")));

  WriteFile(dir_ / "pack.plan", "");
  dataset = Dataset::Open(dir_.path());
  ASSERT_FALSE(dataset.has_value());
  EXPECT_THAT(dataset.error().message, HasSubstr("Repeat the same pack"));

  dataset = Dataset::Open(dir_ / "PCR_0.pcr");
  ASSERT_FALSE(dataset.has_value());
  EXPECT_EQ(dataset.error().code, ErrorCode::kNotDirectory);
  dataset = Dataset::Open(dir_ / "nothing");
  ASSERT_FALSE(dataset.has_value());
  EXPECT_EQ(dataset.error().code, ErrorCode::kNotFound);
}

TEST_F(DatasetTest, NamesAMissingShard) {
  std::filesystem::remove(dir_ / "PCR_1.pcr");
  const Error error = ShardError(1);
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_THAT(error.message, AllOf(HasSubstr("PCR_1.pcr"), HasSubstr("missing")));
}

TEST_F(DatasetTest, TellsAReplacedShardFromADamagedOne) {
  // A shard of another data set, whole and of another size.
  std::filesystem::copy_file(dir_ / "PCR_0.pcr", dir_ / "PCR_1.pcr", std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(ShardError(1).code, ErrorCode::kStale);

  // The same size, but another index: an attribute differs.
  const Bytes before = ReadFile(dir_ / "PCR_3.files");
  (void)testing::WriteShard({dir_.path(), 3, sample_.root, {sample_.directories[3]}}, {},
                            {{{"", "zz notes.txt", {0645, 1}}, {'h', 'i', '\n'}}});
  ASSERT_EQ(ReadFile(dir_ / "PCR_3.files").size(), before.size());
  EXPECT_EQ(ShardError(2).code, ErrorCode::kStale);
  EXPECT_THAT(ShardError(2).message, HasSubstr("PCR_3.files"));

  WriteFile(dir_ / "PCR_3.files", before);
  EXPECT_EQ(ShardError(2).code, ErrorCode::kExists) << "whole again: " << ShardError(2).message;
}

TEST_F(DatasetTest, SeesEveryFlippedByteOfIndexAndFooter) {
  const Bytes good = ReadFile(dir_ / "PCR_3.files");
  for (size_t i = sample_.index.rows[2].index_offset; i < good.size(); ++i) {
    Bytes bad = good;
    bad[i] ^= 0x10;
    WriteFile(dir_ / "PCR_3.files", bad);
    const Error error = ShardError(2);
    EXPECT_THAT(error.code, ::testing::AnyOf(ErrorCode::kDamaged, ErrorCode::kStale)) << i << ": " << error.message;
  }
}

TEST_F(DatasetTest, SeesEveryTruncation) {
  const Bytes good = ReadFile(dir_ / "PCR_3.files");
  for (size_t size = 0; size < good.size(); ++size) {
    ASSERT_EQ(truncate((dir_ / "PCR_3.files").c_str(), static_cast<off_t>(good.size() - 1 - size)), 0);
    EXPECT_EQ(ShardError(2).code, ErrorCode::kStale);
  }
}

TEST_F(DatasetTest, RefusesAFolderOrFifoInAShardsPlace) {
  std::filesystem::remove(dir_ / "PCR_1.pcr");
  ASSERT_EQ(mkfifo((dir_ / "PCR_1.pcr").c_str(), 0600), 0);
  EXPECT_EQ(ShardError(1).code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace pcrfs
