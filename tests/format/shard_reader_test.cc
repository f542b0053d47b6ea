#include "format/shard_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "format/restore_record.h"
#include "format/shard_footer.h"
#include "format/shard_layout.h"
#include "tests/support/sample_dataset.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_jpeg.h"

namespace pcrfs {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::KeptImage;
using testing::MakeJpeg;
using testing::ReadFile;
using testing::TempDir;
using testing::WriteShard;

constexpr Attributes kAttributes{0755, 12};

Bytes Restore() {
  RestoreRecord record;
  record.segments = {RestoreRecord::EntropyData{}};
  record.restart_intervals = {0};
  return EncodeRestoreRecord(record).value();
}

// A shard in memory that fails to read a range.
class BadSource final : public ByteSource {
 public:
  BadSource(Bytes bytes, uint64_t bad_from, uint64_t bad_until, ErrorCode code)
      : memory_("PCR_0.pcr", std::move(bytes)), from_(bad_from), until_(bad_until), code_(code) {}
  const std::string& name() const override { return memory_.name(); }
  uint64_t size() const override { return memory_.size(); }
  Result<void> ReadAt(uint64_t offset, MutableByteSpan out) const override {
    if (offset < until_ && offset + out.size() > from_) return Fail(code_, "the medium is bad");
    return memory_.ReadAt(offset, out);
  }

 private:
  MemorySource memory_;
  uint64_t from_, until_;
  ErrorCode code_;
};

class ShardReaderTest : public ::testing::Test {
 protected:
  ShardReaderTest() {
    Bytes with_tail = Jpeg(2);
    with_tail.insert(with_tail.end(), {'t', 'a', 'i', 'l'});
    items_ = {KeptImage("cats", "kept.jpg", 1, Jpeg(1)), KeptImage("cats", "tail.jpg", 1, with_tail),
              KeptImage("", "converted.jpg", -1, Jpeg(3))};
    items_[2].image.kept = false;
    items_[2].image.restore = Restore();
    Write();
  }

  static Bytes Jpeg(uint32_t seed) {
    return MakeJpeg({.width = 16, .height = 16, .quality = 30, .progressive = true, .seed = seed});
  }

  void Write() {
    row_ = WriteShard({dir_.path(), 0, kAttributes, {{"cats", kAttributes}}}, items_,
                      {{{"cats", "notes", kAttributes}, {'n', 'o', 't', 'e'}}, {{"", "none", kAttributes}, {}}});
    bytes_ = ReadFile(dir_ / "PCR_0.pcr");
    index_ = ReadShardIndex(MemorySource("PCR_0.pcr", bytes_), row_).value();
  }

  std::vector<std::string> Faults(const ByteSource& source) {
    std::vector<std::string> faults;
    read_ = 0;
    CheckShardContent(
        source, row_, index_, labels_, restoring_, [&](const Error& fault) { faults.push_back(fault.message); },
        [&](uint64_t bytes) { read_ += bytes; });
    return faults;
  }
  std::vector<std::string> Faults(const Bytes& bytes) { return Faults(MemorySource("PCR_0.pcr", bytes)); }

  TempDir dir_;
  std::vector<ImageItem> items_;
  ShardRow row_;
  Bytes bytes_;
  ShardIndex index_;
  MemoryGate memory_{0};
  MemoryGate* restoring_ = nullptr;
  LabelMap labels_{{"ants", "cats"}};
  uint64_t read_ = 0;
};

TEST_F(ShardReaderTest, AGoodShardHasNoFaultsAndIsReadOnce) {
  EXPECT_THAT(Faults(bytes_), IsEmpty());
  EXPECT_GE(read_, row_.index_offset);
  EXPECT_LE(read_, row_.file_size);
}

TEST_F(ShardReaderTest, EveryFlippedByteIsAFault) {
  for (size_t i = 0; i < row_.index_offset; ++i) {
    Bytes bad = bytes_;
    bad[i] ^= 0x20;
    EXPECT_EQ(Faults(bad).size(), 1u) << i;
  }
  for (size_t i = row_.index_offset; i < bytes_.size(); ++i) {
    Bytes bad = bytes_;
    bad[i] ^= 0x20;
    EXPECT_FALSE(ReadShardIndex(MemorySource("x", bad), row_).has_value()) << i;
    EXPECT_FALSE(ReadLoneShard(MemorySource("x", bad), "PCR_0.pcr").has_value()) << i;
  }
}

TEST_F(ShardReaderTest, FaultsSayWhereAndWhat) {
  const Extent fragment = index_.entries[1].layout.extents[4];
  Bytes bad = bytes_;
  bad[fragment.offset] ^= 1;
  EXPECT_THAT(Faults(bad), ElementsAre(AllOf(HasSubstr("PCR_0.pcr"), HasSubstr("cats/tail.jpg"),
                                             HasSubstr("scan group 5"), HasSubstr(std::to_string(fragment.offset)),
                                             HasSubstr("expected"), HasSubstr("found"))));
  bad = bytes_;
  bad[fragment.offset - 1] ^= 1;
  EXPECT_THAT(Faults(bad), ElementsAre(AllOf(HasSubstr("cats/tail.jpg"), HasSubstr("framing"))));
  bad = bytes_;
  bad[row_.part_sizes[0] - 1] ^= 1;
  EXPECT_THAT(Faults(bad), ElementsAre(HasSubstr("id")));
  bad[0] ^= 1;
  EXPECT_THAT(Faults(bad), ElementsAre(HasSubstr("id"), HasSubstr("metadata")));
}

TEST_F(ShardReaderTest, ALoneShardKnowsItsRow) {
  const auto lone = ReadLoneShard(MemorySource("x", bytes_), "PCR_0.pcr");
  ASSERT_TRUE(lone.has_value()) << lone.error().message;
  EXPECT_EQ(lone->row, row_);
  EXPECT_EQ(lone->index, index_);
  for (size_t size = 0; size < bytes_.size(); ++size) {
    const Bytes cut(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(ReadLoneShard(MemorySource("x", cut), "PCR_0.pcr").error().code, ErrorCode::kDamaged) << size;
  }
}

TEST_F(ShardReaderTest, LabelsFollowTheTopLevelFolder) {
  EXPECT_EQ(labels_.Of(""), -1);
  EXPECT_EQ(labels_.Of("cats"), 1);
  EXPECT_EQ(labels_.Of("ants/deep/er"), 0);
  EXPECT_FALSE(labels_.Of("cat").has_value());
  labels_ = LabelMap({"cats"});
  EXPECT_THAT(Faults(bytes_), ElementsAre(AllOf(HasSubstr("kept.jpg"), HasSubstr("label: expected 0, found 1")),
                                          AllOf(HasSubstr("tail.jpg"), HasSubstr("label"))));
  labels_ = LabelMap({"dogs"});
  EXPECT_EQ(Faults(bytes_).size(), 2u) << "a folder that is not in the list";
}

TEST_F(ShardReaderTest, WhatTheChecksumsVouchForMustStillBeRight) {
  items_[0].source_sha256[0] ^= 1;
  items_[2].image.restore = {0x08, 0x01};
  items_[2].image.bytes[0] = 0;
  Write();
  EXPECT_THAT(Faults(bytes_), ElementsAre(AllOf(HasSubstr("converted.jpg"), HasSubstr("SOI")),
                                          AllOf(HasSubstr("converted.jpg"), HasSubstr("restore record")),
                                          AllOf(HasSubstr("kept.jpg"), HasSubstr("SHA-256"))));
}

TEST_F(ShardReaderTest, ARestoreRecordThatDoesNotGiveTheSourceIsAFault) {
  EXPECT_THAT(Faults(bytes_), IsEmpty());
  restoring_ = &memory_;
  EXPECT_THAT(Faults(bytes_), ElementsAre(AllOf(HasSubstr("converted.jpg"), HasSubstr("restoring the source"))));
  Bytes bad = bytes_;
  bad[index_.entries[2].layout.extents[9].offset] ^= 1;
  EXPECT_THAT(Faults(bad), ElementsAre(HasSubstr("checksum"))) << "one fault is enough";
  EXPECT_EQ(memory_.used(), 0u);
}

TEST_F(ShardReaderTest, RestoringWaitsForItsMemory) {
  restoring_ = &memory_;
  MemoryGate::Claim all = memory_.Enter(1);
  std::atomic<bool> done = false;
  std::thread checking([&] {
    (void)Faults(bytes_);
    done = true;
  });
  while (!memory_.someone_waits() && !done) std::this_thread::yield();
  EXPECT_FALSE(done);
  all.ShrinkTo(0);
  checking.join();
  EXPECT_EQ(memory_.used(), 0u);
}

TEST_F(ShardReaderTest, ABadSpotHidesNothingBehindIt) {
  const Extent spot = index_.entries[0].layout.extents[2];
  Bytes bad = bytes_;
  bad[index_.entries[2].layout.extents[9].offset] ^= 1;
  EXPECT_THAT(Faults(BadSource(bad, spot.offset, spot.offset + 1, ErrorCode::kIo)),
              ElementsAre(AllOf(HasSubstr("kept.jpg"), HasSubstr("the medium is bad")),
                          AllOf(HasSubstr("converted.jpg"), HasSubstr("checksum"))));
}

TEST_F(ShardReaderTest, AShardThatShrinksEndsTheCheck) {
  const uint64_t end = index_.entries[0].layout.extents[2].offset;
  EXPECT_EQ(Faults(BadSource(bytes_, end, UINT64_MAX, ErrorCode::kStale)).size(), 1u);
}

TEST_F(ShardReaderTest, RowAndShardMustAgreeInEverything) {
  const MemorySource shard("x", bytes_);
  const auto code = [&](const ShardRow& row) {
    const auto index = ReadShardIndex(shard, row);
    return index ? ErrorCode::kExists : index.error().code;
  };
  EXPECT_EQ(code(row_), ErrorCode::kExists);
  ShardRow row = row_;
  row.file_size += 1;
  EXPECT_EQ(code(row), ErrorCode::kStale);
  row = row_;
  row.index_crc += 1;
  EXPECT_EQ(code(row), ErrorCode::kStale);
  row = row_;
  row.id[0] ^= 1;
  EXPECT_EQ(code(row), ErrorCode::kStale);
  row = row_;
  row.index_offset += 1, row.index_length -= 1;
  EXPECT_EQ(code(row), ErrorCode::kStale);
  row = row_;
  row.part_sizes[4] += 1;
  EXPECT_EQ(code(row), ErrorCode::kStale) << "the footer knows the end of the groups";
  row.part_sizes[5] -= 1;
  EXPECT_EQ(code(row), ErrorCode::kDamaged) << "only the index knows each group";
  row = row_;
  row.name = "PCR_0.files";
  EXPECT_EQ(code(row), ErrorCode::kDamaged);
  row = row_;
  row.index_length = UINT64_MAX;
  EXPECT_EQ(code(row), ErrorCode::kLimit);
}

TEST(ShardReaderLargeTest, FragmentsOfSeveralBlocksAreReadThroughTheWindow) {
  const TempDir dir;
  // 3 MB, so that the window of 1 MiB moves, within a fragment and between them.
  const Bytes jpeg = MakeJpeg({.width = 1200, .height = 1000, .quality = 100, .progressive = true});
  Bytes opaque(5 * kChecksumBlock + 17);
  for (size_t i = 0; i < opaque.size(); ++i) opaque[i] = static_cast<uint8_t>(i ^ (i >> 8));
  const ShardRow row = WriteShard({dir.path(), 0, kAttributes, {}}, {KeptImage("", "big.jpg", -1, jpeg)},
                                  {{{"", "large", kAttributes}, opaque}});
  const auto file = FileSource::Open(dir / "PCR_0.pcr", FileSource::Access::kSequential);
  const ShardIndex index = ReadShardIndex(**file, row).value();
  ASSERT_GT(index.entries[0].layout.crcs.size(), 12u);
  uint64_t read = 0;
  std::vector<std::string> faults;
  MemoryGate memory(0);
  CheckShardContent(
      **file, row, index, LabelMap({}), &memory, [&](const Error& fault) { faults.push_back(fault.message); },
      [&](uint64_t bytes) { read += bytes; });
  EXPECT_THAT(faults, IsEmpty());
  EXPECT_GE(read, row.index_offset);
  EXPECT_LE(read, row.file_size);
}

}  // namespace
}  // namespace pcrfs
