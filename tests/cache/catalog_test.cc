#include "cache/catalog.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cache/catalog_head.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_catalog.h"
#include "tests/support/test_shard_index.h"

namespace pcrfs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RandomBytes;
using testing::ReadFile;
using testing::TempDir;
using testing::TestShard;
using testing::TestShardBuilder;
using testing::WriteFile;

std::unique_ptr<Catalog> Opened(const std::string& folder) {
  auto catalog = Catalog::Open(folder);
  EXPECT_TRUE(catalog) << catalog.error().message;
  return *std::move(catalog);
}

const std::string& LongName() {
  static const std::string name(255, '\xFE');
  return name;
}

std::vector<TestShard> SampleShards() {
  TestShardBuilder first("PCR_0.pcr"), second("PCR_1.pcr");
  for (int i = 0; i < 200; ++i) first.AddImage("class" + std::to_string(i % 7) + "/" + std::to_string(i) + ".jpg");
  first.AddOpaque("class1/readme", RandomBytes(1000, 1)).AddImage(LongName() + "/" + LongName());
  for (int i = 0; i < 100; ++i) second.AddImage("class" + std::to_string(i % 9) + "/b" + std::to_string(i) + ".jpg");
  second.AddOpaque("empty", {}).AddDirectory("nothing", {0700, 5});
  return {first.Build(), second.Build()};
}

std::string Describe(const NodeInfo& info) {
  std::string text = std::to_string(info.node) + " " + std::to_string(info.parent) + " " + std::to_string(info.shard);
  text += " " + std::to_string(info.attributes.mode) + " " + Hex(ByteSpan(info.source_sha256).first(8));
  for (const Extent& extent : info.layout.extents)
    text += " " + std::to_string(extent.offset) + "+" + std::to_string(extent.size);
  for (const uint32_t crc : info.layout.crcs) text += " " + std::to_string(crc);
  return text;
}

// All that can be asked, a line an answer; damage and absence are told apart from answers.
std::vector<std::string> Answers(const Catalog& catalog, uint64_t nodes) {
  std::vector<std::string> answers;
  NodeInfo info;
  for (uint64_t node = 1; node <= nodes; ++node) {
    const auto got = catalog.Get(node, info);
    answers.push_back(got ? Describe(info) : "error");
    const auto path = catalog.Path(node);
    answers.push_back(path ? *path : "error");
    std::string names;
    const auto listed = catalog.List(node, 0, [&](const DirectoryItem& item) {
      const auto found = catalog.Find(node, item.name);
      names += std::to_string(item.node) + (found && *found == item.node ? "=" : "!") + std::string(item.name) + "/";
      return true;
    });
    answers.push_back(listed ? names : "error");
  }
  return answers;
}

TEST(CatalogTest, FindsEveryEntryAsItsShardDescribesIt) {
  const TempDir folder;
  const std::vector<TestShard> shards = SampleShards();
  testing::WriteTestCatalog(folder.path(), shards);
  const auto catalog = Opened(folder.path());
  NodeInfo info;
  for (size_t s = 0; s < shards.size(); ++s)
    for (const Entry& entry : shards[s].index.entries) {
      const std::string directory = entry.directory == 0 ? "" : shards[s].index.directories[entry.directory - 1];
      const uint64_t parent = directory.empty() ? 1 : catalog->Find(1, directory).value_or(0);
      const auto node = catalog->Find(parent, entry.name);
      ASSERT_TRUE(node) << directory << " " << entry.name;
      ASSERT_TRUE(catalog->Get(*node, info));
      EXPECT_EQ(info.node, *node);
      EXPECT_EQ(info.parent, parent);
      EXPECT_EQ(info.shard, s);
      EXPECT_EQ(info.kind, NodeKindOf(entry.layout.kind));
      EXPECT_EQ(info.attributes, entry.attributes);
      EXPECT_EQ(info.source_size, entry.source_size);
      EXPECT_EQ(info.source_sha256, entry.source_sha256);
      EXPECT_EQ(info.layout, entry.layout);
      EXPECT_EQ(*catalog->Path(*node), directory.empty() ? entry.name : directory + "/" + entry.name);
    }
  EXPECT_THAT(catalog->shards(), ElementsAre(ShardStamp{"PCR_0.pcr", shards[0].bytes.size(), 0, {}},
                                             ShardStamp{"PCR_1.pcr", shards[1].bytes.size(), 0, {}}));
}

TEST(CatalogTest, SaysWhatIsNotThere) {
  const TempDir folder;
  testing::WriteTestCatalog(folder.path(), SampleShards());
  const auto catalog = Opened(folder.path());
  const auto code = [](const auto& result) { return result ? ErrorCode::kExists : result.error().code; };
  const uint64_t file = *catalog->Find(*catalog->Find(1, "class1"), "readme");
  for (const std::string& name : {std::string("class"), std::string("class11"), std::string(), std::string(256, 'n'),
                                  std::string("class1\0", 7), std::string(600, 'n')})
    EXPECT_EQ(code(catalog->Find(1, name)), ErrorCode::kNotFound) << name;
  EXPECT_EQ(code(catalog->Find(file, "readme")), ErrorCode::kNotFound);
  EXPECT_EQ(code(catalog->Find(UINT64_MAX, "readme")), ErrorCode::kNotFound);
  NodeInfo info;
  for (const uint64_t node : {uint64_t{0}, catalog->totals().nodes + 1, UINT64_MAX}) {
    EXPECT_EQ(code(catalog->Get(node, info)), ErrorCode::kNotFound);
    EXPECT_EQ(code(catalog->Path(node)), ErrorCode::kNotFound);
    EXPECT_TRUE(catalog->List(node, 0, [](const DirectoryItem&) { return ADD_FAILURE(), true; }));
  }
}

TEST(CatalogTest, ListingsGoOnBehindAnyNode) {
  const TempDir folder;
  testing::WriteTestCatalog(folder.path(), SampleShards());
  const auto catalog = Opened(folder.path());
  const uint64_t directory = *catalog->Find(1, "class1");
  std::vector<uint64_t> whole;
  ASSERT_TRUE(catalog->List(directory, 0, [&](const DirectoryItem& item) {
    whole.push_back(item.node);
    return true;
  }));
  ASSERT_GT(whole.size(), 20u);
  EXPECT_TRUE(std::ranges::is_sorted(whole));
  std::vector<uint64_t> one_by_one;
  for (uint64_t after = 0;;) {
    const size_t before = one_by_one.size();
    ASSERT_TRUE(catalog->List(directory, after, [&](const DirectoryItem& item) {
      one_by_one.push_back(item.node);
      return false;
    }));
    if (one_by_one.size() == before) break;
    after = one_by_one.back();
  }
  EXPECT_EQ(one_by_one, whole);
  EXPECT_TRUE(catalog->List(directory, UINT64_MAX, [](const DirectoryItem&) { return ADD_FAILURE(), true; }));
}

TEST(CatalogTest, GivesBackWhatTheWriterWasGiven) {
  const TempDir folder;
  std::vector<TestShard> shards = SampleShards();
  shards.push_back(TestShardBuilder("PCR_2.pcr").AddImage("class1/last.jpg").AddDirectory("class1", {0111, 1}).Build());
  shards[2].index.directory_attributes[0] = {0123, 456};
  testing::WriteTestCatalog(folder.path(), shards);
  const auto catalog = Opened(folder.path());
  for (size_t s = 0; s < shards.size(); ++s) {
    const auto read = catalog->ReadShard(s);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->levels, shards[s].index.levels);
    EXPECT_EQ(read->image_count, shards[s].index.image_count);
    EXPECT_EQ(read->directories, shards[s].index.directories);
    EXPECT_EQ(read->directory_attributes, shards[s].index.directory_attributes);
    EXPECT_EQ(read->entries, shards[s].index.entries);
  }
  EXPECT_FALSE(catalog->ReadShard(3));
}

TEST(CatalogTest, ReadsTheChecksumsOfALargeFilePieceByPiece) {
  const TempDir folder;
  TestShard shard = TestShardBuilder("PCR_0.files").AddOpaque("large", {}).AddOpaque("small", {1}).Build();
  EntryLayout& layout = shard.index.entries[0].layout;
  layout.extents[0].size = 2000 * kChecksumBlock - 5;
  for (uint32_t i = 0; i < 2000; ++i) layout.crcs.push_back(i * 7);
  testing::WriteTestCatalog(folder.path(), {shard});
  const auto catalog = Opened(folder.path());
  const uint64_t node = *catalog->Find(1, "large");
  NodeInfo info;
  ASSERT_TRUE(catalog->Get(node, info));
  EXPECT_TRUE(info.layout.crcs.empty());
  EXPECT_EQ(info.crc_count, 2000u);
  std::vector<uint32_t> crcs;
  for (const auto& [first, count] : {std::pair<uint64_t, uint64_t>{0, 1}, {447, 2}, {1999, 1}, {0, 2000}, {5, 0}}) {
    ASSERT_TRUE(catalog->ReadCrcs(node, first, count, crcs));
    EXPECT_TRUE(std::ranges::equal(crcs, std::span(layout.crcs).subspan(first, count))) << first << " " << count;
  }
  EXPECT_FALSE(catalog->ReadCrcs(node, 1999, 2, crcs)) << "more than there are";
  EXPECT_FALSE(catalog->ReadCrcs(*catalog->Find(1, "small"), 0, 1, crcs)) << "those are in the node itself";
  EXPECT_EQ(catalog->ReadShard(0)->entries, shard.index.entries);
}

TEST(CatalogTest, ManyThreadsGetTheSameAnswers) {
  const TempDir folder;
  testing::WriteTestCatalog(folder.path(), SampleShards());
  const auto catalog = Opened(folder.path()), second = Opened(folder.path());
  const uint64_t nodes = catalog->totals().nodes;
  const std::vector<std::string> expected = Answers(*catalog, nodes);
  std::vector<std::thread> threads;
  for (int t = 0; t < 80; ++t)  // more than there are places for kept transactions
    threads.emplace_back([&, t] { EXPECT_EQ(Answers(t % 2 == 0 ? *catalog : *second, nodes), expected); });
  for (std::thread& thread : threads) thread.join();
}

TEST(CatalogTest, OutlivesThreadsAndCatalogsThatGo) {
  const TempDir folder;
  testing::WriteTestCatalog(folder.path(), SampleShards());
  for (int round = 0; round < 3; ++round) {
    const auto catalog = Opened(folder.path());
    for (int t = 0; t < 100; ++t) std::thread([&] { EXPECT_TRUE(catalog->Find(1, "class1")); }).join();
  }
}

TEST(CatalogTest, StillReadsAfterItsFilesAreDeleted) {
  const TempDir folder;
  testing::WriteTestCatalog(folder.path(), SampleShards());
  const auto catalog = Opened(folder.path());
  const auto expected = Answers(*catalog, catalog->totals().nodes);
  unlink((folder / kCatalogFile).c_str());
  unlink((folder / kCatalogHeadFile).c_str());
  EXPECT_EQ(Answers(*catalog, catalog->totals().nodes), expected);
}

TEST(CatalogTest, OpensFromAReadOnlyFolder) {
  const TempDir folder;
  testing::WriteTestCatalog(folder.path(), SampleShards());
  chmod((folder / kCatalogFile).c_str(), 0400);
  chmod(folder.path().c_str(), 0500);
  EXPECT_TRUE(Catalog::Open(folder.path()));
  EXPECT_EQ(access((folder / "catalog.mdb-lock").c_str(), F_OK), -1) << "LMDB made no lock file";
  chmod(folder.path().c_str(), 0700);
}

TEST(CatalogTest, OpenFindsEveryFlippedBit) {
  const TempDir folder;
  testing::WriteTestCatalog(folder.path(), SampleShards());
  const Bytes good = ReadFile(folder / kCatalogFile);
  std::mt19937_64 random(3);
  for (int i = 0; i < 300; ++i) {
    Bytes damaged = good;
    damaged[random() % damaged.size()] ^= static_cast<uint8_t>(1 << random() % 8);
    WriteFile(folder / kCatalogFile, damaged);
    const auto opened = Catalog::Open(folder.path());
    ASSERT_FALSE(opened) << i;
    EXPECT_EQ(opened.error().code, ErrorCode::kDamaged);
  }
  WriteFile(folder / kCatalogFile, good);
  EXPECT_TRUE(Catalog::Open(folder.path()));
}

TEST(CatalogTest, OpenFindsEveryTruncation) {
  const TempDir folder;
  testing::WriteTestCatalog(folder.path(), SampleShards());
  const Bytes good = ReadFile(folder / kCatalogFile);
  std::mt19937_64 random(4);
  for (int i = 0; i < 60; ++i) {
    WriteFile(folder / kCatalogFile, ByteSpan(good).first(i == 0 ? good.size() - 1 : random() % good.size()));
    const auto opened = Catalog::Open(folder.path());
    ASSERT_FALSE(opened) << i;
    EXPECT_EQ(opened.error().code, ErrorCode::kDamaged);
  }
}

TEST(CatalogTest, OpenRefusesAnotherBuildsHead) {
  const TempDir folder, other;
  testing::WriteTestCatalog(folder.path(), SampleShards());
  testing::WriteTestCatalog(other.path(), {SampleShards()[0]});
  WriteFile(folder / kCatalogHeadFile, ReadFile(other / kCatalogHeadFile));
  const auto opened = Catalog::Open(folder.path());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kDamaged);
  unlink((folder / kCatalogHeadFile).c_str());
  EXPECT_EQ(Catalog::Open(folder.path()).error().code, ErrorCode::kNotFound);
}

TEST(CatalogTest, OpenRefusesFilesThatOthersCanWrite) {
  const TempDir folder;
  testing::WriteTestCatalog(folder.path(), SampleShards());
  chmod((folder / kCatalogFile).c_str(), 0666);
  const auto opened = Catalog::Open(folder.path());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kPermission);
  EXPECT_THAT(opened.error().message, HasSubstr("catalog.mdb"));
}

// What goes bad after Open is found record by record. The mapping shows what is written to the file.
TEST(CatalogTest, ARecordThatGoesBadIsAnErrorAndNeverAnothersBytes) {
  const TempDir folder;
  const std::vector<TestShard> shards = SampleShards();
  testing::WriteTestCatalog(folder.path(), shards);
  const auto catalog = Opened(folder.path());
  const auto expected = Answers(*catalog, catalog->totals().nodes);
  const Bytes file = ReadFile(folder / kCatalogFile);
  const UniqueFd fd(open((folder / kCatalogFile).c_str(), O_WRONLY));
  ASSERT_TRUE(fd.valid());
  int damaged = 0;
  for (const Entry& entry : shards[0].index.entries) {
    const auto at = std::search(file.begin(), file.end(), entry.source_sha256.begin(), entry.source_sha256.end());
    ASSERT_NE(at, file.end());
    const uint8_t flipped = *at ^ 0x20;
    ASSERT_EQ(pwrite(fd.get(), &flipped, 1, at - file.begin()), 1);
    ++damaged;
  }
  const auto answers = Answers(*catalog, catalog->totals().nodes);
  ASSERT_EQ(answers.size(), expected.size());
  int errors = 0;
  for (size_t i = 0; i < answers.size(); ++i) {
    errors += answers[i] == "error" ? 1 : 0;
    EXPECT_TRUE(answers[i] == expected[i] || answers[i] == "error") << answers[i];
  }
  EXPECT_EQ(errors, 2 * damaged) << "Get and Path of each";
}

// Flips a bit of each record that holds `wanted`, one at a time: of keys and values, in LMDB's leaf pages.
void WithEachFlipped(const std::string& path, ByteSpan wanted, const std::function<void()>& check) {
  constexpr std::ptrdiff_t kPage = 4096, kFlagsInPage = 10;
  const Bytes file = ReadFile(path);
  const UniqueFd fd(open(path.c_str(), O_WRONLY));
  ASSERT_TRUE(fd.valid());
  int flipped = 0;
  for (auto at = file.begin();; ++at) {
    at = std::search(at, file.end(), wanted.begin(), wanted.end());
    if (at == file.end()) break;
    const std::ptrdiff_t offset = at - file.begin();
    if ((file[static_cast<size_t>(offset / kPage * kPage + kFlagsInPage)] & 1) != 0) continue;  // a branch page
    const auto last = static_cast<off_t>(offset + static_cast<std::ptrdiff_t>(wanted.size()) - 1);
    for (const uint8_t mask : {uint8_t{1}, uint8_t{0x80}}) {
      const uint8_t bad = wanted.back() ^ mask;
      ASSERT_EQ(pwrite(fd.get(), &bad, 1, last), 1);
      check();
      ++flipped;
    }
    ASSERT_EQ(pwrite(fd.get(), &wanted.back(), 1, last), 1);
  }
  EXPECT_GE(flipped, 4) << "at least two records";
}

TEST(CatalogTest, ARecordWhoseKeyGoesBadIsDamageAndNeverAMissingFile) {
  const TempDir folder;
  testing::WriteTestCatalog(folder.path(), SampleShards());
  const auto catalog = Opened(folder.path());
  const auto expected = Answers(*catalog, catalog->totals().nodes);
  const uint64_t parent = *catalog->Find(1, "class1");
  for (const std::string name : {"b1.jpg", "b10.jpg", "8.jpg", "99.jpg", "readme"}) {
    const auto node = catalog->Find(parent, name);
    if (!node) continue;
    int damaged = 0;
    const auto check = [&] {
      const auto found = catalog->Find(parent, name);
      EXPECT_TRUE(found ? *found == *node : found.error().code == ErrorCode::kDamaged) << name;
      NodeInfo info;
      const auto got = catalog->Get(*node, info);
      EXPECT_TRUE(got || got.error().code == ErrorCode::kDamaged) << name;
      const auto path = catalog->Path(*node);
      EXPECT_TRUE(path || path.error().code == ErrorCode::kDamaged) << name;
      size_t listed_names = 0;
      const auto listed = catalog->List(parent, 0, [&](const DirectoryItem&) { return ++listed_names > 0; });
      EXPECT_TRUE(listed ? listed_names > 10 : listed.error().code == ErrorCode::kDamaged) << name;
      damaged += found && got && path && listed ? 0 : 1;
    };
    WithEachFlipped(folder / kCatalogFile, AsBytes(name), check);
    ByteWriter number;
    for (int shift = 56; shift >= 0; shift -= 8) number.U8(static_cast<uint8_t>(*node >> shift));
    WithEachFlipped(folder / kCatalogFile, number.bytes(), check);
    EXPECT_GE(damaged, 8) << "names, children, nodes and both directions of each";
    EXPECT_EQ(Answers(*catalog, catalog->totals().nodes), expected) << "all is well again";
  }
}

TEST(CatalogTest, SetAsideIsBuiltAnewButNeverTheOneBuiltMeanwhile) {
  const TempDir folder;
  testing::WriteTestCatalog(folder.path(), SampleShards());
  const auto first = Opened(folder.path());
  first->SetAside();
  EXPECT_EQ(Catalog::Open(folder.path()).error().code, ErrorCode::kNotFound);
  ASSERT_EQ(mkdir((folder / "other").c_str(), 0700), 0);
  testing::WriteTestCatalog(folder / "other", SampleShards());
  for (const std::string_view name : {kCatalogFile, kCatalogHeadFile})
    ASSERT_EQ(rename((folder / ("other/" + std::string(name))).c_str(), (folder / name).c_str()), 0);
  first->SetAside();
  EXPECT_TRUE(Catalog::Open(folder.path()));
}

}  // namespace
}  // namespace pcrfs
