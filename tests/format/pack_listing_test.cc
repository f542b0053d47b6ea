#include "format/pack_listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "format/pack_plan.h"
#include "format/shard_partition.h"
#include "tests/support/temp_dir.h"

namespace pcrfs {
namespace {

using ::testing::ElementsAre;
using testing::TempDir;
using ::testing::UnorderedElementsAreArray;
using testing::WriteFile;

std::vector<SourceRecord> List(const std::string& source, const PackOrder& order, uint64_t* folders = nullptr,
                               size_t memory = size_t{1} << 20) {
  std::vector<SourceRecord> records;
  auto listed = ListInPackOrder(
      source, {.memory = memory}, order, [](const std::string& path, const Skipped&) { ADD_FAILURE() << path; },
      [&](const SourceRecord& record) -> Result<void> {
        records.push_back(record);
        return {};
      });
  EXPECT_TRUE(listed) << listed.error().message;
  if (folders != nullptr) *folders = listed->folders;
  return records;
}

std::vector<std::string> Items(const std::vector<SourceRecord>& records) {
  std::vector<std::string> paths;
  for (const SourceRecord& record : records)
    if (record.is_item()) paths.push_back(record.path);
  return paths;
}

class PackListing : public ::testing::Test {
 protected:
  PackListing() {
    for (const char* path : {"a/1", "a/2", "a/b/1", "a/b/2", "a/b/c/1", "d/1", "d/2", "e", "f"})
      WriteFile(dir / path, path);
    std::filesystem::create_directories(dir / "g/h");
  }
  TempDir dir;
};

TEST_F(PackListing, ByPathIsTheOrderOfTheTree) {
  uint64_t folders = 0;
  EXPECT_THAT(Items(List(dir.path(), {}, &folders)),
              ElementsAre("a/1", "a/2", "a/b/1", "a/b/2", "a/b/c/1", "d/1", "d/2", "e", "f", "g/h"));
  EXPECT_EQ(folders, 6U);
}

TEST_F(PackListing, ShuffledIsByDigestOfSeedAndPath) {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    const std::vector<std::string> items = Items(List(dir.path(), {true, seed}));
    EXPECT_THAT(items, UnorderedElementsAreArray(Items(List(dir.path(), {}))));
    std::vector<Sha256Digest> digests;
    for (const std::string& path : items) {
      std::string input(8, '\0');
      for (size_t i = 0; i < 8; ++i) input[i] = static_cast<char>(seed >> (8 * i));
      digests.push_back(Sha256::Of(AsBytes(input + path)));
    }
    EXPECT_TRUE(std::is_sorted(digests.begin(), digests.end()));
  }
  EXPECT_NE(Items(List(dir.path(), {true, 0})), Items(List(dir.path(), {true, 1})));
}

TEST_F(PackListing, ShuffledRecordsFormATreeWithTheSameFoldersAndSummary) {
  uint64_t by_path = 0, shuffled = 0;
  (void)List(dir.path(), {}, &by_path);
  const std::vector<SourceRecord> records = List(dir.path(), {true, 3}, &shuffled);
  EXPECT_EQ(by_path, shuffled);
  auto writer = PackPlanWriter::Create(dir / "plan", {});
  for (const SourceRecord& record : records) ASSERT_TRUE(writer->Add(record));
  ASSERT_TRUE(writer->Commit());
  auto plan = PackPlan::Open(dir / "plan");
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->summary().labels, ElementsAre("a", "d", "g"));
  PlannedShards shards(plan->Records(), {.items = 4});
  std::set<std::string> folders;
  while (true) {
    auto shard = shards.Next();
    ASSERT_TRUE(shard) << shard.error().message;
    if (!*shard) break;
    std::set<std::string> in_shard;
    for (const ShardDirectory& directory : (*shard)->directories)
      EXPECT_TRUE(in_shard.insert(directory.path).second) << directory.path << " twice";
    folders.merge(in_shard);
  }
  EXPECT_THAT(folders, ElementsAre("a", "a/b", "a/b/c", "d", "g", "g/h"));
}

TEST_F(PackListing, AShuffledListThatDoesNotFitInMemoryIsTheSame) {
  for (int i = 0; i < 500; ++i) WriteFile(dir / ("a/wide/" + std::to_string(i)), "1");
  const std::vector<SourceRecord> records = List(dir.path(), {true, 5});
  EXPECT_GT(records.size(), 500U);
  EXPECT_EQ(List(dir.path(), {true, 5}, nullptr, 100), records);
}

TEST_F(PackListing, TheSinksErrorEndsIt) {
  for (const bool shuffle : {false, true}) {
    int left = 3;
    auto listed = ListInPackOrder(dir.path(), {}, {shuffle, 0}, nullptr, [&](const SourceRecord&) -> Result<void> {
      if (--left == 0) return Fail(ErrorCode::kNoSpace, "full");
      return {};
    });
    ASSERT_FALSE(listed);
    EXPECT_EQ(listed.error().message, "full");
    EXPECT_EQ(left, 0);
  }
}

TEST(PackKey, OrdersItemsAsTheListingDoes) {
  const auto key = [](SourceKind kind, const char* path) { return PackKey({}, {kind, path, 0, {}}); };
  EXPECT_LT(key(SourceKind::kFile, "a.b"), key(SourceKind::kEmptyFolder, "a"));
  EXPECT_LT(key(SourceKind::kEmptyFolder, "a"), key(SourceKind::kFile, "a0"));
  EXPECT_LT(key(SourceKind::kFile, "a"), key(SourceKind::kFile, "\xff"));
  EXPECT_EQ(key(SourceKind::kFile, "a"), key(SourceKind::kFile, "a"));
}

}  // namespace
}  // namespace pcrfs
