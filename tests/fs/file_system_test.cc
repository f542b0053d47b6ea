#include "fs/file_system.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cache/catalog_builder.h"
#include "tests/support/faulty_source.h"
#include "tests/support/sample_dataset.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_catalog.h"
#include "tests/support/test_shard_index.h"

namespace pcrfs {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FaultySource;
using ::testing::HasSubstr;
using testing::ImageAtLevel;
using testing::RandomBytes;
using testing::SampleDataset;
using testing::SampleFile;
using testing::TempDir;
using testing::TestShard;
using testing::TestShardBuilder;

const auto kCode = [](const auto& result) { return result ? ErrorCode::kExists : result.error().code; };

Ino Walk(const FileSystem& files, Ino at, const std::string& path) {
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const auto stat = files.Lookup(at, path.substr(begin, end - begin));
    EXPECT_TRUE(stat) << path << ": " << (stat ? "" : stat.error().message);
    if (!stat) return Ino(0);
    at = stat->ino;
    begin = end + 1;
  }
  return at;
}

Bytes ReadAll(const FileSystem& files, Ino ino, uint64_t size) {
  Bytes bytes(static_cast<size_t>(size) + 10);
  const auto read = files.Read(ino, 0, bytes);
  EXPECT_TRUE(read) << read.error().message;
  bytes.resize(read.value_or(0));
  return bytes;
}

struct Listed {
  uint64_t ino;
  FileType type;
  std::string name;
  uint64_t offset;

  friend bool operator==(const Listed&, const Listed&) = default;
};

std::vector<Listed> List(const FileSystem& files, Ino ino, uint64_t after = 0, size_t most = SIZE_MAX) {
  std::vector<Listed> items;
  const auto listed = files.ReadDir(ino, after, [&](const DirEntry& entry) {
    items.push_back({entry.ino.number(), entry.type, std::string(entry.name), entry.offset});
    return items.size() < most;
  });
  EXPECT_TRUE(listed) << listed.error().message;
  return items;
}

std::vector<std::string> Names(const FileSystem& files, Ino ino) {
  std::vector<std::string> names;
  for (const Listed& item : List(files, ino)) names.push_back(item.name);
  return names;
}

// A real data set on disk, opened as a mount opens it.
class MountedSampleTest : public ::testing::Test {
 protected:
  MountedSampleTest() : sample_(testing::WriteSampleDataset(data_.path())) {}

  std::unique_ptr<FileSystem> Open(MountView view = {}) {
    auto dataset = Dataset::Open(data_.path());
    auto catalog = OpenOrBuildCatalog(*dataset, cache_.path(), nullptr);
    EXPECT_TRUE(catalog) << catalog.error().message;
    auto files = FileSystem::Open(*std::move(dataset), *std::move(catalog), view, [this](const Error& error, auto) {
      const std::lock_guard lock(mutex_);
      faults_.push_back(error.message);
    });
    EXPECT_TRUE(files) << files.error().message;
    return *std::move(files);
  }

  TempDir data_, cache_;
  SampleDataset sample_;
  std::mutex mutex_;
  std::vector<std::string> faults_;
};

TEST_F(MountedSampleTest, ShowsEveryFileAtEveryLevelByteForByte) {
  const auto files = Open();
  for (int level = 1; level <= 10; ++level)
    for (const SampleFile& file : sample_.files) {
      const Ino ino = Walk(*files, Ino(1, level), file.path);
      const Bytes& expected = file.levels[static_cast<size_t>(level - 1)];
      const auto stat = files->GetAttr(ino);
      ASSERT_TRUE(stat);
      EXPECT_EQ(stat->size, expected.size());
      EXPECT_EQ(stat->blocks, (expected.size() + 511) / 512);
      EXPECT_EQ(stat->type, FileType::kRegular);
      EXPECT_EQ(stat->permissions, file.attributes.mode & 0555);
      EXPECT_EQ(stat->mtime_ns, file.attributes.mtime_ns);
      EXPECT_EQ(stat->block_size, 131072u);
      EXPECT_EQ(ReadAll(*files, ino, stat->size), expected) << file.path << " at level " << level;
    }
  EXPECT_THAT(faults_, ElementsAre());
}

TEST_F(MountedSampleTest, WhatIsAtHandIsTheSameBytesAndAsksForNothing) {
  const auto files = Open();
  const SampleFile& file = sample_.files[0];
  const Ino ino = Walk(*files, Ino(1, 10), file.path);
  Bytes at_hand(file.levels[9].size());
  EXPECT_FALSE(files->ReadAtHand(ino, 0, at_hand)) << "its shard was not opened yet";
  EXPECT_EQ(ReadAll(*files, ino, at_hand.size()), file.levels[9]);
  if (const auto read = files->ReadAtHand(ino, 0, at_hand)) {  // where the file system can tell
    EXPECT_EQ(*read, at_hand.size());
    EXPECT_EQ(at_hand, file.levels[9]);
  }
  for (const Ino none : {Ino(1, 10), kCurrentLink, kMountRoot, Ino(9999, 3)})
    EXPECT_FALSE(files->ReadAtHand(none, 0, at_hand)) << none.number();
  EXPECT_THAT(faults_, ElementsAre());
}

TEST_F(MountedSampleTest, TheRootHoldsLevelsCurrentAndOriginal) {
  const auto files = Open();
  EXPECT_EQ(files->levels(), 10);
  EXPECT_THAT(Names(*files, kMountRoot), ElementsAre(".", "..", "scan1", "scan2", "scan3", "scan4", "scan5", "scan6",
                                                     "scan7", "scan8", "scan9", "scan10", "current", "original"));
  for (const Listed& item : List(*files, kMountRoot)) {
    const auto stat = files->Lookup(kMountRoot, item.name);
    ASSERT_TRUE(stat) << item.name;
    EXPECT_EQ(stat->ino.number(), item.ino);
    EXPECT_EQ(stat->type, item.type);
    EXPECT_EQ(files->GetAttr(Ino(item.ino))->ino.number(), item.ino);
  }
  EXPECT_EQ(files->Lookup(kMountRoot, "scan3")->ino.number(), 35u);
  EXPECT_EQ(files->Lookup(kMountRoot, "original")->ino.number(), 32u);
  for (const char* name :
       {"scan0", "scan11", "scan01", "scan", "scan1x", "scan+1", "scan-1", "originals", "", "scan32"})
    EXPECT_EQ(kCode(files->Lookup(kMountRoot, name)), ErrorCode::kNotFound) << name;
  const auto root = files->GetAttr(kMountRoot);
  EXPECT_EQ(root->permissions, 0555u);
  EXPECT_EQ(root->mtime_ns, sample_.root.mtime_ns);
}

TEST_F(MountedSampleTest, CurrentPointsToTheHighestLevel) {
  const auto files = Open();
  const auto current = files->Lookup(kMountRoot, "current");
  ASSERT_TRUE(current);
  EXPECT_EQ(current->ino, kCurrentLink);
  EXPECT_EQ(current->type, FileType::kSymlink);
  EXPECT_EQ(*files->ReadLink(current->ino), "scan10");
  EXPECT_EQ(current->size, 6u);
  Bytes out(10);
  EXPECT_EQ(kCode(files->Read(kCurrentLink, 0, out)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(kCode(files->Lookup(kCurrentLink, "x")), ErrorCode::kNotDirectory);
  EXPECT_EQ(kCode(files->ReadDir(kCurrentLink, 0, nullptr)), ErrorCode::kNotDirectory);
  EXPECT_EQ(kCode(files->ReadLink(kMountRoot)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(kCode(files->ReadLink(Ino(1, 3))), ErrorCode::kInvalidArgument);
}

TEST_F(MountedSampleTest, WithOneLevelTheRootIsItsTree) {
  const auto files = Open({Level::Of<3>()});
  std::vector<std::string> names = Names(*files, kMountRoot);
  EXPECT_THAT(names, ElementsAre(".", "..", "cats", "dogs", "root.jpg", "zz notes.txt", "empty"));
  EXPECT_EQ(kCode(files->Lookup(kMountRoot, "scan3")), ErrorCode::kNotFound);
  EXPECT_EQ(files->GetAttr(kMountRoot)->ino, kMountRoot);
  EXPECT_EQ(files->GetAttr(kMountRoot)->permissions, 0555u);
  for (const SampleFile& file : sample_.files) {
    const Ino ino = Walk(*files, kMountRoot, file.path);
    EXPECT_EQ(ino.level(), 3);
    EXPECT_EQ(ReadAll(*files, ino, file.levels[2].size()), file.levels[2]);
  }
  const Ino cats = files->Lookup(kMountRoot, "cats")->ino;
  EXPECT_EQ(files->Lookup(cats, "..")->ino, kMountRoot);
  EXPECT_EQ(List(*files, cats)[1].ino, kMountRoot.number());
  // Numbers of the other trees, and of this one's root in the other view, are not of this mount.
  for (const Ino ino : {kCurrentLink, Ino(1, 3), Ino(1, 4), Ino(2, 4), Ino(2, 0)})
    EXPECT_EQ(kCode(files->GetAttr(ino)), ErrorCode::kStale) << ino.number();
}

TEST_F(MountedSampleTest, NumbersAreTheSameInBothViewsAndAfterAnotherOpen) {
  const auto several = Open(), one = Open({Level::Of<7>()}), again = Open();
  for (const SampleFile& file : sample_.files) {
    const Ino ino = Walk(*several, Ino(1, 7), file.path);
    EXPECT_EQ(Walk(*one, kMountRoot, file.path), ino);
    EXPECT_EQ(Walk(*again, Ino(1, 7), file.path), ino);
  }
}

TEST_F(MountedSampleTest, RefusesALevelThatTheDataSetLacks) {
  auto dataset = Dataset::Open(data_.path());
  auto catalog = OpenOrBuildCatalog(*dataset, cache_.path(), nullptr);
  const auto files = FileSystem::Open(*std::move(dataset), *std::move(catalog), {Level::Of<11>()}, nullptr);
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(files.error().message, AllOf(HasSubstr("10 levels"), HasSubstr("11")));
}

TEST_F(MountedSampleTest, ChecksEveryNumberHandedIn) {
  const auto files = Open();
  const uint64_t nodes = files->catalog().totals().nodes;
  Bytes out(10);
  for (const Ino ino : {Ino(0), Ino(2), Ino(30), Ino(1, 11), Ino(1, 31), Ino(2, 11), Ino(nodes + 1, 0),
                        Ino(nodes + 1, 1), Ino(UINT64_MAX), Ino(Ino::kMaxNode, 10)}) {
    EXPECT_EQ(kCode(files->GetAttr(ino)), ErrorCode::kStale) << ino.number();
    EXPECT_EQ(kCode(files->Lookup(ino, "a")), ErrorCode::kStale) << ino.number();
    EXPECT_EQ(kCode(files->Lookup(ino, ".")), ErrorCode::kStale) << ino.number();
    EXPECT_EQ(kCode(files->ReadDir(ino, 0, nullptr)), ErrorCode::kStale) << ino.number();
    EXPECT_EQ(kCode(files->Read(ino, 0, out)), ErrorCode::kStale) << ino.number();
    EXPECT_EQ(kCode(files->ReadLink(ino)), ErrorCode::kStale) << ino.number();
    EXPECT_EQ(kCode(files->GetStatFs(ino)), ErrorCode::kStale) << ino.number();
  }
  const Ino file = Walk(*files, Ino(1, 2), "cats/gray.jpg"), directory = Walk(*files, Ino(1, 2), "cats");
  EXPECT_EQ(kCode(files->Lookup(file, "x")), ErrorCode::kNotDirectory);
  EXPECT_EQ(kCode(files->Lookup(file, "..")), ErrorCode::kNotDirectory);
  EXPECT_EQ(kCode(files->ReadDir(file, 0, nullptr)), ErrorCode::kNotDirectory);
  EXPECT_EQ(kCode(files->Read(directory, 0, out)), ErrorCode::kIsDirectory);
  EXPECT_EQ(kCode(files->Read(kMountRoot, 0, out)), ErrorCode::kIsDirectory);
  EXPECT_THAT(faults_, ElementsAre());
}

TEST_F(MountedSampleTest, LooksUpDotDotDotAndLongNames) {
  const auto files = Open();
  const Ino old = Walk(*files, Ino(1, 4), "cats/old"), tail = Walk(*files, old, "tail.jpg");
  EXPECT_EQ(files->Lookup(tail, ".")->ino, tail);
  EXPECT_EQ(files->Lookup(old, ".")->ino, old);
  EXPECT_EQ(files->Lookup(old, "..")->ino, Walk(*files, Ino(1, 4), "cats"));
  EXPECT_EQ(files->Lookup(Ino(1, 4), "..")->ino, kMountRoot);
  EXPECT_EQ(files->Lookup(kMountRoot, "..")->ino, kMountRoot);
  EXPECT_EQ(files->Lookup(kCurrentLink, ".")->ino, kCurrentLink);
  for (const Ino ino : {old, kMountRoot}) {
    EXPECT_EQ(kCode(files->Lookup(ino, std::string(256, 'n'))), ErrorCode::kLimit);
    EXPECT_EQ(kCode(files->Lookup(ino, std::string(255, 'n'))), ErrorCode::kNotFound);
  }
}

TEST_F(MountedSampleTest, ListingsAgreeWithLookUpsAndGoOnAnywhere) {
  const auto files = Open();
  std::vector<Ino> directories = {kMountRoot, Ino(1, 5)};
  for (size_t d = 0; d < directories.size(); ++d) {
    const std::vector<Listed> whole = List(*files, directories[d]);
    for (size_t i = 0; i < whole.size(); ++i) {
      const auto stat = files->Lookup(directories[d], whole[i].name);
      ASSERT_TRUE(stat);
      EXPECT_EQ(stat->ino.number(), whole[i].ino) << whole[i].name;
      EXPECT_EQ(stat->type, whole[i].type);
      const std::vector<Listed> rest(whole.begin() + static_cast<std::ptrdiff_t>(i) + 1, whole.end());
      EXPECT_EQ(List(*files, directories[d], whole[i].offset), rest);
      if (d > 0 && i >= 2 && whole[i].type == FileType::kDirectory) directories.emplace_back(whole[i].ino);
    }
    EXPECT_EQ(List(*files, directories[d], 0, 1).size(), 1u);
    EXPECT_TRUE(List(*files, directories[d], UINT64_MAX).empty());
  }
  EXPECT_EQ(directories.size(), 2u + sample_.directories.size());
}

TEST_F(MountedSampleTest, NumbersAreUniqueOverAllTrees) {
  const auto files = Open();
  std::set<uint64_t> seen = {kMountRoot.number(), kCurrentLink.number()};
  for (int level = 1; level <= 10; ++level) {
    EXPECT_TRUE(seen.insert(Ino(1, level).number()).second);
    for (const SampleFile& file : sample_.files)
      EXPECT_TRUE(seen.insert(Walk(*files, Ino(1, level), file.path).number()).second);
  }
}

TEST_F(MountedSampleTest, ShowsTheModesOwnersAndTimesAsked) {
  const auto files = Open({std::nullopt, 123, 456, 0027});
  const auto stat = [&](const std::string& path) { return *files->GetAttr(Walk(*files, Ino(1, 1), path)); };
  EXPECT_EQ(stat("cats/large.bin").permissions, 0550u) << "04755: no setuid, no write";
  EXPECT_EQ(stat("cats/gray.jpg").permissions, 0400u);
  EXPECT_EQ(stat("cats").permissions, 0550u) << "0750";
  EXPECT_EQ(stat("cats/old").permissions, 0500u);
  EXPECT_EQ(stat("empty").permissions, 0550u) << "01777: no sticky";
  EXPECT_EQ(stat("empty").type, FileType::kDirectory);
  EXPECT_EQ(stat("cats/old").mtime_ns, -1);
  for (const Stat& shown :
       {stat("cats"), stat("cats/gray.jpg"), *files->GetAttr(kMountRoot), *files->GetAttr(kCurrentLink)}) {
    EXPECT_EQ(shown.uid, 123u);
    EXPECT_EQ(shown.gid, 456u);
  }
  EXPECT_EQ(files->GetAttr(kMountRoot)->permissions, 0550u);
  EXPECT_EQ(files->GetAttr(kCurrentLink)->permissions, 0777u);
}

TEST_F(MountedSampleTest, StatFsTellsWhatTheLevelHolds) {
  const auto files = Open();
  for (int level = 1; level <= 10; ++level) {
    uint64_t bytes = 0;
    for (const SampleFile& file : sample_.files) bytes += file.levels[static_cast<size_t>(level - 1)].size();
    const auto statfs = files->GetStatFs(Ino(2, level));
    ASSERT_TRUE(statfs);
    EXPECT_EQ(statfs->blocks, (bytes + statfs->block_size - 1) / statfs->block_size);
    EXPECT_EQ(statfs->files, sample_.files.size() + sample_.directories.size() + 1);
  }
  EXPECT_EQ(files->GetStatFs(kMountRoot)->blocks, files->GetStatFs(Ino(1, 10))->blocks);
  EXPECT_TRUE(files->GetStatFs(kCurrentLink));
}

TEST_F(MountedSampleTest, ReadsEndWhereTheFileEnds) {
  const auto files = Open();
  const Ino ino = Walk(*files, Ino(1, 10), "cats/large.bin");
  const uint64_t size = files->GetAttr(ino)->size;
  Bytes out(100);
  EXPECT_EQ(*files->Read(ino, size - 7, out), 7u);
  EXPECT_EQ(*files->Read(ino, size, out), 0u);
  EXPECT_EQ(*files->Read(ino, UINT64_MAX, out), 0u);
  EXPECT_EQ(*files->Read(ino, 5, {}), 0u);
  EXPECT_EQ(*files->Read(Walk(*files, Ino(1, 10), "cats/empty.txt"), 0, out), 0u);
}

TEST_F(MountedSampleTest, AShardUnlinkedWhileOpenStillReads) {
  const auto files = Open();
  const Ino first = Walk(*files, Ino(1, 10), "cats/gray.jpg"), other = Walk(*files, Ino(1, 10), "root.jpg");
  const Bytes before = ReadAll(*files, first, files->GetAttr(first)->size);
  unlink((data_ / "PCR_0.pcr").c_str());
  unlink((data_ / "PCR_1.pcr").c_str());
  EXPECT_EQ(ReadAll(*files, first, before.size()), before);
  Bytes out(10);
  EXPECT_EQ(kCode(files->Read(other, 0, out)), ErrorCode::kIo) << "never 'no such file' for a file that is shown";
  EXPECT_EQ(kCode(files->Read(other, 0, out)), ErrorCode::kIo);
  EXPECT_TRUE(files->GetAttr(other));
  ASSERT_EQ(faults_.size(), 1u) << "told once";
  EXPECT_THAT(faults_[0], AllOf(HasSubstr("PCR_1.pcr"), HasSubstr("root.jpg")));
}

TEST_F(MountedSampleTest, AShardShrunkIsStaleAndOneCopiedAnewIsNot) {
  const auto files = Open(), second = Open();
  const Ino gray = Walk(*files, Ino(1, 10), "cats/gray.jpg"), root = Walk(*files, Ino(1, 10), "root.jpg");
  Bytes out(10);
  ASSERT_TRUE(files->Read(gray, 0, out));
  ASSERT_EQ(truncate((data_ / "PCR_0.pcr").c_str(), 100), 0);
  EXPECT_EQ(kCode(files->Read(gray, 0, out)), ErrorCode::kStale) << "shrunk while open";
  EXPECT_EQ(kCode(second->Read(gray, 0, out)), ErrorCode::kStale) << "shrunk before it was opened";
  testing::WriteFile(data_ / "PCR_1.pcr", testing::ReadFile(data_ / "PCR_1.pcr"));
  const timespec times[2] = {{0, UTIME_OMIT}, {1'000'000'000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, (data_ / "PCR_1.pcr").c_str(), times, 0), 0);
  EXPECT_TRUE(files->Read(root, 0, out)) << "written anew, but the same shard";
}

// Shards in memory, with faults.
class FaultyFileSystemTest : public ::testing::Test {
 protected:
  FaultyFileSystemTest() {
    TestShardBuilder first("PCR_0.pcr"), second("PCR_1.pcr");
    for (int g = 0; g < 10; ++g) fragments_.push_back(RandomBytes(g == 2 ? 200'000 : 1000, static_cast<uint64_t>(g)));
    first.AddImage("scan1/a.jpg", fragments_).AddImage("b.jpg").AddOpaque("scan1/blob", RandomBytes(3000, 1));
    shards_ = {first.Build(), second.AddOpaque("large", RandomBytes(3000, 2)).Build()};
  }

  std::unique_ptr<FileSystem> Open() {
    testing::WriteTestCatalog(folder_.path(), shards_);
    std::vector<ShardFacts> facts;
    for (const TestShard& shard : shards_) {
      uint64_t end = 0;
      std::vector<uint64_t> ends;
      for (const uint64_t size : shard.index.section_sizes) ends.push_back(end += size);
      ends.pop_back();  // of the blobs
      facts.push_back({shard.name, shard.bytes.size(), ends});
    }
    auto opener = [this](size_t position) -> Result<std::unique_ptr<ByteSource>> {
      auto source = std::make_unique<FaultySource>(shards_[position].name, shards_[position].bytes);
      for (const uint64_t offset : flips_) source->Flip(offset);
      for (const uint64_t offset : failures_) source->FailAt(offset, {ErrorCode::kIo, "bad sector"});
      source_ = source.get();
      return std::unique_ptr<ByteSource>(std::move(source));
    };
    auto set = std::make_unique<ShardSet>(facts, opener, ShardSetOptions{10, [] { return uint64_t{1} << 40; }});
    set_ = set.get();
    return std::make_unique<FileSystem>(*Catalog::Open(folder_.path()), std::move(set), MountView{},
                                        [this](const Error& error, auto) { faults_.push_back(error.message); });
  }

  const EntryLayout& image() const { return shards_[0].index.entries[0].layout; }

  TempDir folder_;
  std::vector<Bytes> fragments_;
  std::vector<TestShard> shards_;
  std::vector<uint64_t> flips_, failures_;
  std::atomic<FaultySource*> source_ = nullptr;  // opened last
  ShardSet* set_ = nullptr;
  std::vector<std::string> faults_;
};

TEST_F(FaultyFileSystemTest, AFolderOfTheDataSetMayBeCalledLikeALevel) {
  const auto files = Open();
  const Ino ino = Walk(*files, kMountRoot, "scan2/scan1/a.jpg");
  EXPECT_EQ(ino.level(), 2);
  EXPECT_EQ(ReadAll(*files, ino, 2002), ImageAtLevel(fragments_, {}, 2, 10));
}

TEST_F(FaultyFileSystemTest, ABadByteFailsTheReadsThatNeedItsBlockAndIsToldOnce) {
  const uint64_t bad = image().extents[2].offset + kChecksumBlock + 5;
  flips_ = {bad};
  const auto files = Open();
  Bytes page(4096);
  for (int level = 1; level <= 10; ++level) {
    const Ino ino = Walk(*files, Ino(1, level), "scan1/a.jpg");
    const Bytes expected = ImageAtLevel(fragments_, {}, level, 10);
    for (uint64_t offset = 0; offset < expected.size(); offset += page.size()) {
      const auto read = files->Read(ino, offset, page);
      const uint64_t begin = 2000 + kChecksumBlock, end = 2000 + 200'000;  // of the bad block in the file
      const bool needs = level >= 3 && offset < end && offset + page.size() > begin;
      ASSERT_EQ(read.has_value(), !needs) << "level " << level << " at " << offset;
      if (!read) {
        EXPECT_EQ(read.error().code, ErrorCode::kDamaged);
        continue;
      }
      EXPECT_TRUE(std::equal(page.begin(), page.begin() + static_cast<std::ptrdiff_t>(*read),
                             expected.begin() + static_cast<std::ptrdiff_t>(offset)));
    }
  }
  ASSERT_EQ(faults_.size(), 1u);
  EXPECT_THAT(faults_[0], AllOf(HasSubstr("'PCR_0.pcr'"), HasSubstr("'scan1/a.jpg'"), HasSubstr("fragment 3"),
                                HasSubstr(std::to_string(image().extents[2].offset + kChecksumBlock)),
                                HasSubstr("expected"), HasSubstr("found")));
}

TEST_F(FaultyFileSystemTest, EveryPlaceWithWrongBytesIsToldOnceAndADiskThatFailsOnceAShard) {
  const std::vector<uint64_t> places = {image().extents[0].offset, image().extents[2].offset,
                                        image().extents[2].offset + kChecksumBlock};
  for (const bool wrong : {true, false}) {
    faults_.clear();
    (wrong ? flips_ : failures_) = places;
    (wrong ? failures_ : flips_).clear();
    const auto files = Open();
    Bytes page(1000);
    const Ino ino = Walk(*files, Ino(1, 3), "scan1/a.jpg");
    for (int round = 0; round < 3; ++round)
      for (uint64_t offset = 0; offset < 202'000; offset += page.size())
        EXPECT_NE(kCode(files->Read(ino, offset, page)), wrong ? ErrorCode::kIo : ErrorCode::kDamaged);
    EXPECT_EQ(faults_.size(), wrong ? 3u : 1u);
  }
}

TEST_F(FaultyFileSystemTest, DamageInTheCatalogIsAnIoErrorToldOnce) {
  const auto files = Open();
  const Ino ino = Walk(*files, Ino(1, 3), "scan1/a.jpg");
  Bytes catalog = testing::ReadFile(folder_ / "catalog.mdb");
  const Sha256Digest& digest = shards_[0].index.entries[0].source_sha256;
  const auto at = std::search(catalog.begin(), catalog.end(), digest.begin(), digest.end()) - catalog.begin();
  const UniqueFd fd(open((folder_ / "catalog.mdb").c_str(), O_WRONLY));
  const uint8_t flipped = catalog[static_cast<size_t>(at)] ^ 1;
  ASSERT_EQ(pwrite(fd.get(), &flipped, 1, at), 1);
  Bytes page(10);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(kCode(files->GetAttr(ino)), ErrorCode::kDamaged);
    EXPECT_EQ(kCode(files->Read(ino, 0, page)), ErrorCode::kDamaged);
    EXPECT_EQ(kCode(files->Lookup(Ino(ino.node() - 1, 3), "a.jpg")), ErrorCode::kDamaged);
  }
  EXPECT_EQ(faults_.size(), 1u);
  EXPECT_TRUE(files->Read(Walk(*files, Ino(1, 3), "b.jpg"), 0, page)) << "the others are well";
}

TEST_F(FaultyFileSystemTest, ANodeMissingFromTheCatalogIsDamageToldOnceAndSetsItAside) {
  const auto files = Open();
  const Ino ino = Walk(*files, Ino(1, 3), "scan1/a.jpg"), other = Walk(*files, Ino(1, 3), "b.jpg");
  const Bytes catalog = testing::ReadFile(folder_ / "catalog.mdb");
  const UniqueFd fd(open((folder_ / "catalog.mdb").c_str(), O_WRONLY));
  // Every record of both nodes, in whatever table.
  for (const Ino lost : {ino, other}) {
    const Bytes number = {0, 0, 0, 0, 0, 0, 0, static_cast<uint8_t>(lost.node())};
    for (auto at = catalog.begin();; ++at) {
      at = std::search(at, catalog.end(), number.begin(), number.end());
      if (at == catalog.end()) break;
      const uint8_t bad = number.back() ^ 0x40;
      ASSERT_EQ(pwrite(fd.get(), &bad, 1, at - catalog.begin() + 7), 1);
    }
  }
  Bytes page(10);
  ASSERT_TRUE(std::filesystem::exists(folder_ / "catalog.head"));
  for (const Ino lost : {ino, other, ino}) {
    EXPECT_EQ(kCode(files->GetAttr(lost)), ErrorCode::kDamaged);
    EXPECT_EQ(kCode(files->Read(lost, 0, page)), ErrorCode::kDamaged);
  }
  EXPECT_EQ(faults_.size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "catalog.head"));
  EXPECT_EQ(kCode(files->GetAttr(Ino(1000, 3))), ErrorCode::kStale) << "a number that never was";
}

TEST_F(FaultyFileSystemTest, ReadAheadFollowsImagesButNotOpaqueFiles) {
  const auto files = Open();
  Bytes page(10);
  ASSERT_TRUE(files->Read(Walk(*files, Ino(1, 2), "scan1/blob"), 0, page));
  set_->WaitForReadAhead();
  EXPECT_TRUE(source_.load()->advices().empty());
  ASSERT_TRUE(files->Read(Walk(*files, Ino(1, 2), "b.jpg"), 0, page));
  set_->WaitForReadAhead();
  const std::vector<uint64_t>& ends = set_->facts(0).section_ends;
  EXPECT_THAT(source_.load()->advices(), ElementsAre(testing::ReadRequest{ends[0], ends[2] - ends[0]}));
}

TEST_F(FaultyFileSystemTest, ReadsAFileOfVeryManyBlocks) {
  // As large as 500 blocks by being all zeros in a shard that is not there: only the last block is stored.
  TestShardBuilder builder("PCR_1.pcr");
  const Bytes content(500 * kChecksumBlock + 9, 0);
  shards_[1] = builder.AddOpaque("large", content).Build();
  const auto files = Open();
  const Ino ino = Walk(*files, Ino(1, 1), "large");
  Bytes page(300'000);
  EXPECT_EQ(*files->Read(ino, 447 * kChecksumBlock + 7, page), page.size());
  EXPECT_EQ(*files->Read(ino, content.size() - 10, page), 10u);
  EXPECT_EQ(source_.load()->reads().size(), 2u);
}

TEST_F(FaultyFileSystemTest, ManyThreadsReadTheSameBytes) {
  const auto files = Open();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      Bytes out(50'000);
      for (int i = 0; i < 100; ++i) {
        const int level = 1 + static_cast<int>(random() % 10);
        const Ino ino = Walk(*files, Ino(1, level), "scan1/a.jpg");
        const Bytes whole = ImageAtLevel(fragments_, {}, level, 10);
        const uint64_t offset = random() % whole.size();
        const auto read = files->Read(ino, offset, out);
        ASSERT_TRUE(read);
        ASSERT_EQ(*read, std::min<uint64_t>(out.size(), whole.size() - offset));
        ASSERT_TRUE(std::equal(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(*read),
                               whole.begin() + static_cast<std::ptrdiff_t>(offset)));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace pcrfs
