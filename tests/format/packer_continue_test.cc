// Packs that are killed, run out of space or find their source changed, and go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <random>

#include "format/dataset.h"
#include "format/packer.h"
#include "tests/support/fork.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_dataset.h"

namespace pcrfs {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using testing::Differences;
using ::testing::ElementsAre;
using testing::FilesIn;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MakePhotoFolder;
using ::testing::Not;
using testing::PackForTest;
using ::testing::Pair;
using testing::ReadFile;
using testing::TempDir;
using testing::WriteFile;

constexpr PackOptions kSmallShards = {.jobs = 2, .record_images = 3};

// Ends its process, as by kill -9, at the given call.
class KilledAt : public PackObserver {
 public:
  explicit KilledAt(int call) : calls_left_(call) {}
  void OnProgress(const PackProgress&) override {
    if (calls_left_-- == 0) kill(getpid(), SIGKILL);
  }

 private:
  int calls_left_;
};

class Collector : public PackObserver {
 public:
  void OnProgress(const PackProgress& progress) override { last = progress; }
  void OnSkipped(const std::string& path, const Skipped& why) override {
    skipped[path] = why.detail;
    skipped_paths.push_back(path);
  }
  PackProgress last;
  std::vector<std::string> skipped_paths;
  std::map<std::string, std::string> skipped;
};

// Runs `body` in a child process; returns whether it was killed.
bool Killed(const std::function<void()>& body) {
  const pid_t child = testing::Fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
  return WIFSIGNALED(status);
}

bool PackKilledAt(int call, const std::string& source, const std::string& dataset, const PackOptions& options) {
  return Killed([&] {
    KilledAt observer(call);
    if (!Pack(source, dataset, options, observer)) _exit(1);
  });
}

// After which only the plan and, perhaps, the first shards lie there.
void BeginPack(const std::string& source, const std::string& dataset, int calls = 0) {
  ASSERT_TRUE(PackKilledAt(calls, source, dataset, kSmallShards));
  ASSERT_TRUE(fs::exists(dataset + "/pack.plan"));
  ASSERT_FALSE(fs::exists(dataset + "/PCR_index.pb"));
}

class PackerContinue : public ::testing::Test {
 protected:
  void SetUp() override {
    MakePhotoFolder(source.path(), {.classes = 2, .images_per_class = 6});
    PackForTest(source.path(), out / "whole", kSmallShards);
    whole = FilesIn(out / "whole");
    ASSERT_EQ(whole.size(), 6U);
  }

  Collector Continue(const std::string& dataset) {
    Collector observer;
    auto summary = Pack(source.path(), dataset, kSmallShards, observer);
    EXPECT_TRUE(summary) << summary.error().message;
    return observer;
  }

  TempDir source, out;
  std::map<std::string, Bytes> whole;
};

TEST_F(PackerContinue, KilledAfterEachFileInTurn) {
  const std::string dataset = out / "set";
  int kills = 0;
  for (int call = 0; PackKilledAt(call, source.path(), dataset, kSmallShards); call = (call + 1) % 15)
    ASSERT_LT(++kills, 100);
  EXPECT_GT(kills, 5);
  EXPECT_THAT(Differences(FilesIn(dataset), whole), IsEmpty());
}

TEST_F(PackerContinue, KilledAtEachFileOfAFreshPack) {
  for (int call = 0;; ++call) {
    const std::string dataset = out / ("set" + std::to_string(call));
    if (!PackKilledAt(call, source.path(), dataset, kSmallShards)) break;
    Continue(dataset);
    EXPECT_THAT(Differences(FilesIn(dataset), whole), IsEmpty()) << "killed at call " << call;
    ASSERT_LT(call, 100);
  }
}

TEST_F(PackerContinue, KilledAtRandomMoments) {
  std::mt19937 random(20261201);
  const std::string dataset = out / "set";
  int kills = 0;
  for (int round = 0; round < 20; ++round) {
    fs::remove_all(dataset);
    for (int attempt = 0; attempt < 3; ++attempt) {
      const auto delay = std::chrono::microseconds(random() % 60000);
      const pid_t child = testing::Fork();
      if (child == 0) {
        Collector observer;
        _exit(Pack(source.path(), dataset, kSmallShards, observer) ? 0 : 1);
      }
      usleep(static_cast<useconds_t>(delay.count()));
      kill(child, SIGKILL);
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      kills += WIFSIGNALED(status) ? 1 : 0;
      if (!WIFSIGNALED(status)) break;
    }
    if (!fs::exists(dataset + "/PCR_index.pb") || fs::exists(dataset + "/pack.plan")) Continue(dataset);
    fs::remove(dataset + "/pack.lock");  // of one killed right before it let go
    ASSERT_THAT(Differences(FilesIn(dataset), whole), IsEmpty()) << "round " << round;
  }
  EXPECT_GT(kills, 5) << "too few kills to have tried anything";
}

TEST_F(PackerContinue, KilledBetweenIndexAndEndOfThePlan) {
  const std::string dataset = out / "set";
  BeginPack(source.path(), dataset);
  const Bytes plan = ReadFile(dataset + "/pack.plan");
  Continue(dataset);
  WriteFile(dataset + "/pack.plan", plan);
  Continue(dataset);
  EXPECT_THAT(Differences(FilesIn(dataset), whole), IsEmpty());
}

TEST_F(PackerContinue, KeepsWholeShardsAndCountsThemAsDone) {
  const std::string dataset = out / "set";
  BeginPack(source.path(), dataset);
  for (const char* name : {"PCR_0.pcr", "PCR_2.pcr"}) WriteFile(dataset + "/" + name, whole.at(name));
  struct stat before, after;
  ASSERT_EQ(stat((dataset + "/PCR_2.pcr").c_str(), &before), 0);
  const Collector observer = Continue(dataset);
  EXPECT_THAT(Differences(FilesIn(dataset), whole), IsEmpty());
  ASSERT_EQ(stat((dataset + "/PCR_2.pcr").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino) << "written anew";
  EXPECT_EQ(observer.last.files_done, observer.last.files_total);
  EXPECT_EQ(observer.last.bytes_done, observer.last.bytes_total);
}

TEST_F(PackerContinue, SummaryIsThatOfAnUninterruptedPack) {
  const std::string dataset = out / "set";
  const PackSummary fresh = PackForTest(source.path(), out / "fresh", kSmallShards);
  BeginPack(source.path(), dataset);
  for (const char* name : {"PCR_0.pcr", "PCR_1.pcr", "PCR_2.pcr"}) WriteFile(dataset + "/" + name, whole.at(name));
  const PackSummary continued = PackForTest(source.path(), dataset, kSmallShards);
  EXPECT_EQ(continued.images, fresh.images);
  EXPECT_EQ(continued.images_kept, fresh.images_kept);
  EXPECT_EQ(continued.opaque_files, fresh.opaque_files);
  EXPECT_EQ(continued.directories, fresh.directories);
  EXPECT_EQ(continued.shards, fresh.shards);
  EXPECT_EQ(continued.source_bytes, fresh.source_bytes);
  EXPECT_EQ(continued.stored_bytes, fresh.stored_bytes);
}

TEST_F(PackerContinue, ADamagedShardIsWrittenAnew) {
  const std::string dataset = out / "set";
  Bytes damaged = whole.at("PCR_1.pcr");
  BeginPack(source.path(), dataset);
  const Bytes plan = ReadFile(dataset + "/pack.plan");
  std::mt19937 random(1);
  for (int i = 0; i < 40; ++i) {
    const size_t at = random() % damaged.size();
    damaged[at] ^= 0x10;
    WriteFile(dataset + "/pack.plan", plan);
    WriteFile(dataset + "/PCR_1.pcr", damaged);
    damaged[at] ^= 0x10;
    Continue(dataset);
    ASSERT_THAT(Differences(FilesIn(dataset), whole), IsEmpty()) << "byte " << at;
  }
  WriteFile(dataset + "/pack.plan", plan);
  fs::resize_file(dataset + "/PCR_1.pcr", damaged.size() / 2);
  WriteFile(dataset + "/PCR_2.pcr", "");
  Continue(dataset);
  EXPECT_THAT(Differences(FilesIn(dataset), whole), IsEmpty());
}

TEST_F(PackerContinue, AShardOfOtherFilesIsWrittenAnew) {
  const std::string dataset = out / "set";
  BeginPack(source.path(), dataset);
  WriteFile(dataset + "/PCR_0.pcr", whole.at("PCR_1.pcr"));
  Continue(dataset);
  EXPECT_THAT(Differences(FilesIn(dataset), whole), IsEmpty());
}

TEST_F(PackerContinue, RemovesTheOtherSuffixAndStaleTemporaries) {
  const std::string dataset = out / "set";
  BeginPack(source.path(), dataset);
  WriteFile(dataset + "/PCR_0.files", "stale");
  WriteFile(dataset + "/PCR_1.pcr", whole.at("PCR_1.pcr"));
  WriteFile(dataset + "/PCR_1.files", "stale");
  WriteFile(dataset + "/PCR_3.pcr.tmp", "half");
  WriteFile(dataset + "/PCR_index.pb.tmp", "half");
  WriteFile(dataset + "/quality.json", "{}");
  Continue(dataset);
  whole["quality.json"] = ReadFile(dataset + "/quality.json");
  EXPECT_THAT(Differences(FilesIn(dataset), whole), IsEmpty());
}

TEST_F(PackerContinue, OtherSourceOrOptionsAreRefusedWithTheReason) {
  const std::string dataset = out / "set";
  BeginPack(source.path(), dataset);
  const auto before = FilesIn(dataset);
  TempDir other;
  WriteFile(other / "file", "1");
  Collector observer;
  auto another = Pack(other.path(), dataset, kSmallShards, observer);
  ASSERT_FALSE(another);
  EXPECT_EQ(another.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(another.error().message, HasSubstr(source.path()));
  PackOptions options = kSmallShards;
  options.record_images = 4;
  auto changed = Pack(source.path(), dataset, options, observer);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(changed.error().message, HasSubstr("record-images=3 instead of"));
  for (const EncodeOptions encode : {EncodeOptions{.exact = true}, EncodeOptions{.rescan = true}}) {
    options = kSmallShards;
    options.encode = encode;
    EXPECT_FALSE(Pack(source.path(), dataset, options, observer)) << encode.exact;
  }
  auto after = FilesIn(dataset);
  after["pack.lock"] = {};
  EXPECT_THAT(Differences(after, before), IsEmpty()) << "a refusal changes nothing";
  options = kSmallShards;
  options.jobs = 1;  // changes no byte
  EXPECT_TRUE(Pack(source.path(), dataset, options, observer));
  EXPECT_THAT(Differences(FilesIn(dataset), whole), IsEmpty());
}

TEST_F(PackerContinue, ADamagedPlanIsRefused) {
  const std::string dataset = out / "set";
  BeginPack(source.path(), dataset);
  Bytes plan = ReadFile(dataset + "/pack.plan");
  plan[plan.size() / 2] ^= 1;
  WriteFile(dataset + "/pack.plan", plan);
  Collector observer;
  auto packed = Pack(source.path(), dataset, kSmallShards, observer);
  ASSERT_FALSE(packed);
  EXPECT_EQ(packed.error().code, ErrorCode::kDamaged);
  EXPECT_THAT(packed.error().message, HasSubstr("empty the folder to pack anew"));
}

// Shard by path of file, of a data set.
std::map<std::string, size_t> ShardOfEach(const std::string& path) {
  std::map<std::string, size_t> shards;
  auto dataset = Dataset::Open(path);
  EXPECT_TRUE(dataset) << dataset.error().message;
  for (size_t i = 0; dataset && i < dataset->shard_count(); ++i) {
    auto file = dataset->OpenShard(i);
    auto index = dataset->ReadShardIndex(i, **file);
    EXPECT_TRUE(index) << index.error().message;
    for (const Entry& entry : index->entries) shards[EntryPath(*index, entry)] = i;
    for (const std::string& directory : index->directories) shards.emplace(directory + '/', i);
  }
  return shards;
}

TEST_F(PackerContinue, FilesThatVanishAfterThePlanAreReportedAndMoveNoBoundary) {
  const std::string dataset = out / "set";
  const auto planned = ShardOfEach(out / "whole");
  BeginPack(source.path(), dataset);
  fs::remove(source / "n00/1.jpg");
  fs::remove(source / "n00/4.jpg");
  ASSERT_EQ(mkfifo((source / "n00/4.jpg").c_str(), 0644), 0);
  const Collector observer = Continue(dataset);
  EXPECT_THAT(observer.skipped, Contains(Pair("n00/1.jpg", HasSubstr("No such file"))));
  EXPECT_THAT(observer.skipped, Contains(Pair("n00/4.jpg", HasSubstr("regular file"))));
  EXPECT_EQ(observer.skipped.size(), 2U);
  auto shards = ShardOfEach(dataset);
  for (const char* path : {"n00/1.jpg", "n00/4.jpg"}) {
    EXPECT_FALSE(shards.contains(path));
    shards[path] = planned.at(path);
  }
  EXPECT_EQ(shards, planned);
}

TEST_F(PackerContinue, AFolderWhoseFilesAllVanishStays) {
  const std::string dataset = out / "set";
  BeginPack(source.path(), dataset);
  fs::remove_all(source / "n01");
  const Collector observer = Continue(dataset);
  EXPECT_EQ(observer.skipped.size(), 6U);
  EXPECT_TRUE(ShardOfEach(dataset).contains("n01/"));
  EXPECT_EQ(Dataset::Open(dataset)->index().labels, Dataset::Open(out / "whole")->index().labels);
}

TEST_F(PackerContinue, AShardThatHoldsAVanishedFileIsKept) {
  const std::string dataset = out / "set";
  BeginPack(source.path(), dataset);
  WriteFile(dataset + "/PCR_1.pcr", whole.at("PCR_1.pcr"));
  std::string gone;
  for (const auto& [path, shard] : ShardOfEach(out / "whole"))
    if (shard == 1 && path.back() != '/') gone = path;
  fs::remove(source / gone);
  const Collector observer = Continue(dataset);
  EXPECT_THAT(observer.skipped, IsEmpty());
  EXPECT_THAT(Differences(FilesIn(dataset), whole), IsEmpty());
}

TEST_F(PackerContinue, APlannedFileThatBecameALinkToNothingIsReportedOnceAndOnlyIfItIsMissing) {
  const std::string dataset = out / "set";
  BeginPack(source.path(), dataset);
  WriteFile(dataset + "/PCR_1.pcr", whole.at("PCR_1.pcr"));
  const auto shards = ShardOfEach(out / "whole");
  std::string packed, missing;
  for (const auto& [path, shard] : shards)
    if (path.back() != '/') (shard == 1 ? packed : missing) = path;
  for (const std::string& path : {packed, missing}) {
    fs::remove(source / path);
    fs::create_symlink("nothing", source / path);
  }
  fs::create_symlink("nothing", source / "zz");
  const Collector observer = Continue(dataset);
  EXPECT_THAT(observer.skipped_paths, ::testing::UnorderedElementsAre(missing, "zz"));
  EXPECT_TRUE(ShardOfEach(dataset).contains(packed));
}

TEST_F(PackerContinue, AFileThatChangedIsStoredAsItIsNow) {
  const std::string dataset = out / "set";
  BeginPack(source.path(), dataset);
  for (const auto& [name, bytes] : whole)
    if (name != "PCR_index.pb") WriteFile(dataset + "/" + name, bytes);
  WriteFile(source / "n00/2.jpg", std::string(100000, 'x'));  // the plan still has its old size
  const Collector observer = Continue(dataset);
  EXPECT_THAT(observer.skipped, IsEmpty());
  EXPECT_EQ(ShardOfEach(dataset), ShardOfEach(out / "whole"));
  fs::remove_all(out / "anew");
  PackForTest(source.path(), out / "anew", kSmallShards);
  for (const auto& [name, bytes] : FilesIn(out / "anew"))
    EXPECT_TRUE(name == "PCR_index.pb" || ReadFile(dataset + "/" + name) == bytes) << name;
}

TEST_F(PackerContinue, WhatCameSinceIsReported) {
  for (const bool shuffle : {false, true}) {
    const std::string dataset = out / (shuffle ? "shuffled" : "by path");
    PackOptions options = kSmallShards;
    options.order.shuffle = shuffle;
    ASSERT_TRUE(PackKilledAt(3, source.path(), dataset, options));
    for (const char* name : {"n00/2b.jpg", "zz", "a/b"}) WriteFile(source / name, "new");
    Collector observer;
    auto packed = Pack(source.path(), dataset, options, observer);
    ASSERT_TRUE(packed) << packed.error().message;
    EXPECT_EQ(observer.skipped.size(), 3U);
    for (const char* name : {"n00/2b.jpg", "zz", "a/b"})
      EXPECT_THAT(observer.skipped, Contains(Pair(name, HasSubstr("after this pack was begun")))) << name;
    for (const char* name : {"n00/2b.jpg", "zz", "a"}) fs::remove_all(source / name);
    const std::string anew = out / ("anew" + std::to_string(shuffle));
    PackForTest(source.path(), anew, options);
    EXPECT_EQ(ShardOfEach(dataset), ShardOfEach(anew));
  }
}

TEST_F(PackerContinue, AFullDiskIsOneSentenceAndNoHalfShard) {
  const std::string dataset = out / "tiny";
  fs::create_directory(dataset);
  ASSERT_EQ(mount("tmpfs", dataset.c_str(), "tmpfs", 0, "size=16k"), 0)
      << std::strerror(errno) << ": this test needs the right to mount";
  const std::function<void(const std::string*)> unmount = [](const std::string* path) {
    umount2(path->c_str(), MNT_DETACH);
  };
  const std::unique_ptr<const std::string, decltype(unmount)> mounted(&dataset, unmount);
  int failures = 0;
  for (int kib = 16;; kib += 8) {
    ASSERT_EQ(mount("tmpfs", dataset.c_str(), "tmpfs", MS_REMOUNT, ("size=" + std::to_string(kib) + "k").c_str()), 0);
    Collector observer;
    auto packed = Pack(source.path(), dataset, kSmallShards, observer);
    if (packed) break;
    ++failures;
    EXPECT_EQ(packed.error().code, ErrorCode::kNoSpace) << packed.error().message;
    EXPECT_THAT(packed.error().message, Not(HasSubstr("\n")));
    for (const auto& [name, bytes] : FilesIn(dataset)) {
      if (name == "pack.plan") continue;
      ASSERT_TRUE(whole.contains(name)) << name;
      EXPECT_TRUE(bytes == whole.at(name)) << name << " is half a shard";
    }
    ASSERT_LT(kib, 10000);
  }
  EXPECT_GT(failures, 5);
  EXPECT_THAT(Differences(FilesIn(dataset), whole), IsEmpty());
}

}  // namespace
}  // namespace pcrfs
