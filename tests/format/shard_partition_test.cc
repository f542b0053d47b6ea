#include "format/shard_partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"

namespace pcrfs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TempDir;
using ::testing::UnorderedElementsAre;

SourceRecord File(std::string path, uint64_t size) { return {SourceKind::kFile, std::move(path), size, {0644, 7}}; }
SourceRecord Folder(std::string path, uint32_t mode = 0755) {
  return {SourceKind::kFolder, std::move(path), 0, {mode, 9}};
}
SourceRecord EmptyFolder(std::string path) { return {SourceKind::kEmptyFolder, std::move(path), 0, {0711, 8}}; }

// Shard number of each item.
std::vector<int> Numbers(const ShardLimits& limits, const std::vector<SourceRecord>& items) {
  ShardPartition partition(limits);
  std::vector<int> numbers;
  int number = -1;
  for (const SourceRecord& item : items) numbers.push_back(number += partition.Place(item).starts_shard ? 1 : 0);
  return numbers;
}

TEST(ShardPartition, ClosesAfterTheNumberOfItems) {
  EXPECT_THAT(Numbers({.items = 2}, {File("a", 1), EmptyFolder("b"), File("c", 0), File("d", 1), File("e", 1)}),
              ElementsAre(0, 0, 1, 1, 2));
  EXPECT_THAT(Numbers({.items = 1}, {File("a", 1), File("b", 1)}), ElementsAre(0, 1));
}

TEST(ShardPartition, ClosesBeforeTheItemThatPassesTheBytes) {
  EXPECT_THAT(Numbers({.bytes = 10}, {File("a", 4), File("b", 6), File("c", 0), File("d", 1), File("e", 10)}),
              ElementsAre(0, 0, 0, 1, 2));
}

TEST(ShardPartition, ALargerItemIsAShardOfItsOwn) {
  EXPECT_THAT(Numbers({.bytes = 10}, {File("a", 0), File("b", 11), File("c", 0), EmptyFolder("d"), File("e", 99)}),
              ElementsAre(0, 1, 2, 2, 3));
  EXPECT_THAT(Numbers({.bytes = 10}, {File("a", kMaxSourceBytes), File("b", kMaxSourceBytes)}), ElementsAre(0, 1));
}

TEST(ShardPartition, ClosesBeforeTheDirectoriesPassTheirNumber) {
  // a/b/c needs three, a/b/d one more, e one more.
  const std::vector<SourceRecord> items = {File("a/b/c/1", 1), File("a/b/d/1", 1), File("a/2", 1), EmptyFolder("e")};
  EXPECT_THAT(Numbers({.directories = 5}, items), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(Numbers({.directories = 4}, items), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(Numbers({.directories = 3}, items), ElementsAre(0, 1, 1, 2));
}

TEST(ShardPartition, ClosesBeforeTheDirectoriesPassTheirBytes) {
  const std::vector<SourceRecord> items = {File("aa/bb/1", 1), File("cc/1", 1)};  // 2 + 5 + 2
  EXPECT_THAT(Numbers({.directory_bytes = 9}, items), ElementsAre(0, 0));
  EXPECT_THAT(Numbers({.directory_bytes = 8}, items), ElementsAre(0, 1));
}

TEST(ShardPartition, AnItemThatAlonePassesADirectoryLimitStillHasAShard) {
  EXPECT_THAT(Numbers({.directories = 1}, {File("a/b/1", 1), File("a/b/2", 1), File("c", 1)}), ElementsAre(0, 1, 2));
}

TEST(ShardPartition, CountsDirectoriesThatAreNewInTheShard) {
  ShardPartition partition({.items = 3});
  EXPECT_EQ(partition.Place(File("a/b/1", 1)).new_directories, 2U);
  EXPECT_EQ(partition.Place(File("a/2", 1)).new_directories, 0U);
  EXPECT_EQ(partition.Place(EmptyFolder("a/b/c")).new_directories, 1U);
  EXPECT_EQ(partition.Place(EmptyFolder("a/b/d")).new_directories, 3U) << "a new shard lists them all again";
}

struct Plan {
  TempDir dir;
  std::optional<PackPlan> plan;

  explicit Plan(const std::vector<SourceRecord>& records) {
    auto writer = PackPlanWriter::Create(dir / "pack.plan", {});
    for (const SourceRecord& record : records) EXPECT_TRUE(writer->Add(record));
    EXPECT_TRUE(writer->Commit());
    auto opened = PackPlan::Open(dir / "pack.plan");
    EXPECT_TRUE(opened) << opened.error().message;
    plan = std::move(*opened);
  }

  [[nodiscard]] std::vector<PlannedShard> Shards(const ShardLimits& limits) const {
    std::vector<PlannedShard> shards;
    PlannedShards iterator(plan->Records(), limits);
    while (true) {
      auto shard = iterator.Next();
      EXPECT_TRUE(shard) << shard.error().message;
      if (!shard || !*shard) return shards;
      shards.push_back(std::move(**shard));
    }
  }
  [[nodiscard]] Error Fault() const {
    PlannedShards iterator(plan->Records(), {});
    while (true) {
      auto shard = iterator.Next();
      if (!shard) return shard.error();
      if (!*shard) return {};
    }
  }
};

std::vector<std::string> Paths(const std::vector<ShardDirectory>& directories) {
  std::vector<std::string> paths;
  for (const ShardDirectory& directory : directories) paths.push_back(directory.path);
  return paths;
}
std::vector<std::string> Paths(const std::vector<SourceRecord>& items) {
  std::vector<std::string> paths;
  for (const SourceRecord& item : items) paths.push_back(item.path);
  return paths;
}

TEST(PlannedShards, EachHasItsItemsAndAllTheirFolders) {
  const Plan plan({Folder("", 0700), Folder("a", 0701), Folder("a/b", 0702), File("a/b/1", 10), File("a/b/2", 20),
                   EmptyFolder("a/c"), File("a/d", 5), Folder("e", 0703), File("e/1", 1)});
  const std::vector<PlannedShard> shards = plan.Shards({.items = 2});
  ASSERT_EQ(shards.size(), 3U);
  EXPECT_THAT(Paths(shards[0].items), ElementsAre("a/b/1", "a/b/2"));
  EXPECT_THAT(Paths(shards[0].directories), UnorderedElementsAre("a", "a/b"));
  EXPECT_THAT(Paths(shards[1].items), ElementsAre("a/c", "a/d"));
  EXPECT_THAT(Paths(shards[1].directories), UnorderedElementsAre("a", "a/c"));
  EXPECT_THAT(Paths(shards[2].items), ElementsAre("e/1"));
  EXPECT_THAT(Paths(shards[2].directories), UnorderedElementsAre("e"));
  EXPECT_EQ(shards[0].bytes, 30U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(shards[i].number, i);
    EXPECT_EQ(shards[i].root, (Attributes{0700, 9}));
  }
  for (const ShardDirectory& directory : shards[1].directories)
    EXPECT_EQ(directory.attributes, directory.path == "a" ? (Attributes{0701, 9}) : (Attributes{0711, 8}));
}

TEST(PlannedShards, AnEmptySourceHasOneShardWithoutItems) {
  const std::vector<PlannedShard> shards = Plan({Folder("", 0750)}).Shards({});
  ASSERT_EQ(shards.size(), 1U);
  EXPECT_EQ(shards[0].number, 0U);
  EXPECT_EQ(shards[0].root.mode, 0750U);
  EXPECT_THAT(shards[0].items, IsEmpty());
  EXPECT_THAT(shards[0].directories, IsEmpty());
}

TEST(PlannedShards, ShuffledItemsFindTheirFolders) {
  const Plan plan({Folder(""), Folder("a"), File("a/1", 1), Folder("b"), File("b/1", 1), Folder("a"), Folder("a/c"),
                   File("a/c/1", 1), File("a/2", 1)});
  const std::vector<PlannedShard> shards = plan.Shards({.items = 3});
  ASSERT_EQ(shards.size(), 2U);
  EXPECT_THAT(Paths(shards[0].directories), UnorderedElementsAre("a", "b", "a/c"));
  EXPECT_THAT(Paths(shards[1].directories), UnorderedElementsAre("a"));
}

TEST(PlannedShards, RecordsThatFormNoTreeAreRefused) {
  EXPECT_THAT(Plan({}).Fault().message, HasSubstr("does not begin with the source folder"));
  EXPECT_THAT(Plan({File("a", 1)}).Fault().message, HasSubstr("does not begin with the source folder"));
  EXPECT_THAT(Plan({Folder(""), File("a/b", 1)}).Fault().message, HasSubstr("'a/b' without the folder"));
  EXPECT_THAT(Plan({Folder(""), Folder("a"), File("b", 1), File("a/c", 1)}).Fault().message, HasSubstr("'a/c'"));
  EXPECT_THAT(Plan({Folder(""), Folder("")}).Fault().message, HasSubstr("without the folder"));
}

}  // namespace
}  // namespace pcrfs
