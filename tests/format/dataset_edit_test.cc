// Data sets that shrink: what is removed and merged, what stays, and edits that are killed or meet damage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "format/appender.h"
#include "format/compactor.h"
#include "format/pack_lock.h"
#include "format/remover.h"
#include "format/verifier.h"
#include "tests/support/fork.h"
#include "tests/support/hostile_shard.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_dataset.h"

namespace pcrfs {
namespace {

namespace fs = std::filesystem;
using testing::Differences;
using ::testing::ElementsAre;
using testing::FilesIn;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MakePhotoFolder;
using testing::PackForTest;
using testing::ReadFile;
using testing::TempDir;
using testing::WriteFile;

constexpr PackOptions kSmallShards = {.jobs = 2, .record_images = 4};

// All that a reader can see of an entry, and the bytes that it is made of.
struct Content {
  Attributes attributes;
  uint64_t source_size = 0;
  Sha256Digest sha256{};
  bool kept = false;
  std::vector<Bytes> parts;

  friend bool operator==(const Content&, const Content&) = default;
};

// By path; folders with '/' behind, empty.
std::map<std::string, Content> ContentsOf(const std::string& path) {
  std::map<std::string, Content> contents;
  const auto dataset = Dataset::Open(path);
  EXPECT_TRUE(dataset) << dataset.error().message;
  for (size_t i = 0; dataset && i < dataset->shard_count(); ++i) {
    const auto file = dataset->OpenShard(i);
    const auto index = file ? dataset->ReadShardIndex(i, **file) : tl::unexpected(file.error());
    EXPECT_TRUE(index) << index.error().message;
    if (!index) continue;
    for (const Entry& entry : index->entries) {
      Content content{entry.attributes, entry.source_size, entry.source_sha256, entry.layout.kept, {}};
      std::vector<Extent> extents = entry.layout.extents;
      extents.insert(extents.end(), {entry.layout.tail, entry.layout.restore});
      for (const Extent& extent : extents) {
        content.parts.emplace_back(extent.size);
        EXPECT_TRUE((*file)->ReadAt(extent.offset, content.parts.back()));
      }
      EXPECT_TRUE(contents.emplace(EntryPath(*index, entry), std::move(content)).second);
    }
    for (const std::string& directory : index->directories) contents.emplace(directory + '/', Content{});
  }
  return contents;
}

std::vector<std::string> Faults(const std::string& dataset) {
  std::vector<std::string> faults;
  const auto summary = Verify(
      dataset, {2, true}, [&](const Error& fault) { faults.push_back(fault.message); }, [](const VerifyProgress&) {});
  EXPECT_TRUE(summary) << summary.error().message;
  return faults;
}

class DatasetEditTest : public ::testing::Test {
 protected:
  void SetUp() override {
    MakePhotoFolder(source.path(), {.classes = 3, .images_per_class = 5});
    WriteFile(source / "n01/notes.bin", std::string(300'000, 'n'));
    PackForTest(source.path(), dataset, kSmallShards);
    before = FilesIn(dataset);
    contents = ContentsOf(dataset);
  }

  RemoveSummary Removed(const std::vector<std::string>& paths) {
    const auto summary = Remove(dataset, paths);
    EXPECT_TRUE(summary) << summary.error().message;
    return summary ? *summary : RemoveSummary{};
  }
  CompactSummary Compacted(CompactMode mode = CompactMode::kDo) {
    const auto summary = Compact(dataset, mode);
    EXPECT_TRUE(summary) << summary.error().message;
    return summary ? *summary : CompactSummary{};
  }
  void Append() {
    PackObserver observer;
    const auto summary = pcrfs::Append(source.path(), dataset, {}, observer);
    EXPECT_TRUE(summary) << summary.error().message;
  }
  void ExpectContents(const std::map<std::string, Content>& expected) {
    EXPECT_TRUE(ContentsOf(dataset) == expected);
    EXPECT_THAT(Faults(dataset), IsEmpty());
  }
  void ExpectRefused(const std::vector<std::string>& paths, ErrorCode code, const std::string& why) {
    const auto refused = Remove(dataset, paths);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, code);
    EXPECT_THAT(refused.error().message, HasSubstr(why));
    EXPECT_THAT(Differences(FilesIn(dataset), before), IsEmpty());
  }
  // Runs `body` in a child that is killed after so many microseconds.
  static bool Killed(useconds_t after, const std::function<void()>& body) {
    const pid_t child = testing::Fork();
    if (child == 0) {
      body();
      _exit(0);
    }
    usleep(after);
    kill(child, SIGKILL);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status);
  }

  TempDir source, out;
  const std::string dataset = out / "set";
  std::map<std::string, Bytes> before;
  std::map<std::string, Content> contents;
};

TEST_F(DatasetEditTest, RemovesFilesAndLeavesAllElseAndTheirFolder) {
  const RemoveSummary summary = Removed({"n00/1.jpg", "./n00//3.jpg", "notes.txt"});
  EXPECT_EQ(summary.files, 3u);
  EXPECT_LT(summary.shards_replaced, Dataset::Open(dataset)->shard_count());
  for (const char* path : {"n00/1.jpg", "n00/3.jpg", "notes.txt"}) contents.erase(path);
  ExpectContents(contents);
  auto after = FilesIn(dataset);
  for (const auto& [name, bytes] : before)
    EXPECT_TRUE(name == "PCR_index.pb" || after[name] == bytes) << name << " is still there";
}

TEST_F(DatasetEditTest, RemovingEachFileOfAFolderLeavesTheFolderEmpty) {
  Removed({"n02/0.jpg", "n02/1.jpg", "n02/2.jpg", "n02/3.jpg", "n02/4.jpg"});
  std::erase_if(contents, [](const auto& entry) { return entry.first.starts_with("n02/") && entry.first != "n02/"; });
  ExpectContents(contents);
}

TEST_F(DatasetEditTest, RemovingAFolderTakesItAndAllBelowAndLabelsStay) {
  const DatasetIndex old = Dataset::Open(dataset)->index();
  Removed({"n01/", "empty"});
  std::erase_if(contents,
                [](const auto& entry) { return entry.first.starts_with("n01/") || entry.first.starts_with("empty"); });
  ExpectContents(contents);
  const DatasetIndex index = Dataset::Open(dataset)->index();
  EXPECT_EQ(index.labels, old.labels);
  EXPECT_EQ(index.pack_options, old.pack_options);
  EXPECT_EQ(index.paths_hash, old.paths_hash);
  // A class that comes again has its old number.
  Append();
  EXPECT_EQ(Dataset::Open(dataset)->index().labels, old.labels);
  EXPECT_TRUE(ContentsOf(dataset).contains("n01/0.jpg"));
  EXPECT_THAT(Faults(dataset), IsEmpty());
}

TEST_F(DatasetEditTest, RemovingAllLeavesAnEmptyDataSet) {
  Removed({"n00", "n01", "n02", "empty", "notes.txt"});
  EXPECT_EQ(Dataset::Open(dataset)->shard_count(), 1u);
  ExpectContents({});
  Compacted();
  ExpectContents({});
  EXPECT_EQ(FilesIn(dataset).size(), 2u);
}

TEST_F(DatasetEditTest, OneUnknownPathRefusesAllBeforeAnythingIsWritten) {
  ExpectRefused({"n00/0.jpg", "n00/9.jpg"}, ErrorCode::kNotFound, "n00/9.jpg");
  ExpectRefused({"n00/0.jpg/"}, ErrorCode::kNotDirectory, "n00/0.jpg");
  ExpectRefused({"n0"}, ErrorCode::kNotFound, "n0");
  ExpectRefused({"n00/../n01"}, ErrorCode::kInvalidArgument, "..");
  ExpectRefused({"n00", "/"}, ErrorCode::kInvalidArgument, "whole data set");
  ExpectRefused({}, ErrorCode::kInvalidArgument, "no path");
}

TEST_F(DatasetEditTest, CompactMergesWhatIsSmallAndDeletesWhatNoRowLists) {
  Removed({"n00/0.jpg", "n00/1.jpg", "n00/2.jpg", "n01/0.jpg", "n01/3.jpg", "n02/2.jpg"});
  for (int i = 0; i < 3; ++i) {
    WriteFile(source / ("late/" + std::to_string(i) + ".txt"), "late");
    Append();
  }
  contents = ContentsOf(dataset);
  std::erase_if(contents, [](const auto& entry) { return entry.first.empty(); });
  WriteFile(dataset + "/PCR_900.files.tmp", "half");
  WriteFile(dataset + "/quality.json", "{}");
  const auto all = FilesIn(dataset);
  const CompactSummary told = Compacted(CompactMode::kOnlyTell);
  EXPECT_THAT(Differences(FilesIn(dataset), all), IsEmpty());
  const CompactSummary done = Compacted();
  EXPECT_LT(done.shards_after, done.shards_before);
  EXPECT_EQ(told.shards_after, done.shards_after);
  ExpectContents(contents);
  const auto opened = Dataset::Open(dataset);
  EXPECT_EQ(opened->shard_count(), done.shards_after);
  EXPECT_EQ(FilesIn(dataset).size(), done.shards_after + 2) << "shards, PCR_index.pb, quality.json";
  const auto after = FilesIn(dataset);
  const CompactSummary again = Compacted();
  EXPECT_EQ(again.shards_merged + again.files_deleted, 0u);
  EXPECT_THAT(Differences(FilesIn(dataset), after), IsEmpty());
}

TEST_F(DatasetEditTest, AFreshDataSetHasNothingToCompact) {
  const CompactSummary summary = Compacted();
  EXPECT_EQ(summary.shards_merged + summary.files_deleted, 0u);
  EXPECT_THAT(Differences(FilesIn(dataset), before), IsEmpty());
}

TEST_F(DatasetEditTest, KilledAtAnyMomentItIsTheOldOrTheNewDataSet) {
  const std::vector<std::string> paths = {"n00/1.jpg", "n01", "notes.txt"};
  auto removed = contents;
  std::erase_if(removed, [](const auto& entry) {
    return entry.first == "n00/1.jpg" || entry.first == "notes.txt" || entry.first.starts_with("n01/");
  });
  int kills = 0, old = 0;
  for (useconds_t after = 0; after < 30'000; after += 1'000) {
    fs::remove_all(dataset);
    for (const auto& [name, bytes] : before) WriteFile(dataset + "/" + name, bytes);
    kills += Killed(after, [&] { (void)Remove(dataset, paths); }) ? 1 : 0;
    const bool is_old = ReadFile(dataset + "/PCR_index.pb") == before.at("PCR_index.pb");
    old += is_old ? 1 : 0;
    ASSERT_TRUE(ContentsOf(dataset) == (is_old ? contents : removed)) << "killed after " << after << " us";
    if (is_old) Removed(paths);
    kills += Killed(after, [&] { (void)Compact(dataset); }) ? 1 : 0;
    ASSERT_TRUE(ContentsOf(dataset) == removed) << "compact killed after " << after << " us";
    Compacted();
    ExpectContents(removed);
    ASSERT_EQ(FilesIn(dataset).size(), Dataset::Open(dataset)->shard_count() + 1);
  }
  EXPECT_GT(kills, 3);
}

TEST_F(DatasetEditTest, DamageIsNotCopiedAndChangesNothing) {
  const auto opened = Dataset::Open(dataset);
  // In the blobs of the shard with the large opaque file.
  for (size_t i = 0; i < opened->shard_count(); ++i) {
    const ShardRow& row = opened->index().rows[i];
    if (row.file_size < 300'000) continue;
    Bytes bytes = before.at(row.name);
    bytes[row.index_offset - 10] ^= 1;
    WriteFile(dataset + "/" + row.name, bytes);
    before[row.name] = bytes;
  }
  const auto refused = Remove(dataset, {"n00", "n01/0.jpg", "n01/1.jpg", "n01/4.jpg"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kDamaged);
  EXPECT_THAT(refused.error().message, HasSubstr("checksum"));
  EXPECT_THAT(Differences(FilesIn(dataset), before), IsEmpty()) << "what was written is gone again";
}

TEST_F(DatasetEditTest, AShardThatIsMissingOrAnUnfinishedAppendIsRefused) {
  WriteFile(dataset + "/append.plan", "x");
  EXPECT_THAT(Remove(dataset, {"n00"}).error().message, HasSubstr("repeat it first"));
  EXPECT_THAT(Compact(dataset).error().message, HasSubstr("repeat it first"));
  fs::remove(dataset + "/append.plan");
  {
    const auto lock = PackLock::Acquire(dataset);
    EXPECT_EQ(Remove(dataset, {"n00"}).error().code, ErrorCode::kBusy);
    EXPECT_EQ(Compact(dataset).error().code, ErrorCode::kBusy);
  }
  fs::remove(Dataset::Open(dataset)->ShardPath(1));
  EXPECT_EQ(Remove(dataset, {"n00"}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Compact(dataset).error().code, ErrorCode::kNotFound);
}

TEST_F(DatasetEditTest, AHostileDataSetIsRefusedOrCopiedButNeverGrowsNewFaults) {
  const Bytes text = {'x', 'y'};
  const auto shard = [&](uint64_t number, std::vector<std::string> directories, uint64_t directory, std::string name) {
    testing::HostileShard made;
    made.number = number;
    made.directories = std::move(directories);
    made.opaque.push_back({.directory = directory, .name = std::move(name), .parts = {text}});
    return made;
  };
  // Two shards hold one path; a folder is a file elsewhere.
  for (const auto& other : {shard(1, {"a"}, 1, "x"), shard(1, {"a", "a/x"}, 2, "y")}) {
    const std::string hostile = out / "hostile";
    fs::remove_all(hostile);
    fs::create_directory(hostile);
    testing::WriteHostileDataset(hostile, {shard(0, {"a"}, 1, "x"), other, shard(2, {"b"}, 1, "z")});
    const auto files = FilesIn(hostile);
    EXPECT_FALSE(Compact(hostile));
    EXPECT_THAT(Differences(FilesIn(hostile), files), IsEmpty());
    EXPECT_TRUE(Remove(hostile, {"a"})) << "all of it can be removed";
    EXPECT_TRUE(Compact(hostile));
    EXPECT_THAT(Faults(hostile), IsEmpty());
  }
}

}  // namespace
}  // namespace pcrfs
