// Mounts whose cache folder is damaged, full, read-only, shared, deleted or meddled with: each shows the right bytes,
// or says in one sentence why it does not mount and leaves nothing behind.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "format/dataset_index.h"
#include "format/file.h"
#include "mount/mount_point.h"
#include "tests/support/mount_fixture.h"
#include "tests/support/sanitizers.h"
#include "tests/support/shown_files.h"

namespace pcrfs {
namespace {

using ::testing::AllOf;
using testing::FilesBelow;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::PackedPhotos;
using testing::ProgramResult;
using testing::ReadFile;
using testing::ShownFiles;
using testing::WriteFile;

// A file system of this test's own where the cache is to be.
class SmallDisk {
 public:
  SmallDisk(std::string path, const std::string& options) : path_(std::move(path)) {
    std::filesystem::create_directory(path_);
    if (mount("none", path_.c_str(), "tmpfs", 0, ("mode=0700," + options).c_str()) != 0)
      ADD_FAILURE() << "cannot mount a tmpfs";
  }
  ~SmallDisk() { umount2(path_.c_str(), MNT_DETACH); }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  void MakeReadOnly() const {
    EXPECT_EQ(mount(nullptr, path_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0) << path_;
  }

 private:
  std::string path_;
};

class CatalogMountTest : public ::testing::Test {
 protected:
  CatalogMountTest() : photos_({.classes = 2, .images_per_class = 4}, {}) {
    const std::string other_cache = photos_ / "reference cache";
    const testing::BackgroundMount mount(photos_, {"--cache-dir", other_cache});
    expected_ = Shown(mount.path());
    std::filesystem::remove_all(other_cache);
  }
  ~CatalogMountTest() override {
    for (const std::string& point : points_)
      if (FindMount(point)) umount2(point.c_str(), MNT_DETACH);
  }

  // At the lowest and the highest level.
  static std::vector<ShownFiles::File> Shown(const std::string& mount) { return ShownFiles(mount, {1, 10}).files(); }

  std::string Point(int number = 0) {
    std::string point = photos_ / ("mount" + std::to_string(number));
    if (mkdir(point.c_str(), 0755) == 0) points_.push_back(point);
    return point;
  }
  ProgramResult Mount(const std::string& point, std::vector<std::string> options = {}) {
    options.insert(options.begin(), {"mount", photos_.dataset(), point});
    return photos_.Pcrfs(options);
  }
  void Umount(const std::string& point) {
    EXPECT_EQ(photos_.Pcrfs({"umount", point}).status, 0);
    EXPECT_TRUE(testing::Eventually([&] { return testing::ProcessesOf(point).empty(); }));
  }

  // That the mount is up, shows all and nothing else, and goes.
  void ExpectRight(const ProgramResult& mounted, const std::string& point) {
    ASSERT_EQ(mounted.status, 0) << mounted.err;
    EXPECT_TRUE(Shown(point) == expected_);
    Umount(point);
  }
  // That nothing is mounted, and why in one sentence.
  static void ExpectOneSentence(const ProgramResult& refused, const std::string& point) {
    EXPECT_EQ(refused.status, 1);
    EXPECT_TRUE(refused.err.starts_with("pcrfs: ")) << refused.err;
    EXPECT_EQ(std::ranges::count(refused.err, '\n'), 1) << refused.err;
    EXPECT_TRUE(refused.err.ends_with("\n"));
    EXPECT_FALSE(FindMount(point));
    EXPECT_TRUE(testing::Eventually([&] { return testing::ProcessesOf(point).empty(); }));
  }
  void ExpectRightOrOneSentence(const ProgramResult& result, const std::string& point) {
    if (result.status == 0)
      ExpectRight(result, point);
    else
      ExpectOneSentence(result, point);
  }

  // A file of the catalog; there must be one.
  std::string CatalogPath(const std::string& name) const {
    return std::filesystem::directory_iterator(photos_.cache())->path() / name;
  }
  std::vector<std::string> CacheFiles() const {
    std::vector<std::string> names;
    for (const std::string& path : FilesBelow(photos_.cache())) names.push_back(path.substr(path.rfind('/') + 1));
    return names;
  }

  PackedPhotos photos_;
  std::vector<ShownFiles::File> expected_;
  std::vector<std::string> points_;
};

TEST_F(CatalogMountTest, DamagedBeforeTheMountItIsBuiltAnew) {
  std::mt19937_64 random(5);
  ExpectRight(Mount(Point()), Point());
  for (int i = 0; i < 12; ++i) {
    const std::string path = CatalogPath(i % 2 == 0 ? "catalog.mdb" : "catalog.head");
    const Bytes good = ReadFile(path);
    Bytes bad = good;
    if (i % 4 < 2)
      bad[random() % bad.size()] ^= static_cast<uint8_t>(1 << random() % 8);
    else
      bad.resize(random() % bad.size());
    WriteFile(path, bad);
    ExpectRight(Mount(Point()), Point());
    EXPECT_TRUE(ReadFile(path) != bad) << "built anew";
  }
}

TEST_F(CatalogMountTest, DamagedUnderTheMountItIsRightOrEio) {
  PCRFS_NOT_UNDER_ADDRESS_SANITIZER();
  std::mt19937_64 random(6);
  const auto check = [&](const std::string& path, const Bytes& expected) {
    const UniqueFd fd(open(path.c_str(), O_RDONLY));
    if (!fd.valid()) {
      EXPECT_EQ(errno, EIO) << path;
      return false;
    }
    Bytes bytes(expected.size() + 1);
    const ssize_t size = read(fd.get(), bytes.data(), bytes.size());
    if (size < 0) {
      EXPECT_EQ(errno, EIO) << path;
      return false;
    }
    bytes.resize(static_cast<size_t>(size));
    EXPECT_TRUE(bytes == expected) << path;
    return true;
  };
  for (int round = 0; round < 10; ++round) {
    const std::string point = Point();
    ASSERT_EQ(Mount(point).status, 0);
    const std::string path = CatalogPath("catalog.mdb");
    Bytes bytes = ReadFile(path);
    for (int i = 0; i < 20; ++i) bytes[random() % bytes.size()] ^= static_cast<uint8_t>(1 << random() % 8);
    if (round == 9) bytes.clear();
    const UniqueFd fd(open(path.c_str(), O_WRONLY));
    ASSERT_EQ(pwrite(fd.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    ASSERT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes.size())), 0);
    int right = 0;
    for (const auto& [name, expected] : expected_) right += check(point + "/" + name, expected) ? 1 : 0;
    EXPECT_TRUE(round < 9 || right == 0);
    EXPECT_EQ(access((point + "/no such name").c_str(), F_OK), -1) << "the daemon lives and answers";
    EXPECT_EQ(errno, ENOENT);
    Umount(point);
    ExpectRight(Mount(point), point);
  }
}

TEST_F(CatalogMountTest, AReadOnlyFolderServesWhatIsInIt) {
  const SmallDisk disk(photos_.cache(), "size=16m");
  ExpectRight(Mount(Point()), Point());
  disk.MakeReadOnly();
  ExpectRight(Mount(Point()), Point());
  // A catalog that is not current cannot be replaced there.
  const timespec times[2] = {{1'700'000'000, 0}, {1'700'000'000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, (photos_.dataset() + "/PCR_0.pcr").c_str(), times, 0), 0);
  const ProgramResult refused = Mount(Point());
  ExpectOneSentence(refused, Point());
  EXPECT_THAT(refused.err, AllOf(HasSubstr(photos_.cache()), HasSubstr("--cache-dir names another folder")));
}

TEST_F(CatalogMountTest, AReadOnlyFolderWithoutACatalogIsNamed) {
  const SmallDisk disk(photos_.cache(), "size=16m");
  disk.MakeReadOnly();
  const ProgramResult refused = Mount(Point());
  ExpectOneSentence(refused, Point());
  EXPECT_THAT(refused.err, AllOf(HasSubstr(photos_.cache()), HasSubstr("--cache-dir names another folder")));
}

// From a disk that cannot hold the lock's folder to one that holds all.
TEST_F(CatalogMountTest, AFullFolderIsNamedAndNothingIsLeftInIt) {
  int refused = 0, right = 0;
  for (const std::string limit : {"size=4k", "size=8k", "size=16k", "size=28k", "size=32k", "size=36k", "size=40k",
                                  "size=48k", "size=16m,nr_inodes=1", "size=16m,nr_inodes=2", "size=16m,nr_inodes=3",
                                  "size=16m,nr_inodes=4", "size=16m,nr_inodes=5", "size=16m"}) {
    const SmallDisk disk(photos_.cache(), limit);
    const ProgramResult result = Mount(Point());
    SCOPED_TRACE(limit);
    if (result.status == 0) {
      ExpectRight(result, Point());
      EXPECT_THAT(CacheFiles(), ::testing::UnorderedElementsAre("catalog.mdb", "catalog.head", "lock"));
      ++right;
      continue;
    }
    ExpectOneSentence(result, Point());
    EXPECT_THAT(result.err, AllOf(HasSubstr(photos_.cache()), HasSubstr("more room for catalogs")));
    for (const std::string& name : CacheFiles()) EXPECT_FALSE(name.ends_with(".tmp")) << name;
    ++refused;
  }
  EXPECT_GE(refused, 6);
  EXPECT_GE(right, 1);
}

TEST_F(CatalogMountTest, EightMountsAtOnceAllShowTheRightFiles) {
  constexpr int kMounts = 8;
  std::vector<std::string> points;
  for (int i = 0; i < kMounts; ++i) points.push_back(Point(i));
  std::vector<ProgramResult> results(kMounts);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kMounts; ++i) threads.emplace_back([&, i] { results[i] = Mount(points[i]); });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < kMounts; ++i) ExpectRight(results[i], points[i]);
  EXPECT_THAT(CacheFiles(), ::testing::UnorderedElementsAre("catalog.mdb", "catalog.head", "lock"));
}

TEST_F(CatalogMountTest, TheFolderMayBeDeletedAtAnyTime) {
  std::vector<std::string> points = {Point(0), Point(1)};
  std::atomic<bool> done{false};
  std::thread remover([&] {
    for (int i = 0; !done; ++i) {  // at every stage of a build, and now and then after one, however slow the machine
      std::error_code ignored;
      std::filesystem::remove_all(photos_.cache(), ignored);
      std::this_thread::sleep_for(std::chrono::milliseconds(1 << (i % 8)));
    }
  });
  for (int round = 0; round < 6; ++round) {
    std::vector<ProgramResult> results(2);
    std::thread other([&] { results[1] = Mount(points[1]); });
    results[0] = Mount(points[0]);
    other.join();
    for (size_t i = 0; i < 2; ++i) ExpectRightOrOneSentence(results[i], points[i]);
  }
  done = true;
  remover.join();
  ExpectRight(Mount(points[0]), points[0]);
}

TEST_F(CatalogMountTest, FilesThatOthersOwnOrCanWriteAreReplaced) {
  ExpectRight(Mount(Point()), Point());
  for (const std::string name : {"catalog.mdb", "catalog.head"}) {
    const std::string path = CatalogPath(name);
    struct stat status {};
    ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
    ExpectRight(Mount(Point()), Point());
    ASSERT_EQ(stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_uid, geteuid()) << name;
    ASSERT_EQ(chmod(path.c_str(), 0666), 0);
    ExpectRight(Mount(Point()), Point());
    ASSERT_EQ(stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u) << name;
  }
}

TEST_F(CatalogMountTest, FoldersThatOthersOwnOrCanWriteAreRefused) {
  ExpectRight(Mount(Point()), Point());
  for (const std::string& folder : {photos_.cache(), CatalogPath("")}) {
    ASSERT_EQ(chown(folder.c_str(), 12345, 12345), 0);
    ProgramResult refused = Mount(Point());
    ExpectOneSentence(refused, Point());
    EXPECT_THAT(refused.err, AllOf(HasSubstr("is not used: it belongs to user 12345, "), HasSubstr("--cache-dir")));
    EXPECT_THAT(refused.err, Not(HasSubstr("chmod"))) << "that would not help";
    ASSERT_EQ(chown(folder.c_str(), geteuid(), getegid()), 0);
    ASSERT_EQ(chmod(folder.c_str(), 0777), 0);
    refused = Mount(Point());
    ExpectOneSentence(refused, Point());
    EXPECT_THAT(refused.err, AllOf(HasSubstr("is not used"), HasSubstr("'chmod go-w'"), HasSubstr("--cache-dir")));
    ASSERT_EQ(chmod(folder.c_str(), 0700), 0);
  }
  ExpectRight(Mount(Point()), Point());
}

TEST_F(CatalogMountTest, AFileSystemThatTakesNoFoldersIsNotSaidToLoseThem) {
  const ProgramResult refused = photos_.Pcrfs({"mount", photos_.dataset(), Point(), "--cache-dir", "/proc"});
  ExpectOneSentence(refused, Point());
  EXPECT_THAT(refused.err, AllOf(HasSubstr("'/proc' is there: its file system takes no new folders"),
                                 Not(HasSubstr("deleted")), HasSubstr("--cache-dir")));
}

TEST_F(CatalogMountTest, AUmaskThatTakesTheOwnersRightsLocksNobodyOut) {
  const ProgramResult result = photos_.RunAlone(std::string(PackedPhotos::kAsUser) + R"sh(
    echo text >"$scratch/text" && mkdir "$scratch/from" && cp "$scratch/text" "$scratch/from/text"
    for mask in 777 277 700 022; do
      umask $mask
      $as_user "$pcrfs" mount "$dataset" "$mount" --log-file "$scratch/log"
      $as_user cat "$mount/scan3/n00/0.jpg" >/dev/null
      $as_user "$pcrfs" umount "$mount"
      $as_user "$pcrfs" pack "$scratch/from" "$scratch/packed" >/dev/null
      $as_user "$pcrfs" extract "$scratch/packed" "$scratch/extracted" >/dev/null
      $as_user cmp "$scratch/text" "$scratch/extracted/text"
      for made in users-cache users-cache/*; do
        test "$(cd "$scratch" && stat -c %a $made)" = 700
      done
      for made in "$scratch"/users-cache/*/*; do
        test "$(stat -c %a "$made")" = 600
      done
      test "$mask" != 022 || test "$(stat -c %a "$scratch/log")" = 644
      umask 022
      rm -r "$scratch/users-cache" "$scratch/packed" "$scratch/extracted" "$scratch/log"
    done
  )sh");
  EXPECT_EQ(result.status, 0) << result.err;
}

TEST_F(CatalogMountTest, LinksInTheCatalogsPlaceAreReplacedAndNotWrittenThrough) {
  ExpectRight(Mount(Point()), Point());
  const std::string victim = photos_ / "victim", text = "somebody's\n";
  for (const std::string name :
       {"catalog.mdb", "catalog.head", "catalog.mdb.tmp", "catalog.head.tmp", "catalog.mdb.tmp.names.sort"}) {
    WriteFile(victim, text);
    const std::string path = CatalogPath(name);
    unlink(path.c_str());
    unlink(CatalogPath("catalog.head").c_str());
    ASSERT_EQ(symlink(victim.c_str(), path.c_str()), 0);
    ExpectRight(Mount(Point()), Point());
    EXPECT_EQ(AsText(ReadFile(victim)), text) << name;
    EXPECT_TRUE(name.ends_with(".sort") || !std::filesystem::is_symlink(path)) << name;
  }
  unlink(CatalogPath("lock").c_str());
  unlink(CatalogPath("catalog.head").c_str());
  ASSERT_EQ(symlink(victim.c_str(), CatalogPath("lock").c_str()), 0);
  ExpectOneSentence(Mount(Point()), Point());
  EXPECT_EQ(AsText(ReadFile(victim)), text);
}

// Packed anew in another folder, and put in the old one's place with the old times.
TEST_F(CatalogMountTest, ADataSetReplacedWithItsSizesAndTimesIsReadAnew) {
  ExpectRight(Mount(Point()), Point());
  WriteFile(photos_.source() + "/notes.txt", "not an IMAGE\n");
  testing::PackForTest(photos_.source(), photos_ / "anew");
  for (const auto& entry : std::filesystem::directory_iterator(photos_ / "anew")) {
    const std::string there = photos_.dataset() + "/" + entry.path().filename().string();
    ASSERT_EQ(entry.file_size(), std::filesystem::file_size(there)) << there;
    const auto time = std::filesystem::last_write_time(there);
    std::filesystem::copy_file(entry.path(), there, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::last_write_time(there, time);
  }
  ASSERT_EQ(Mount(Point()).status, 0);
  EXPECT_EQ(AsText(ReadFile(Point() + "/scan3/notes.txt")), "not an IMAGE\n");
  Umount(Point());
}

}  // namespace
}  // namespace pcrfs
