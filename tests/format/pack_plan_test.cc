#include "format/pack_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temp_dir.h"

namespace pcrfs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ReadFile;
using testing::TempDir;
using testing::WriteFile;

const PlanHeader kHeader{"/data/photos", "order=path\nrecord-bytes=67108864\nrecord-images=256\n"};

std::vector<SourceRecord> SomeRecords() {
  return {
      {SourceKind::kFolder, "", 0, {0755, 1}},
      {SourceKind::kFile, "a\nb", 0, {0644, -1'500'000'000}},
      {SourceKind::kFolder, "n01", 0, {01777, 5}},
      {SourceKind::kFile, "n01/x.jpg", 123456, {0444, 1'700'000'000'123'456'789}},
      {SourceKind::kFile, "n01/y\xff.jpg", kMaxSourceBytes, {07777, INT64_MIN}},
      {SourceKind::kEmptyFolder, "n01/z", 0, {0700, INT64_MAX}},
      {SourceKind::kEmptyFolder, "n0", 0, {0, 0}},
  };
}

std::string WritePlan(const std::string& path, const std::vector<SourceRecord>& records) {
  auto writer = PackPlanWriter::Create(path, kHeader);
  EXPECT_TRUE(writer) << writer.error().message;
  for (const SourceRecord& record : records) EXPECT_TRUE(writer->Add(record));
  auto committed = writer->Commit();
  EXPECT_TRUE(committed) << committed.error().message;
  return path;
}

std::vector<SourceRecord> AllRecords(const PackPlan& plan) {
  std::vector<SourceRecord> records;
  PackPlan::Cursor cursor = plan.Records();
  while (true) {
    auto record = cursor.Next();
    EXPECT_TRUE(record) << record.error().message;
    if (!record || !*record) return records;
    records.push_back(std::move(**record));
  }
}

Result<PackPlan> OpenBytes(Bytes bytes) {
  return PackPlan::Open(std::make_unique<MemorySource>("pack.plan", std::move(bytes)));
}

// The same plan with a closing CRC that fits, so that the checks behind it are reached.
Result<PackPlan> OpenResealed(Bytes bytes) {
  const uint32_t crc = Crc32(ByteSpan(bytes).first(bytes.size() - 4));
  for (size_t i = 0; i < 4; ++i) bytes[bytes.size() - 4 + i] = static_cast<uint8_t>(crc >> (8 * i));
  return OpenBytes(std::move(bytes));
}

TEST(PackPlan, GivesBackWhatWasWritten) {
  TempDir dir;
  auto plan = PackPlan::Open(WritePlan(dir / "pack.plan", SomeRecords()));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->header(), kHeader);
  EXPECT_EQ(AllRecords(*plan), SomeRecords());
  EXPECT_EQ(AllRecords(*plan), SomeRecords()) << "a second cursor starts anew";
  EXPECT_FALSE(std::filesystem::exists(dir / "pack.plan.tmp"));
}

TEST(PackPlan, SummaryCountsItemsAndListsTopLevelFolders) {
  TempDir dir;
  auto plan = PackPlan::Open(WritePlan(dir / "pack.plan", SomeRecords()));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_THAT(plan->summary().labels, ElementsAre("n0", "n01"));
  EXPECT_EQ(plan->summary().items, 5U);
  EXPECT_EQ(plan->summary().files, 3U);
  EXPECT_EQ(plan->summary().bytes, 123456 + kMaxSourceBytes);
  // FORMAT.md: SHA-256 over each path and 00, empty folders with '/'.
  using std::string_literals::operator""s;
  const Sha256Digest digest = Sha256::Of(AsBytes("a\nb\0n01/x.jpg\0n01/y\xff.jpg\0n01/z/\0n0/\0"s));
  EXPECT_EQ(plan->summary().paths_hash, ByteReader(digest).U64());
}

TEST(PackPlan, EqualListsGiveEqualBytes) {
  TempDir dir;
  EXPECT_EQ(ReadFile(WritePlan(dir / "1", SomeRecords())), ReadFile(WritePlan(dir / "2", SomeRecords())));
}

TEST(PackPlan, StreamsMoreRecordsThanItsWindowHolds) {
  TempDir dir;
  std::vector<SourceRecord> records = {{SourceKind::kFolder, "", 0, {}}};
  for (unsigned i = 0; i < 3000; ++i) {
    std::string path = std::to_string(i);
    for (unsigned depth = 0; depth < i % 16; ++depth) path += '/' + std::string(255, static_cast<char>('a' + i % 26));
    records.push_back({SourceKind::kFile, path, i, {i & 07777, i}});
  }
  auto plan = PackPlan::Open(WritePlan(dir / "pack.plan", records));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_GT(std::filesystem::file_size(dir / "pack.plan"), 4U << 20);
  EXPECT_EQ(AllRecords(*plan), records);
}

TEST(PackPlan, NothingLiesUnderItsNameBeforeCommit) {
  TempDir dir;
  {
    auto writer = PackPlanWriter::Create(dir / "pack.plan", kHeader);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->Add(SomeRecords()[0]));
    EXPECT_FALSE(std::filesystem::exists(dir / "pack.plan"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(PackPlan, TruncatedAnywhereIsRefused) {
  TempDir dir;
  const Bytes whole = ReadFile(WritePlan(dir / "pack.plan", SomeRecords()));
  for (size_t size = 0; size < whole.size(); ++size) {
    const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(OpenBytes(part)) << "first " << size << " bytes";
    EXPECT_FALSE(size >= 4 && OpenResealed(part)) << "first " << size << " bytes, CRC made to fit";
  }
}

TEST(PackPlan, AFlippedByteAnywhereIsRefused) {
  TempDir dir;
  const Bytes whole = ReadFile(WritePlan(dir / "pack.plan", SomeRecords()));
  for (size_t at = 0; at < whole.size(); ++at) {
    Bytes damaged = whole;
    damaged[at] ^= 0x41;
    auto plan = OpenBytes(damaged);
    ASSERT_FALSE(plan) << "byte " << at;
    EXPECT_EQ(plan.error().code, ErrorCode::kDamaged);
    // Whatever it becomes behind a CRC that fits, it is read without harm.
    if (auto resealed = OpenResealed(damaged)) (void)AllRecords(*resealed);
  }
}

TEST(PackPlan, AnotherVersionIsRefusedByName) {
  TempDir dir;
  Bytes bytes = ReadFile(WritePlan(dir / "pack.plan", SomeRecords()));
  bytes[8] = 2;
  auto plan = OpenResealed(std::move(bytes));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(plan.error().message, HasSubstr("version 2"));
}

TEST(PackPlan, HostileRecordsBehindAFittingChecksumAreRefused) {
  TempDir dir;
  const auto refused = [&](const SourceRecord& record) {
    auto writer = PackPlanWriter::Create(dir / "pack.plan", kHeader);
    if (!writer || !writer->Add({SourceKind::kFolder, "", 0, {}}) || !writer->Add(record) || !writer->Commit())
      return false;
    return !PackPlan::Open(dir / "pack.plan");
  };
  for (const char* path : {"", "/a", "a/", "a//b", ".", "..", "a/../b", "../a"})
    EXPECT_TRUE(refused({SourceKind::kFile, path, 0, {}})) << path;
  EXPECT_TRUE(refused({SourceKind::kFile, std::string("a\0b", 3), 0, {}}));
  EXPECT_TRUE(refused({SourceKind::kFile, std::string(256, 'a'), 0, {}}));
  EXPECT_TRUE(refused({SourceKind::kFile, "a", kMaxSourceBytes + 1, {}}));
  EXPECT_TRUE(refused({SourceKind::kFile, "a", 0, {010000, 0}}));
  EXPECT_FALSE(refused({SourceKind::kFile, "a", 0, {}}));
}

TEST(PackPlan, MoreLabelsThanADataSetHoldsAreRefused) {
  PlanSummarizer summarizer;
  for (unsigned i = 0; i < (1u << 20); ++i)
    ASSERT_TRUE(summarizer.Add({SourceKind::kEmptyFolder, std::to_string(i), 0, {}}));
  EXPECT_TRUE(summarizer.Add({SourceKind::kFolder, "7", 0, {}})) << "no new label";
  EXPECT_TRUE(summarizer.Add({SourceKind::kEmptyFolder, "7/x", 0, {}})) << "not at the top";
  auto added = summarizer.Add({SourceKind::kEmptyFolder, "x", 0, {}});
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, ErrorCode::kLimit);
}

}  // namespace
}  // namespace pcrfs
