#include "cache/catalog_builder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cache/cache_folder.h"
#include "cache/catalog_head.h"
#include "tests/support/fork.h"
#include "tests/support/sample_dataset.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_jpeg.h"

namespace pcrfs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ReadFile;
using testing::SampleDataset;
using testing::SampleFile;
using testing::TempDir;
using testing::WriteFile;

int TemporaryFiles(const std::string& folder) {
  int count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    count += entry.path().extension() == ".tmp" ? 1 : 0;
  return count;
}

class CatalogBuilderTest : public ::testing::Test {
 protected:
  CatalogBuilderTest() : sample_(testing::WriteSampleDataset(data_.path())) {}

  Result<std::unique_ptr<Catalog>> Open(CatalogReuse reuse = CatalogReuse::kAllowed) {
    reads_ = 0;
    const auto dataset = Dataset::Open(data_.path());
    if (!dataset) return tl::unexpected<Error>(dataset.error());
    const auto count = [this](const CatalogProgress& progress) {
      ++reads_;
      EXPECT_EQ(progress.shards_done % progress.shards_total, reads_ % progress.shards_total);
      if (during_build_) std::exchange(during_build_, nullptr)();
    };
    return OpenOrBuildCatalog(*dataset, cache_.path(), count, reuse);
  }

  // The folder of the catalog below the cache folder; there must be one.
  std::string Folder() const { return std::filesystem::directory_iterator(cache_.path())->path(); }

  std::string ShardPath(size_t position) const { return data_ / sample_.index.rows[position].name; }

  // As a copy or a touch would.
  void ChangeTime(size_t position) {
    const timespec times[2] = {{1'700'000'000, 0}, {++clock_, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, ShardPath(position).c_str(), times, 0), 0);
  }

  // Makes the index of a shard unreadable, with size and time as before.
  void DamageIndex(size_t position) const {
    struct stat before {};
    ASSERT_EQ(stat(ShardPath(position).c_str(), &before), 0);
    Bytes bytes = ReadFile(ShardPath(position));
    bytes[sample_.index.rows[position].index_offset + 5] ^= 1;
    WriteFile(ShardPath(position), bytes);
    const timespec times[2] = {before.st_atim, before.st_mtim};
    ASSERT_EQ(utimensat(AT_FDCWD, ShardPath(position).c_str(), times, 0), 0);
  }

  // Adds a shard with one image in a new folder and one in an old one.
  void Append() {
    const Bytes jpeg = testing::MakeJpeg({.width = 40, .height = 30, .progressive = true});
    sample_.index.rows.push_back(testing::WriteShard(
        {data_.path(), 7, sample_.root, {sample_.directories[0], {"new", {0700, 9}}}},
        {testing::KeptImage("cats", "late.jpg", 0, jpeg), testing::KeptImage("new", "new.jpg", 3, jpeg)}, {}));
    sample_.index.labels.push_back("new");
    WriteFile(data_ / kDatasetIndexName, *EncodeDatasetIndex(sample_.index));
  }

  static void ExpectHolds(const Catalog& catalog, const SampleDataset& sample) {
    NodeInfo info;
    for (const SampleFile& file : sample.files) {
      uint64_t node = kRootNode;
      for (size_t begin = 0; begin <= file.path.size();) {
        const size_t end = std::min(file.path.find('/', begin), file.path.size());
        node = catalog.Find(node, file.path.substr(begin, end - begin)).value_or(0);
        begin = end + 1;
      }
      ASSERT_TRUE(catalog.Get(node, info)) << file.path;
      EXPECT_EQ(info.attributes, file.attributes);
      EXPECT_EQ(SizeAtLevel(info.layout, Level::Of<3>(), 10), file.levels[2].size());
      EXPECT_EQ(*catalog.Path(node), file.path);
    }
    EXPECT_EQ(catalog.totals().images + catalog.totals().opaque_files, sample.files.size());
    EXPECT_EQ(catalog.totals().directories, sample.directories.size());
  }

  TempDir data_, cache_;
  SampleDataset sample_;
  uint64_t reads_ = 0;  // shards that the last Open went through
  std::function<void()> during_build_;
  time_t clock_ = 1'600'000'000;
};

TEST_F(CatalogBuilderTest, BuildsOnceAndOpensFromThenOn) {
  const auto built = Open();
  ASSERT_TRUE(built) << built.error().message;
  EXPECT_EQ(reads_, 3u);
  ExpectHolds(**built, sample_);
  const auto opened = Open();
  ASSERT_TRUE(opened);
  EXPECT_EQ(reads_, 0u);
  ExpectHolds(**opened, sample_);
  EXPECT_EQ((*opened)->totals(), (*built)->totals());
}

TEST_F(CatalogBuilderTest, LeavesNothingElseAndNothingOfOthersToRead) {
  ASSERT_TRUE(Open());
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(Folder())) {
    names.push_back(file.path().filename());
    struct stat status {};
    ASSERT_EQ(stat(file.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 077, 0u) << file.path();
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("catalog.mdb", "catalog.head", "lock"));
}

TEST_F(CatalogBuilderTest, ReadsOnlyShardsThatChanged) {
  ASSERT_TRUE(Open());
  DamageIndex(0);
  DamageIndex(2);
  ChangeTime(1);
  const auto rebuilt = Open();
  ASSERT_TRUE(rebuilt) << rebuilt.error().message;
  EXPECT_EQ(reads_, 3u) << "it was built anew";
  ExpectHolds(**rebuilt, sample_);

  ChangeTime(0);
  const auto refused = Open();
  ASSERT_FALSE(refused) << "the damage is there for whoever reads";
  EXPECT_THAT(refused.error().message, HasSubstr("PCR_0.pcr"));
}

TEST_F(CatalogBuilderTest, AnAppendedShardCostsOnlyItsOwnReadAndChangesNoNumber) {
  const auto before = Open();
  ASSERT_TRUE(before);
  for (size_t position = 0; position < 3; ++position) DamageIndex(position);
  Append();
  const auto after = Open();
  ASSERT_TRUE(after) << after.error().message;
  for (uint64_t node = 1; node <= (*before)->totals().nodes; ++node)
    EXPECT_EQ(*(*after)->Path(node), *(*before)->Path(node));
  EXPECT_EQ((*after)->totals().nodes, (*before)->totals().nodes + 3);
  EXPECT_EQ(*(*after)->Path((*before)->totals().nodes + 1), "cats/late.jpg");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache_.path()), {}), 1) << "still one folder";
}

TEST_F(CatalogBuilderTest, WithoutReuseItIsBuiltFromTheShardsAloneWhileOthersKeepTheirs) {
  const auto first = Open();
  ASSERT_TRUE(first);
  const auto anew = Open(CatalogReuse::kNone);
  ASSERT_TRUE(anew) << anew.error().message;
  EXPECT_EQ(reads_, 3u);
  ExpectHolds(**anew, sample_);
  ExpectHolds(**first, sample_);
  ASSERT_TRUE(Open());
  EXPECT_EQ(reads_, 0u) << "what it left is current";

  DamageIndex(1);
  EXPECT_TRUE(Open()) << "an older catalog spares reading it";
  const auto refused = Open(CatalogReuse::kNone);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("PCR_1.pcr"));
}

TEST_F(CatalogBuilderTest, AFolderInTheCatalogsPlaceGoesOrIsNamed) {
  ASSERT_TRUE(Open());
  for (const std::string name : {"catalog.mdb", "catalog.head", "catalog.head.tmp"}) {
    const std::string path = Folder() + "/" + name;
    unlink(path.c_str());
    unlink((Folder() + "/catalog.head").c_str());
    ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
    const auto opened = Open();
    EXPECT_TRUE(opened) << opened.error().message;
    unlink((Folder() + "/catalog.head").c_str());
    unlink(path.c_str());
    WriteFile(path + "/somebody's", "");
    const auto refused = Open();
    ASSERT_FALSE(refused) << name;
    EXPECT_THAT(refused.error().message, AllOf(HasSubstr(Quoted(path)), HasSubstr("delete it")));
    std::filesystem::remove_all(path);
  }
  EXPECT_TRUE(Open());
}

TEST_F(CatalogBuilderTest, AnotherDataSetAtTheSamePathIsAnother) {
  ASSERT_TRUE(Open());
  std::filesystem::remove(ShardPath(2));
  sample_.index.rows.pop_back();
  sample_.files.pop_back();
  sample_.directories.pop_back();  // "empty", in that shard only
  for (const uint64_t hash : {sample_.index.paths_hash, uint64_t{42}}) {
    sample_.index.paths_hash = hash;
    WriteFile(data_ / kDatasetIndexName, *EncodeDatasetIndex(sample_.index));
    const auto catalog = Open();
    ASSERT_TRUE(catalog);
    EXPECT_EQ(reads_, 2u);
    ExpectHolds(**catalog, sample_);
  }
}

TEST_F(CatalogBuilderTest, DataSetsDoNotShareACatalog) {
  ASSERT_TRUE(Open());
  const TempDir copy;
  std::filesystem::copy(data_.path(), copy.path());
  const auto dataset = Dataset::Open(copy.path());
  ASSERT_TRUE(OpenOrBuildCatalog(*dataset, cache_.path(), nullptr));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache_.path()), {}), 2);
}

TEST_F(CatalogBuilderTest, NamesAMissingShard) {
  ASSERT_TRUE(Open());
  unlink(ShardPath(1).c_str());
  const auto refused = Open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(refused.error().message, HasSubstr("PCR_1.pcr"));
}

TEST_F(CatalogBuilderTest, OfManyShardsThatAreMissingTheFirstIsNamed) {
  const Bytes jpeg = testing::MakeJpeg({.width = 16, .height = 16, .progressive = true});
  for (uint32_t number = 10; number < 400; ++number)
    sample_.index.rows.push_back(
        testing::WriteShard({data_.path(), number, sample_.root, {sample_.directories[0]}},
                            {testing::KeptImage("cats", std::to_string(number) + ".jpg", 0, jpeg)}, {}));
  WriteFile(data_ / kDatasetIndexName, *EncodeDatasetIndex(sample_.index));
  auto opened = Open();
  ASSERT_TRUE(opened) << opened.error().message;
  for (size_t i = 0; i < sample_.index.rows.size(); ++i)
    EXPECT_EQ((*opened)->shards()[i].name, sample_.index.rows[i].name);
  ASSERT_TRUE(Open());
  EXPECT_EQ(reads_, 0u) << "every shard was found to be the same, each in its place";
  for (const size_t missing : {390U, 391U, 77U, 78U, 300U}) unlink(ShardPath(missing).c_str());
  for (int i = 0; i < 20; ++i) EXPECT_THAT(Open().error().message, HasSubstr(sample_.index.rows[77].name));
  unlink(ShardPath(0).c_str());
  EXPECT_THAT(Open().error().message, HasSubstr(sample_.index.rows[0].name));
}

TEST_F(CatalogBuilderTest, NamesBothShardsThatHoldAPath) {
  const Bytes jpeg = testing::MakeJpeg({.width = 40, .height = 30, .progressive = true});
  sample_.index.rows.push_back(testing::WriteShard({data_.path(), 9, sample_.root, {sample_.directories[0]}},
                                                   {testing::KeptImage("cats", "gray.jpg", 0, jpeg)}, {}));
  WriteFile(data_ / kDatasetIndexName, *EncodeDatasetIndex(sample_.index));
  const auto refused = Open();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("cats/gray.jpg"), HasSubstr("PCR_0.pcr"), HasSubstr("PCR_9.pcr")));
  EXPECT_EQ(TemporaryFiles(Folder()), 0) << "what was begun is gone";
}

TEST_F(CatalogBuilderTest, SurvivesTheDeletionOfItsFolderWhileItBuilds) {
  during_build_ = [this] { std::filesystem::remove_all(Folder()); };
  const auto built = Open();
  ASSERT_TRUE(built) << built.error().message;
  ExpectHolds(**built, sample_);
  ChangeTime(0);
  during_build_ = [this] { std::filesystem::remove_all(cache_.path()); };
  const auto again = Open();
  ASSERT_TRUE(again) << again.error().message;
  ExpectHolds(**again, sample_);
  EXPECT_TRUE(CheckOwnFolder(cache_.path()));
  struct stat status {};
  stat(cache_.path().c_str(), &status);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

// A builder whose folder is deleted goes on without a lock that keeps anybody out, and so beside the next one.
TEST_F(CatalogBuilderTest, ABuilderThatLostItsFolderLeavesTheNextOnesFilesAlone) {
  Result<std::unique_ptr<Catalog>> second;
  std::atomic<bool> begun{false};
  std::thread next;
  during_build_ = [&] {
    std::filesystem::remove_all(Folder());
    next = std::thread([&] {
      const auto dataset = Dataset::Open(data_.path());
      second = OpenOrBuildCatalog(*dataset, cache_.path(), [&](const CatalogProgress&) {
        if (begun.exchange(true)) return;
        begun.notify_all();
        std::this_thread::sleep_for(std::chrono::milliseconds(200));  // while the first one ends what it began
      });
    });
    begun.wait(false);
  };
  const auto first = Open();
  next.join();
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_TRUE(second) << second.error().message;
  ExpectHolds(**first, sample_);
  ExpectHolds(**second, sample_);
  EXPECT_EQ(TemporaryFiles(cache_.path()), 0);
}

TEST_F(CatalogBuilderTest, CleansUpAfterAKilledBuilder) {
  const pid_t child = testing::Fork();
  if (child == 0) {
    during_build_ = [] { raise(SIGKILL); };
    (void)Open();
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(TemporaryFiles(Folder()), 1) << "it was killed in the midst of it";
  const auto built = Open();
  ASSERT_TRUE(built) << built.error().message;
  ExpectHolds(**built, sample_);
  EXPECT_EQ(TemporaryFiles(Folder()), 0);
}

TEST_F(CatalogBuilderTest, ProcessesAtOnceBuildItOnce) {
  constexpr int kProcesses = 6;
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  for (int i = 0; i < kProcesses; ++i) {
    if (testing::Fork() != 0) continue;
    const auto catalog = Open();
    if (catalog) ExpectHolds(**catalog, sample_);
    const char built = !catalog || HasFailure() ? 'x' : reads_ > 0 ? 'b' : 'o';
    _exit(write(pipe_ends[1], &built, 1) == 1 ? 0 : 1);
  }
  std::string answers(kProcesses, '?');
  for (char& answer : answers) ASSERT_EQ(read(pipe_ends[0], &answer, 1), 1);
  while (wait(nullptr) > 0) continue;
  EXPECT_EQ(std::ranges::count(answers, 'b'), 1) << answers;
  EXPECT_EQ(std::ranges::count(answers, 'o'), kProcesses - 1) << answers;
}

TEST_F(CatalogBuilderTest, ThreadsAtOnceBuildItOnce) {
  std::atomic<int> builders{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      std::atomic<int> reads{0};
      const auto dataset = Dataset::Open(data_.path());
      const auto catalog = OpenOrBuildCatalog(*dataset, cache_.path(), [&](const CatalogProgress&) { ++reads; });
      ASSERT_TRUE(catalog) << catalog.error().message;
      ExpectHolds(**catalog, sample_);
      if (reads > 0) ++builders;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(builders, 1);
}

TEST_F(CatalogBuilderTest, OpensFromAReadOnlyCacheButCannotBuildThere) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  ASSERT_TRUE(Open());
  chmod(data_.path().c_str(), 0755);
  chmod(cache_.path().c_str(), 0755);
  chmod(Folder().c_str(), 0755);
  for (const char* name : {"/catalog.mdb", "/catalog.head"}) chmod((Folder() + name).c_str(), 0644);
  const auto as_nobody = [&](const std::function<bool(const Result<std::unique_ptr<Catalog>>&)>& holds) {
    const pid_t child = testing::Fork();
    if (child == 0) _exit(setgid(65534) == 0 && setuid(65534) == 0 && holds(Open()) ? 0 : 1);
    int status = 1;
    return waitpid(child, &status, 0) == child && status == 0;
  };
  EXPECT_TRUE(as_nobody([](const auto& catalog) { return catalog.has_value(); }));
  ChangeTime(0);
  EXPECT_TRUE(as_nobody([&](const auto& catalog) {
    return !catalog && catalog.error().code == ErrorCode::kPermission &&
           catalog.error().message.find(cache_.path()) != std::string::npos;
  }));
}

TEST_F(CatalogBuilderTest, DoesNotUseACacheThatOthersCanWriteTo) {
  chmod(cache_.path().c_str(), 0777);
  const auto refused = Open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kPermission);
  chmod(cache_.path().c_str(), 0700);
  ASSERT_TRUE(Open());
  const std::string folder = Folder();
  std::filesystem::rename(folder, cache_ / "elsewhere");
  std::filesystem::create_directory_symlink(cache_ / "elsewhere", folder);
  EXPECT_EQ(Open().error().code, ErrorCode::kPermission) << "no symbolic link is followed";
}

TEST_F(CatalogBuilderTest, AFullDiskIsAnErrorAndLeavesNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can mount a small disk";
  const TempDir small;
  if (mount("none", small.path().c_str(), "tmpfs", 0, "size=16k,mode=0700") != 0) GTEST_SKIP() << "no tmpfs here";
  const auto dataset = Dataset::Open(data_.path());
  const auto refused = OpenOrBuildCatalog(*dataset, small.path(), nullptr);
  const int left = TemporaryFiles(small.path());
  umount2(small.path().c_str(), MNT_DETACH);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kNoSpace) << refused.error().message;
  EXPECT_EQ(left, 0);
}

}  // namespace
}  // namespace pcrfs
