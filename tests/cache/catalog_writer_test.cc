#include "cache/catalog_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cache/catalog.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_catalog.h"
#include "tests/support/test_shard_index.h"

namespace pcrfs {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RandomBytes;
using testing::TempDir;
using testing::TestShard;
using testing::TestShardBuilder;

std::unique_ptr<Catalog> OpenTestCatalog(const TempDir& folder, const std::vector<TestShard>& shards, int levels = 10) {
  testing::WriteTestCatalog(folder.path(), shards, levels);
  auto catalog = Catalog::Open(folder.path());
  EXPECT_TRUE(catalog) << catalog.error().message;
  return *std::move(catalog);
}

std::map<uint64_t, std::string> PathsByNode(const Catalog& catalog) {
  std::map<uint64_t, std::string> paths;
  for (uint64_t node = 1; node <= catalog.totals().nodes; ++node) {
    const auto path = catalog.Path(node);
    EXPECT_TRUE(path) << node << ": " << path.error().message;
    paths[node] = path.value_or("?");
  }
  return paths;
}

// The rule of ARCHITECTURE ("inode numbers"), once more and from paths alone.
std::map<uint64_t, std::string> NumberedByTheRule(const std::vector<TestShard>& shards) {
  std::map<uint64_t, std::string> paths = {{1, ""}};
  std::set<std::string> known = {""};
  const auto add_directory = [&](const std::string& path) {
    for (size_t end = 0; end != std::string::npos;) {
      end = path.find('/', end + 1);
      const std::string ancestor = path.substr(0, end);
      if (known.insert(ancestor).second) paths[paths.size() + 1] = ancestor;
    }
  };
  for (const TestShard& shard : shards) {
    for (const Entry& entry : shard.index.entries) {
      const std::string directory = entry.directory == 0 ? "" : shard.index.directories[entry.directory - 1];
      add_directory(directory);
      paths[paths.size() + 1] = directory.empty() ? entry.name : directory + "/" + entry.name;
    }
    for (const std::string& directory : shard.index.directories) add_directory(directory);
  }
  return paths;
}

TEST(CatalogWriterTest, NumbersNodesInStorageOrder) {
  const TempDir folder;
  TestShardBuilder first("PCR_0.pcr"), second("PCR_1.pcr");
  first.AddOpaque("b/z.txt", {1}).AddImage("b/x.jpg").AddImage("a/c/y.jpg").AddOpaque("top.bin", {2});
  first.AddDirectory("e", {0700, 1}).AddDirectory("a/empty", {0700, 1});
  second.AddImage("a/new.jpg").AddImage("f/g/h.jpg").AddDirectory("e", {0755, 2});
  const auto catalog = OpenTestCatalog(folder, {first.Build(), second.Build()});
  EXPECT_EQ(PathsByNode(*catalog), (std::map<uint64_t, std::string>{{1, ""},
                                                                    {2, "b"},
                                                                    {3, "b/x.jpg"},
                                                                    {4, "a"},
                                                                    {5, "a/c"},
                                                                    {6, "a/c/y.jpg"},
                                                                    {7, "b/z.txt"},
                                                                    {8, "top.bin"},
                                                                    {9, "a/empty"},
                                                                    {10, "e"},
                                                                    {11, "a/new.jpg"},
                                                                    {12, "f"},
                                                                    {13, "f/g"},
                                                                    {14, "f/g/h.jpg"}}));
}

std::vector<TestShard> RandomShards(unsigned seed, size_t shard_count) {
  std::mt19937 random(seed);
  const std::vector<std::string> folders = {"", "a", "a/a", "a-b", "a/b/c", "b", "b/\xFF\x01", "z/y/x/w"};
  std::vector<TestShard> shards;
  for (size_t s = 0; s < shard_count; ++s) {
    TestShardBuilder builder("PCR_" + std::to_string(s) + ".pcr");
    for (int i = 0; i < 30; ++i) {
      std::string path = folders[random() % folders.size()];
      path += (path.empty() ? "f" : "/f") + std::to_string(s * 100 + static_cast<size_t>(i));
      if (random() % 4 == 0)
        builder.AddOpaque(path, RandomBytes(random() % 50, random()));
      else
        builder.AddImage(path);
    }
    for (int i = 0; i < 3; ++i) builder.AddDirectory(folders[random() % folders.size()], {0700, static_cast<int>(s)});
    shards.push_back(builder.Build());
  }
  return shards;
}

TEST(CatalogWriterTest, NumbersRandomDataSetsByTheRule) {
  for (const unsigned seed : {1u, 2u, 3u, 4u, 5u}) {
    const TempDir folder;
    const std::vector<TestShard> shards = RandomShards(seed, 7);
    EXPECT_EQ(PathsByNode(*OpenTestCatalog(folder, shards)), NumberedByTheRule(shards)) << seed;
  }
}

TEST(CatalogWriterTest, AnAppendedShardChangesNoNumber) {
  const TempDir before_folder, after_folder;
  const std::vector<TestShard> shards = RandomShards(9, 5);
  const auto before = PathsByNode(*OpenTestCatalog(before_folder, {shards.begin(), shards.end() - 1}));
  auto after = PathsByNode(*OpenTestCatalog(after_folder, shards));
  EXPECT_GT(after.size(), before.size());
  after.erase(after.upper_bound(before.rbegin()->first), after.end());
  EXPECT_EQ(after, before);
}

TEST(CatalogWriterTest, ListsChildrenByNumberAlsoWhenShardsShareADirectory) {
  const TempDir folder;
  TestShardBuilder first("PCR_0.pcr"), second("PCR_1.pcr");
  first.AddImage("d/z.jpg").AddImage("d/sub/q.jpg").AddImage("d/y.jpg");
  second.AddImage("d/a.jpg").AddImage("other/b.jpg").AddImage("d/c.jpg");
  const auto catalog = OpenTestCatalog(folder, {first.Build(), second.Build()});
  std::vector<std::string> names;
  ASSERT_TRUE(catalog->List(*catalog->Find(1, "d"), 0, [&](const DirectoryItem& item) {
    names.emplace_back(item.name);
    return true;
  }));
  EXPECT_THAT(names, ElementsAre("z.jpg", "sub", "y.jpg", "a.jpg", "c.jpg"));
}

TEST(CatalogWriterTest, TakesDirectoryAttributesFromTheLowestShardThatListsIt) {
  const TempDir folder;
  TestShardBuilder first("PCR_0.pcr"), second("PCR_1.pcr");
  first.AddImage("a.jpg").AddDirectory("", {0711, 11});
  second.AddImage("d/b.jpg").AddDirectory("", {0722, 22}).AddDirectory("d", {0733, 33});
  const auto catalog = OpenTestCatalog(folder, {first.Build(), second.Build()});
  NodeInfo info;
  ASSERT_TRUE(catalog->Get(1, info));
  EXPECT_EQ(info.attributes, (Attributes{0711, 11}));
  ASSERT_TRUE(catalog->Get(*catalog->Find(1, "d"), info));
  EXPECT_EQ(info.attributes, (Attributes{0733, 33}));
}

TEST(CatalogWriterTest, SumsSizesOfEveryLevel) {
  const TempDir folder;
  TestShardBuilder builder("PCR_0.pcr", 3);
  builder.AddImage("a.jpg", {Bytes(100), Bytes(0), Bytes(30)}, Bytes(7)).AddOpaque("o", Bytes(1000));
  builder.AddImage("d/b.jpg", {Bytes(10), Bytes(20), Bytes(40)});
  const auto catalog = OpenTestCatalog(folder, {builder.Build()}, 3);
  const CatalogTotals& totals = catalog->totals();
  EXPECT_EQ(totals.levels, 3);
  EXPECT_THAT(totals.level_bytes, ElementsAre(1000 + 102 + 12, 1000 + 102 + 32, 1000 + 132 + 7 + 72));
  EXPECT_EQ(totals.source_bytes, 1000u + 132 + 7 + 72) << "nothing is restorable, so the highest level is shown";
  EXPECT_EQ(totals.images, 2u);
  EXPECT_EQ(totals.opaque_files, 1u);
  EXPECT_EQ(totals.directories, 1u);
  EXPECT_EQ(totals.nodes, 5u);
}

TEST(CatalogWriterTest, CountsTheSourceSizeOfRestorableImages) {
  const TempDir folder;
  TestShard shard = TestShardBuilder("PCR_0.pcr", 1).AddImage("a.jpg", {Bytes(100)}).Build();
  Entry& entry = shard.index.entries[0];
  entry.source_size = 95;
  entry.layout.restore = {500, 20, 1};
  entry.layout.crcs.push_back(0);
  EXPECT_EQ(OpenTestCatalog(folder, {shard}, 1)->totals().source_bytes, 95u);
}

TEST(CatalogWriterTest, FoldsLevelsOfPublishedDataSetsAt31) {
  const TempDir folder;
  TestShardBuilder builder("record", 40, /*checked=*/false);
  builder.AddImage("a.jpg", std::vector<Bytes>(40, Bytes(10)));
  const auto catalog = OpenTestCatalog(folder, {builder.Build()}, 31);
  EXPECT_EQ(catalog->totals().level_bytes[29], 302u);
  EXPECT_EQ(catalog->totals().level_bytes[30], 402u);
  NodeInfo info;
  ASSERT_TRUE(catalog->Get(2, info));
  EXPECT_EQ(info.layout, builder.Build().index.entries[0].layout);
}

// More records than one LMDB transaction takes, and a list of directories larger than a page.
TEST(CatalogWriterTest, WritesManyEntriesAndDirectories) {
  const TempDir folder;
  TestShardBuilder first("PCR_0.files"), second("PCR_1.files");
  for (int i = 0; i < 40'000; ++i) {
    first.AddOpaque("d" + std::to_string(i % 10) + "/" + std::to_string(i), {});
    second.AddOpaque("e" + std::to_string(i % 3000) + "/" + std::to_string(i), {});
  }
  const std::vector<TestShard> shards = {first.Build(), second.Build()};
  const auto catalog = OpenTestCatalog(folder, shards);
  EXPECT_EQ(catalog->totals().opaque_files, 80'000u);
  EXPECT_EQ(catalog->totals().directories, 3010u);
  for (int i = 0; i < 40'000; i += 997) {
    const auto found = catalog->Find(*catalog->Find(1, "e" + std::to_string(i % 3000)), std::to_string(i));
    ASSERT_TRUE(found);
    EXPECT_EQ(*catalog->Path(*found), "e" + std::to_string(i % 3000) + "/" + std::to_string(i));
  }
  EXPECT_EQ(catalog->ReadShard(1)->entries, shards[1].index.entries);
  EXPECT_EQ(catalog->ReadShard(1)->directories, shards[1].index.directories);
}

TEST(CatalogWriterTest, WritesDirectoriesAsDeepAsAPathGoes) {
  const TempDir folder;
  std::string path;
  for (int i = 0; i < 2046; ++i) path += "d/";
  const TestShard shard = TestShardBuilder("PCR_0.files").AddOpaque(path + "f", {1}).Build();
  const auto catalog = OpenTestCatalog(folder, {shard});
  EXPECT_EQ(*catalog->Path(catalog->totals().nodes), path + "f");
  EXPECT_EQ(catalog->ReadShard(0)->directories, shard.index.directories);
}

TEST(CatalogWriterTest, WritesACatalogOfNothing) {
  const TempDir folder;
  const auto catalog = OpenTestCatalog(folder, {});
  EXPECT_EQ(catalog->totals().nodes, 1u);
  NodeInfo info;
  ASSERT_TRUE(catalog->Get(1, info));
  EXPECT_EQ(info.kind, NodeKind::kDirectory);
}

std::string ErrorOf(const std::vector<TestShard>& shards) {
  const TempDir folder;
  auto writer = CatalogWriter::Create(folder / "catalog.mdb", 10);
  EXPECT_TRUE(writer);
  for (const TestShard& shard : shards)
    if (auto added = writer->AddShard(shard.name, shard.index); !added) return added.error().message;
  const auto finished = writer->Finish();
  return finished ? "no error" : finished.error().message;
}

TEST(CatalogWriterTest, RefusesAPathThatTwoShardsHold) {
  const TestShard first = TestShardBuilder("PCR_0.pcr").AddImage("d/e/same.jpg").Build();
  const TestShard between = TestShardBuilder("PCR_1.pcr").AddImage("d/other.jpg").Build();
  const TestShard last = TestShardBuilder("PCR_5.pcr").AddOpaque("d/e/same.jpg", {1}).Build();
  EXPECT_EQ(ErrorOf({first, between, last}), "'d/e/same.jpg' is held by two shards, 'PCR_0.pcr' and 'PCR_5.pcr'");
  EXPECT_EQ(ErrorOf({first, between}), "no error");
}

TEST(CatalogWriterTest, RefusesAnEntryWhosePathIsADirectory) {
  const TestShard file = TestShardBuilder("PCR_3.pcr").AddImage("d/x").Build();
  const TestShard folder = TestShardBuilder("PCR_4.pcr").AddImage("d/x/y.jpg").Build();
  const std::string message = "'d/x' is a directory in shard 'PCR_4.pcr' and a file in shard 'PCR_3.pcr'";
  EXPECT_EQ(ErrorOf({file, folder}), message);
  EXPECT_EQ(ErrorOf({folder, file}), message);
  const TestShard empty = TestShardBuilder("PCR_4.pcr").AddImage("q.jpg").AddDirectory("d/x", {0755, 0}).Build();
  EXPECT_EQ(ErrorOf({file, empty}), message);
}

TEST(CatalogWriterTest, RefusesAnIndexThatContradictsItself) {
  const TestShard good = TestShardBuilder("PCR_0.pcr").AddImage("d/x.jpg").Build();
  const auto broken = [&](const std::function<void(ShardIndex&)>& breaks) {
    TestShard shard = good;
    breaks(shard.index);
    return ErrorOf({shard});
  };
  EXPECT_EQ(ErrorOf({good}), "no error");
  EXPECT_THAT(broken([](ShardIndex& i) { i.entries[0].directory = 2; }), AllOf(HasSubstr("PCR_0"), HasSubstr("x.jpg")));
  EXPECT_THAT(broken([](ShardIndex& i) { i.entries[0].name = "a/b"; }), HasSubstr("a/b"));
  EXPECT_THAT(broken([](ShardIndex& i) { i.entries[0].name.assign(256, 'n'); }), HasSubstr("name"));
  EXPECT_THAT(broken([](ShardIndex& i) { i.entries[0].layout.crcs.clear(); }), HasSubstr("checksums"));
  EXPECT_THAT(broken([](ShardIndex& i) { i.entries[0].layout.extents.clear(); }), HasSubstr("extent"));
  EXPECT_THAT(broken([](ShardIndex& i) { i.directory_attributes.pop_back(); }), HasSubstr("directories"));
  EXPECT_THAT(broken([](ShardIndex& i) { i.directories[0] = "no/parent"; }), HasSubstr("without its parent"));
  EXPECT_THAT(broken([](ShardIndex& i) { i.directories[0] = ".."; }), HasSubstr("no path"));
}

TEST(CatalogWriterTest, RefusesLevelsThatDoNotExist) {
  const TempDir folder;
  EXPECT_FALSE(CatalogWriter::Create(folder / "a", 0));
  EXPECT_FALSE(CatalogWriter::Create(folder / "a", 32));
  EXPECT_FALSE(CatalogWriter::Create(folder / "missing/a", 10));
}

}  // namespace
}  // namespace pcrfs
