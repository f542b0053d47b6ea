// Data sets that grow: what is added, what stays, and appends that are killed.
#include "format/appender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "format/dataset.h"
#include "format/verifier.h"
#include "tests/support/fork.h"
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
using ::testing::Pair;
using testing::ReadFile;
using testing::TempDir;
using ::testing::UnorderedElementsAre;
using testing::WriteFile;

constexpr PackOptions kSmallShards = {.jobs = 2, .record_images = 3};

class Collector : public PackObserver {
 public:
  void OnProgress(const PackProgress&) override {
    if (calls_left-- == 0) kill(getpid(), SIGKILL);
  }
  void OnSkipped(const std::string& path, const Skipped& why) override { skipped[path] = why.reason; }
  void OnChanged(const std::string& path, const std::string&) override { changed.insert(path); }
  void OnGone(const std::string& path) override { gone.insert(path); }
  Result<void> OnShardsComplete() override {
    if (killed_when_complete) kill(getpid(), SIGKILL);
    return {};
  }

  int calls_left = -1;
  bool killed_when_complete = false;
  std::map<std::string, SkipReason> skipped;
  std::set<std::string> changed, gone;
};

class AppenderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    MakePhotoFolder(source.path(), {.classes = 2, .images_per_class = 5});
    PackForTest(source.path(), dataset, kSmallShards);
    before = FilesIn(dataset);
  }

  // Two photos in a class that is there, one in a new class before it, an empty folder, a file in the root.
  void Grow(const std::string& name = "new") {
    fs::copy_file(source / "n00/0.jpg", source / ("n01/" + name + "1.jpg"));
    fs::copy_file(source / "n01/4.jpg", source / ("n01/" + name + "2.jpg"));
    fs::create_directories(source / ("a" + name));
    fs::copy_file(source / "n00/1.jpg", source / ("a" + name + "/x.jpg"));
    fs::create_directories(source / (name + " empty/in it"));
    WriteFile(source / (name + ".txt"), "text\n");
  }

  PackSummary Append(Collector& observer, const AppendOptions& options = {}) {
    const auto summary = pcrfs::Append(source.path(), dataset, options, observer);
    EXPECT_TRUE(summary) << summary.error().message;
    return summary ? *summary : PackSummary{};
  }
  PackSummary Append() {
    Collector observer;
    return Append(observer);
  }
  Error Refusal(const AppendOptions& options = {}) {
    Collector observer;
    const auto summary = pcrfs::Append(source.path(), dataset, options, observer);
    EXPECT_FALSE(summary);
    return summary ? Error{} : summary.error();
  }

  // By path; folders with '/' behind.
  std::map<std::string, std::string> ShardOfEach() const {
    std::map<std::string, std::string> shards;
    const auto opened = Dataset::Open(dataset);
    EXPECT_TRUE(opened) << opened.error().message;
    for (size_t i = 0; opened && i < opened->shard_count(); ++i) {
      const auto file = opened->OpenShard(i);
      const auto index = opened->ReadShardIndex(i, **file);
      EXPECT_TRUE(index) << index.error().message;
      for (const Entry& entry : index->entries)
        EXPECT_TRUE(shards.emplace(EntryPath(*index, entry), opened->index().rows[i].name).second);
      for (const std::string& directory : index->directories)
        shards.emplace(directory + '/', opened->index().rows[i].name);
    }
    return shards;
  }
  void ExpectSound() const {
    std::vector<std::string> faults;
    const auto summary = Verify(
        dataset, {2, true}, [&](const Error& fault) { faults.push_back(fault.message); }, [](const VerifyProgress&) {});
    ASSERT_TRUE(summary) << summary.error().message;
    EXPECT_THAT(faults, IsEmpty());
    EXPECT_THAT(summary->unlisted, IsEmpty());
  }
  // Runs an append in a child that is killed at the observer's call `call`, or when its shards are complete.
  bool Killed(int call, bool when_complete = false) {
    const pid_t child = testing::Fork();
    if (child == 0) {
      Collector observer;
      observer.calls_left = call;
      observer.killed_when_complete = when_complete;
      AppendOptions options;
      options.jobs = 1 + static_cast<unsigned>(call + 1) % 3;
      _exit(pcrfs::Append(source.path(), dataset, options, observer) ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
  }
  void Restore(const std::map<std::string, Bytes>& files) const {
    fs::remove_all(dataset);
    for (const auto& [name, bytes] : files) WriteFile(dataset + "/" + name, bytes);
  }

  TempDir source, out;
  const std::string dataset = out / "set";
  std::map<std::string, Bytes> before;
};

TEST_F(AppenderTest, WhatCannotBeReadAnyMoreIsNotSaidToBeGone) {
  fs::remove(source / "n01/0.jpg");
  WriteFile(source / "n01-/later.txt", "between n01 and n01/ in the order of bytes");
  ASSERT_EQ(chmod((source / "n00").c_str(), 0), 0);
  ASSERT_EQ(chmod((source / "n01").c_str(), 0755), 0);
  ASSERT_EQ(chmod(source.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod(out.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod(dataset.c_str(), 0777), 0);
  // Root may read everything, so become someone else meanwhile.
  const bool root = geteuid() == 0;
  ASSERT_TRUE(!root || seteuid(65534) == 0);
  Collector observer;
  Append(observer);
  ASSERT_TRUE(!root || seteuid(0) == 0);
  ASSERT_EQ(chmod((source / "n00").c_str(), 0755), 0);
  EXPECT_THAT(observer.skipped, ElementsAre(Pair("n00", SkipReason::kUnreadable)));
  EXPECT_THAT(observer.gone, ElementsAre("n01/0.jpg"));
}

TEST_F(AppenderTest, AddsWhatIsNewAndTouchesNoShardThatIsThere) {
  Grow();
  const PackSummary summary = Append();
  EXPECT_EQ(summary.images + summary.images_kept + summary.opaque_files, 4u);
  EXPECT_EQ(summary.skipped, 0u);
  auto after = FilesIn(dataset);
  for (const auto& [name, bytes] : before) EXPECT_TRUE(name == "PCR_index.pb" || after[name] == bytes) << name;
  auto shards = ShardOfEach();
  for (const char* path : {"n01/new1.jpg", "n01/new2.jpg", "anew/x.jpg", "new.txt", "new empty/in it/"}) {
    ASSERT_TRUE(shards.contains(path)) << path;
    EXPECT_FALSE(before.contains(shards[path])) << path;
  }
  ExpectSound();
}

TEST_F(AppenderTest, LabelsKeepTheirNumbersAndNewOnesComeBehindSorted) {
  EXPECT_THAT(Dataset::Open(dataset)->index().labels, ElementsAre("empty", "n00", "n01"));
  Grow("z");
  Append();
  const DatasetIndex once = Dataset::Open(dataset)->index();
  EXPECT_THAT(once.labels, ElementsAre("empty", "n00", "n01", "az", "z empty"));
  EXPECT_EQ(once.appends, 1u);
  Grow("b");
  Append();
  const DatasetIndex twice = Dataset::Open(dataset)->index();
  EXPECT_THAT(twice.labels, ElementsAre("empty", "n00", "n01", "az", "z empty", "ab", "b empty"));
  EXPECT_EQ(twice.appends, 2u);
  EXPECT_EQ(twice.paths_hash, once.paths_hash);
  EXPECT_EQ(twice.pack_options, once.pack_options);
  ExpectSound();
}

TEST_F(AppenderTest, WithNothingNewNothingIsTouched) {
  const auto stamp = fs::last_write_time(dataset + "/PCR_index.pb");
  EXPECT_EQ(Append().shards, 0u);
  EXPECT_THAT(Differences(FilesIn(dataset), before), IsEmpty());
  EXPECT_EQ(fs::last_write_time(dataset + "/PCR_index.pb"), stamp);
}

TEST_F(AppenderTest, ChangedAndGoneFilesAreReportedAndStayAsTheyAre) {
  WriteFile(source / "n00/0.jpg", "another file");
  fs::last_write_time(source / "n00/4.jpg", fs::file_time_type::clock::now() + std::chrono::hours(1));
  fs::remove(source / "n00/1.jpg");
  fs::remove_all(source / "n01");
  Collector observer;
  const PackSummary summary = Append(observer);
  EXPECT_THAT(observer.changed, UnorderedElementsAre("n00/0.jpg", "n00/4.jpg"));
  EXPECT_THAT(observer.gone,
              UnorderedElementsAre("n00/1.jpg", "n01/0.jpg", "n01/1.jpg", "n01/2.jpg", "n01/3.jpg", "n01/4.jpg"));
  EXPECT_EQ(summary.changed, 2u);
  EXPECT_EQ(summary.gone, 6u);
  EXPECT_EQ(summary.shards, 0u);
  EXPECT_THAT(Differences(FilesIn(dataset), before), IsEmpty());
}

TEST_F(AppenderTest, AFileWhereAFolderIsAndAFolderWhereAFileIsAreSkipped) {
  fs::remove_all(source / "n00");
  WriteFile(source / "n00", "a file now");
  fs::remove(source / "notes.txt");
  WriteFile(source / "notes.txt/deep/er", "a folder now");
  WriteFile(source / "notes.txt!", "new");  // between a file of that name and a folder of it, by path
  WriteFile(source / "notes.txt0", "new");
  Collector observer;
  Append(observer);
  EXPECT_THAT(observer.skipped,
              UnorderedElementsAre(Pair("n00", SkipReason::kConflict), Pair("notes.txt", SkipReason::kConflict),
                                   Pair("notes.txt/deep/er", SkipReason::kConflict)));
  EXPECT_EQ(observer.gone.size(), 6u) << "what was in n00, and notes.txt";
  const auto shards = ShardOfEach();
  EXPECT_TRUE(shards.contains("notes.txt!") && shards.contains("notes.txt0"));
  EXPECT_TRUE(shards.contains("notes.txt") && !shards.contains("notes.txt/"));
  EXPECT_THAT(Dataset::Open(dataset)->index().labels, ElementsAre("empty", "n00", "n01"));
  ExpectSound();
}

TEST_F(AppenderTest, AnEmptyFolderThatIsThereIsNotNewAndOneThatGetsFilesTakesThem) {
  WriteFile(source / "empty/now not", "x");
  EXPECT_EQ(Append().opaque_files, 1u);
  EXPECT_TRUE(ShardOfEach().contains("empty/now not"));
  ExpectSound();
}

TEST_F(AppenderTest, FollowsTheDataSetsOptionsAndRefusesOthersWithTheReason) {
  fs::remove_all(dataset);
  const PackOrder shuffled{true, 7};
  PackForTest(source.path(), dataset,
              {.jobs = 1, .record_images = 2, .record_bytes = 1 << 20, .order = shuffled, .encode = {.exact = true}});
  const std::string text = Dataset::Open(dataset)->index().pack_options;
  Grow();
  AppendOptions other;
  other.record_images = 3;
  EXPECT_THAT(Refusal(other).message, HasSubstr("--record-images 2"));
  other = {};
  other.record_bytes = 1000;
  EXPECT_THAT(Refusal(other).message, HasSubstr("--record-bytes 1048576"));
  other = {};
  other.order = PackOrder{true, 8};
  EXPECT_THAT(Refusal(other).message, HasSubstr("--order shuffle:7"));
  other = {};
  other.rescan = true;
  EXPECT_THAT(Refusal(other).message, HasSubstr("without --rescan"));
  Collector observer;
  AppendOptions same;
  same.record_images = 2;
  same.record_bytes = 1 << 20;
  same.order = shuffled;
  same.exact = true;
  const PackSummary summary = Append(observer, same);
  EXPECT_EQ(summary.shards, 3u) << "five items, two a shard";
  EXPECT_EQ(Dataset::Open(dataset)->index().pack_options, text);
  ExpectSound();
}

TEST_F(AppenderTest, WhatIsAddedIsOrderedAndCutAsAPackOfItAloneWouldBe) {
  for (const PackOrder& order : {PackOrder{}, PackOrder{true, 5}}) {
    TempDir folder;
    PackOptions options = kSmallShards;
    options.order = order;
    fs::copy(source / "n00", folder / "n00");
    PackForTest(folder.path(), out / "grown", options);
    fs::remove_all(folder / "n00");
    fs::create_directories(folder / "p/q/n01");
    fs::create_directories(folder / "p/r/nothing");
    for (const auto& entry : fs::directory_iterator(source / "n01")) {
      fs::copy_file(entry.path(), folder / ("p/q/n01/" + entry.path().filename().string()));
      fs::copy_file(entry.path(), folder / ("p/r/" + entry.path().filename().string()));
    }
    PackForTest(folder.path(), out / "alone", options);
    Collector observer;
    ASSERT_TRUE(pcrfs::Append(folder.path(), out / "grown", {}, observer));
    const auto grown = Dataset::Open(out / "grown"), alone = Dataset::Open(out / "alone");
    ASSERT_EQ(grown->shard_count(), alone->shard_count() + 2);
    for (size_t i = 0; i < alone->shard_count(); ++i) {
      const auto one = alone->ReadShardIndex(i, **alone->OpenShard(i));
      const auto other = grown->ReadShardIndex(i + 2, **grown->OpenShard(i + 2));
      ASSERT_TRUE(one && other);
      EXPECT_EQ(one->entries, other->entries);
      EXPECT_EQ(one->directories, other->directories);
    }
    fs::remove_all(out / "grown");
    fs::remove_all(out / "alone");
  }
}

TEST_F(AppenderTest, KilledAtAnyMomentItIsTheOldDataSetAndContinuesToTheSameBytes) {
  Grow();
  Append();
  const auto whole = FilesIn(dataset);
  int kills = 0;
  for (int call = 0; call < 40; ++call) {
    Restore(before);
    if (!Killed(call)) break;
    ++kills;
    EXPECT_TRUE(FilesIn(dataset)["PCR_index.pb"] == before["PCR_index.pb"]);
    EXPECT_TRUE(Dataset::Open(dataset));
    Append();
    ASSERT_THAT(Differences(FilesIn(dataset), whole), IsEmpty()) << "killed at call " << call;
  }
  EXPECT_GT(kills, 3);
  Restore(before);
  ASSERT_TRUE(Killed(-1, true));
  Append();
  EXPECT_THAT(Differences(FilesIn(dataset), whole), IsEmpty());
}

TEST_F(AppenderTest, KilledAgainAndAgain) {
  Grow();
  Append();
  const auto whole = FilesIn(dataset);
  Restore(before);
  int kills = 0;
  for (int call = 0; Killed(call); call = (call + 1) % 9) ASSERT_LT(++kills, 50);
  EXPECT_GT(kills, 3);
  EXPECT_THAT(Differences(FilesIn(dataset), whole), IsEmpty());
}

TEST_F(AppenderTest, KilledBetweenIndexAndEndOfThePlan) {
  Grow();
  ASSERT_TRUE(Killed(-1, true));
  const Bytes plan = ReadFile(dataset + "/append.plan");
  Append();
  const auto whole = FilesIn(dataset);
  WriteFile(dataset + "/append.plan", plan);
  EXPECT_EQ(Append().shards, 0u);
  EXPECT_THAT(Differences(FilesIn(dataset), whole), IsEmpty());
}

TEST_F(AppenderTest, WhatComesAfterAKillIsReportedAndPackedByTheNextAppend) {
  Grow();
  ASSERT_TRUE(Killed(1));
  WriteFile(source / "n01/late.txt", "late");
  Collector observer;
  Append(observer);
  EXPECT_THAT(observer.skipped, ElementsAre(Pair("n01/late.txt", SkipReason::kLate)));
  Append();
  EXPECT_TRUE(ShardOfEach().contains("n01/late.txt"));
  ExpectSound();
}

TEST_F(AppenderTest, AnUnfinishedAppendOfAnotherSourceOrDataSetIsRefused) {
  Grow();
  ASSERT_TRUE(Killed(1));
  TempDir other;
  WriteFile(other / "x", "x");
  Collector observer;
  const auto refused = pcrfs::Append(other.path(), dataset, {}, observer);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr(source.path()));
  const Bytes plan = ReadFile(dataset + "/append.plan");
  PackForTest(other.path(), out / "other");
  WriteFile(out / "other/append.plan", plan);
  const auto another = pcrfs::Append(source.path(), out / "other", {}, observer);
  ASSERT_FALSE(another);
  EXPECT_THAT(another.error().message, HasSubstr("is not the one"));
  Bytes damaged = plan;
  damaged[damaged.size() / 2] ^= 1;
  WriteFile(dataset + "/append.plan", damaged);
  EXPECT_EQ(Refusal().code, ErrorCode::kDamaged);
  fs::remove(dataset + "/append.plan");
  Append();
  EXPECT_TRUE(ShardOfEach().contains("new.txt"));
}

TEST_F(AppenderTest, NumbersGoBehindShardsThatLieThereWithoutARow) {
  WriteFile(dataset + "/PCR_70.files", "superseded, and perhaps being read");
  Grow();
  Append();
  EXPECT_EQ(Dataset::Open(dataset)->index().rows.back().name.substr(0, 6), "PCR_72");
  EXPECT_EQ(ReadFile(dataset + "/PCR_70.files").size(), 34u);
}

TEST_F(AppenderTest, WhereThereIsNoDataSetNothingIsMade) {
  fs::remove_all(dataset);
  EXPECT_EQ(Refusal().code, ErrorCode::kNotFound);
  EXPECT_FALSE(fs::exists(dataset));
}

TEST_F(AppenderTest, AnUnfinishedPackIsNotAppendedTo) {
  WriteFile(dataset + "/pack.plan", "x");
  EXPECT_THAT(Refusal().message, HasSubstr("repeat it before"));
}

}  // namespace
}  // namespace pcrfs
