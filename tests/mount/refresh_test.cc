// Mounts that are refreshed while they are up: what was cached must be right afterwards, whatever was cached.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "format/dataset.h"
#include "format/file.h"
#include "mount/mount_table.h"
#include "tests/support/mount_fixture.h"
#include "tests/support/shown_files.h"

namespace pcrfs {
namespace {

namespace fs = std::filesystem;
using testing::BackgroundMount;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::PackedPhotos;
using testing::ProgramResult;
using testing::ReadFile;
using testing::ShownFiles;
using testing::WriteFile;

constexpr PackOptions kSmallShards = {.jobs = 2, .record_images = 3};

class RefreshTest : public ::testing::Test {
 protected:
  ProgramResult Refresh() const { return photos_.Pcrfs({"refresh", photos_.mount_point()}); }
  void ExpectRefreshed(const std::string& said) const {
    const ProgramResult result = Refresh();
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(said));
  }
  void Append() const {
    const ProgramResult result = photos_.Pcrfs({"pack", "--append", photos_.source(), photos_.dataset()});
    ASSERT_EQ(result.status, 0) << result.err;
  }
  // A photo, under another name.
  void Add(const std::string& path) const {
    fs::create_directories(fs::path(photos_.source() + "/" + path).parent_path());
    fs::copy_file(photos_.source() + "/n00/0.jpg", photos_.source() + "/" + path);
  }
  // Puts another data set in the place of the one that is there.
  void PackAnew() const {
    fs::remove_all(photos_.dataset());
    testing::PackForTest(photos_.source(), photos_.dataset(), kSmallShards);
  }
  static std::set<std::string> Names(const std::string& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
    return names;
  }
  // All there is to see, as a fresh mount elsewhere has it.
  void ExpectLikeAFreshMount() const {
    const std::string elsewhere = photos_ / "fresh";
    fs::create_directory(elsewhere);
    ASSERT_EQ(photos_.Pcrfs({"mount", photos_.dataset(), elsewhere}).status, 0);
    for (const char* level : {"scan2", "scan10", "original"}) {
      const std::string a = photos_.mount_point() + "/" + level, b = elsewhere + "/" + level;
      std::map<std::string, uint64_t> seen[2];
      for (const auto& [at, numbers] : {std::pair{a, &seen[0]}, std::pair{b, &seen[1]}})
        for (const auto& entry : fs::recursive_directory_iterator(at)) {
          struct stat status {};
          EXPECT_EQ(stat(entry.path().c_str(), &status), 0) << entry.path();
          (*numbers)[entry.path().string().substr(at.size())] = status.st_ino;
          if (entry.is_regular_file()) {
            EXPECT_TRUE(ReadFile(entry.path()) == ReadFile(b + entry.path().string().substr(at.size())))
                << entry.path();
          }
        }
      EXPECT_EQ(seen[0], seen[1]) << level;
    }
    EXPECT_EQ(photos_.Pcrfs({"umount", elsewhere}).status, 0);
  }

  PackedPhotos photos_{{.classes = 2, .images_per_class = 5}, kSmallShards};
};

TEST_F(RefreshTest, ShowsWhatWasAppendedWhereItWasMissedListedAndStatted) {
  const BackgroundMount mount(photos_);
  const std::string folder = mount / "scan3/n01", missing = folder + "/new.jpg";
  struct stat before {
  }, after{};
  ASSERT_EQ(stat((folder + "/0.jpg").c_str(), &before), 0);
  EXPECT_FALSE(fs::exists(missing));
  EXPECT_FALSE(fs::exists(mount / "scan3/top.jpg"));
  EXPECT_FALSE(fs::exists(mount / "original/zz"));
  EXPECT_EQ(Names(folder).size(), 5u);
  EXPECT_EQ(Names(folder).size(), 5u) << "from the kernel's cache";
  EXPECT_EQ(Names(mount / "scan3").size(), 4u);
  Add("n01/new.jpg");
  Add("top.jpg");
  Add("zz/deep/x.jpg");
  Append();
  EXPECT_FALSE(fs::exists(missing)) << "the mount keeps its view";
  ExpectRefreshed("as it is now: 14 files");
  EXPECT_TRUE(fs::exists(missing));
  EXPECT_TRUE(fs::exists(mount / "scan3/top.jpg"));
  EXPECT_TRUE(fs::exists(mount / "original/zz/deep/x.jpg"));
  EXPECT_EQ(Names(folder).size(), 6u);
  EXPECT_EQ(Names(mount / "scan3").size(), 6u);
  ASSERT_EQ(stat((folder + "/0.jpg").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  ExpectLikeAFreshMount();
}

TEST_F(RefreshTest, WithNothingNewItSaysSoAndTwiceIsAsOnce) {
  const BackgroundMount mount(photos_);
  ExpectRefreshed("as it is already");
  Add("n00/new.jpg");
  Append();
  ExpectRefreshed("as it is now");
  ExpectRefreshed("as it is already");
  ExpectLikeAFreshMount();
}

TEST_F(RefreshTest, AHangUpRefreshesADaemonInTheBackground) {
  const BackgroundMount mount(photos_);
  Add("n00/new.jpg");
  Append();
  ASSERT_EQ(kill(mount.daemon(), SIGHUP), 0);
  EXPECT_TRUE(Eventually([&] { return fs::exists(mount / "scan1/n00/new.jpg"); }));
}

TEST_F(RefreshTest, ADataSetThatIsGoneOrDamagedLeavesTheViewAndSaysWhy) {
  const BackgroundMount mount(photos_);
  const ShownFiles shown(mount.path(), {1, 10});
  const auto expect_refused = [&](const std::string& why) {
    const ProgramResult result = Refresh();
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr(why));
    EXPECT_TRUE(ShownFiles(mount.path(), {1, 10}).files() == shown.files());
  };
  const std::string index = photos_.dataset() + "/PCR_index.pb";
  const Bytes good = ReadFile(index);
  Add("n00/new.jpg");
  Append();
  Bytes bad = ReadFile(index);
  const Bytes grown = bad;
  bad[bad.size() / 2] ^= 1;
  WriteFile(index, bad);
  expect_refused("checksum");
  WriteFile(index, grown);
  const std::string shard =
      Dataset::Open(photos_.dataset())->ShardPath(Dataset::Open(photos_.dataset())->shard_count() - 1);
  fs::rename(shard, photos_ / "aside");
  expect_refused("missing");
  fs::rename(photos_.dataset(), photos_ / "moved");
  expect_refused("No such file");
  fs::rename(photos_ / "moved", photos_.dataset());
  fs::rename(photos_ / "aside", shard);
  ExpectRefreshed("as it is now");
  EXPECT_TRUE(fs::exists(mount / "scan1/n00/new.jpg"));
}

// Node numbers shift: what the kernel has under the old ones must never be shown for another file.
TEST_F(RefreshTest, CachedPagesAndNamesOfShiftedNodesAreNeverAnotherFiles) {
  const BackgroundMount mount(photos_);
  const ShownFiles before(mount.path(), {3, 10});  // all cached: pages, names, listings
  struct Open {
    std::string path;
    UniqueFd fd;
    void* map = nullptr;
    Bytes bytes;
  };
  std::vector<Open> open_files;
  for (const auto& file : before.files()) {
    Open one{file.path, UniqueFd(open((mount / file.path).c_str(), O_RDONLY)), nullptr, file.bytes};
    one.map = mmap(nullptr, file.bytes.size(), PROT_READ, MAP_SHARED, one.fd.get(), 0);
    ASSERT_NE(one.map, MAP_FAILED);
    open_files.push_back(std::move(one));
  }
  // Everything moves: a new first shard, some files gone, others under a name that another had.
  Add("a/first.jpg");
  Add("a/second.jpg");
  fs::remove(photos_.source() + "/n00/1.jpg");
  fs::rename(photos_.source() + "/n01/4.jpg", photos_.source() + "/n00/0.jpg");
  const std::string moved = photos_ / "before";
  fs::rename(photos_.dataset(), moved);
  testing::PackForTest(photos_.source(), photos_.dataset(), kSmallShards);
  ExpectRefreshed("as it is now");
  ExpectLikeAFreshMount();
  for (const Open& one : open_files) {
    EXPECT_EQ(std::memcmp(one.map, one.bytes.data(), one.bytes.size()), 0) << one.path;
    // Not from the cache: the daemon is asked by the old number.
    posix_fadvise(one.fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    Bytes again(one.bytes.size());
    const ssize_t got = pread(one.fd.get(), again.data(), again.size(), 0);
    EXPECT_TRUE(got == static_cast<ssize_t>(again.size()) ? again == one.bytes : got < 0) << one.path;
    munmap(one.map, one.bytes.size());
  }
  EXPECT_FALSE(fs::exists(mount / "scan3/n00/1.jpg"));
  EXPECT_FALSE(fs::exists(mount / "scan3/n01/4.jpg"));
}

// Back and forth between data sets: numbers are used for other files again and again.
TEST_F(RefreshTest, NumbersThatComeAgainMeanTheNewFile) {
  const BackgroundMount mount(photos_);
  std::mt19937 random(3);
  for (int round = 0; round < 6; ++round) {
    (void)ShownFiles(mount.path(), {3, 10});
    if (round % 3 == 2) {
      fs::remove(photos_.source() + "/r0.jpg");
    } else {
      const std::string name = round % 3 == 0 ? "r0.jpg" : "n00/r" + std::to_string(round) + ".jpg";
      fs::copy_file(photos_.source() + "/n01/" + std::to_string(random() % 5) + ".jpg", photos_.source() + "/" + name);
    }
    PackAnew();
    ExpectRefreshed("as it is now");
    ExpectLikeAFreshMount();
  }
}

TEST_F(RefreshTest, AppendsThreeTimesUnderALiveMountWhileReadersRun) {
  const BackgroundMount mount(photos_);
  const ShownFiles shown(mount.path(), {1, 5, 10});
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::atomic<uint64_t> reads{0};
  std::vector<std::thread> readers;
  for (unsigned seed = 0; seed < 8; ++seed)
    readers.emplace_back([&, seed] {
      std::mt19937_64 random(seed);
      while (!stop) {
        // What was there at first is there all the time.
        if (shown.ReadSome(mount.path(), random) != 0) ++wrong;
        for (const auto& entry : fs::directory_iterator(mount / (random() % 2 == 0 ? "scan1/n00" : "scan5/n01"))) {
          struct stat status {};
          if (stat(entry.path().c_str(), &status) != 0) ++wrong;
        }
        ++reads;
      }
    });
  for (int round = 0; round < 3; ++round) {
    const std::string name = "n00/more" + std::to_string(round) + ".jpg";
    EXPECT_FALSE(fs::exists(mount / "scan5/" + name));
    Add(name);
    Add("new" + std::to_string(round) + "/x.jpg");
    Append();
    ExpectRefreshed("as it is now");
    EXPECT_TRUE(fs::exists(mount / "scan5/" + name));
    EXPECT_TRUE(Names(mount / "scan1/n00").contains(name.substr(4)));
    EXPECT_TRUE(Names(mount / "scan1").contains("new" + std::to_string(round)));
  }
  EXPECT_TRUE(Eventually([&] { return reads > 200; }));
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
  ExpectLikeAFreshMount();
}

// Each file says whose it is, so whatever is read of it is seen to be right or not; all numbers shift all the time.
TEST_F(RefreshTest, RefreshesThatShiftAllNumbersWhileReadersHammerShowNoWrongByte) {
  for (int i = 0; i < 12; ++i)
    WriteFile(photos_.source() + "/t/" + std::to_string(i) + ".txt", std::string(5000, static_cast<char>('a' + i)));
  PackAnew();
  const BackgroundMount mount(photos_);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::atomic<uint64_t> reads{0}, refused{0};
  std::vector<std::thread> readers;
  for (unsigned seed = 0; seed < 8; ++seed)
    readers.emplace_back([&, seed] {
      std::mt19937_64 random(seed);
      while (!stop) {
        const int i = static_cast<int>(random() % 12);
        const UniqueFd fd(open((mount / "scan4/t/" + std::to_string(i) + ".txt").c_str(), O_RDONLY));
        std::string text(5000, '?');
        for (int again = 0; again < 2; ++again) {
          if (random() % 2 == 0 && fd.valid()) posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
          const ssize_t got = fd.valid() ? pread(fd.get(), text.data(), text.size(), 0) : -1;
          if (got < 0) {
            ++refused;
          } else if (got != 5000 || text != std::string(5000, static_cast<char>('a' + i))) {
            ++wrong;
          }
        }
        ++reads;
      }
    });
  for (int round = 0; round < 6; ++round) {
    Add("a" + std::to_string(round) + ".jpg");
    const std::string next = photos_ / "next", last = photos_ / "last";
    testing::PackForTest(photos_.source(), next, kSmallShards);
    fs::remove_all(last);
    fs::rename(photos_.dataset(), last);
    fs::rename(next, photos_.dataset());
    ExpectRefreshed("as it is now");
  }
  EXPECT_TRUE(Eventually([&] { return reads > 200; }));
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LT(refused, reads) << "of which were refused";
}

TEST_F(RefreshTest, AMountOfOneTreeIsRefreshedAtItsRoot) {
  const BackgroundMount mount(photos_, {"-o", "level=3"});
  EXPECT_EQ(Names(mount.path()).size(), 4u);
  EXPECT_FALSE(fs::exists(mount / "top.jpg"));
  Add("top.jpg");
  Append();
  ExpectRefreshed("as it is now");
  EXPECT_TRUE(fs::exists(mount / "top.jpg"));
  EXPECT_EQ(Names(mount.path()).size(), 5u);
}

TEST_F(RefreshTest, AProcessInAFolderThatShiftedGoesOn) {
  const BackgroundMount mount(photos_);
  const UniqueFd folder(open((mount / "scan10/n01").c_str(), O_RDONLY | O_DIRECTORY));
  const Bytes bytes = ReadFile(mount / "scan10/n01/3.jpg");
  Add("a/first.jpg");
  fs::rename(photos_.dataset(), photos_ / "before");
  testing::PackForTest(photos_.source(), photos_.dataset(), kSmallShards);
  ExpectRefreshed("as it is now");
  struct stat status {};
  // As far as its old shards can still be opened, and never another file.
  if (fstatat(folder.get(), "3.jpg", &status, 0) == 0) {
    EXPECT_EQ(status.st_size, static_cast<off_t>(bytes.size()));
  }
  EXPECT_TRUE(ReadFile(mount / "scan10/n01/3.jpg") == bytes);
}

// Removing and compacting move files to other shards and numbers.
TEST_F(RefreshTest, RemovedFilesGoAndWhatIsOpenOfThemIsReadToItsEndUntilTheirShardsAreDeleted) {
  const BackgroundMount mount(photos_);
  const ShownFiles before(mount.path(), {3, 10});  // all cached
  std::vector<std::pair<UniqueFd, const ShownFiles::File*>> open_files;
  for (const auto& file : before.files())
    open_files.emplace_back(UniqueFd(open((mount / file.path).c_str(), O_RDONLY)), &file);
  const auto expect_open_files_right = [&](bool all) {
    for (const auto& [fd, file] : open_files) {
      posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
      Bytes bytes(file->bytes.size());
      const ssize_t got = pread(fd.get(), bytes.data(), bytes.size(), 0);
      EXPECT_TRUE(got == static_cast<ssize_t>(bytes.size()) ? bytes == file->bytes : got < 0 && !all) << file->path;
    }
  };
  const std::vector<std::string> gone = {"n00/0.jpg", "n00/1.jpg", "n00/2.jpg", "n00/3.jpg",
                                         "n01/0.jpg", "n01/1.jpg", "notes.txt"};
  std::vector<std::string> remove = {"remove", photos_.dataset()};
  remove.insert(remove.end(), gone.begin(), gone.end());
  ASSERT_EQ(photos_.Pcrfs(remove).status, 0);
  EXPECT_TRUE(fs::exists(mount / "scan3/n00/1.jpg")) << "the mount keeps its view";
  ExpectRefreshed("4 files");
  for (const std::string& path : gone)
    for (const char* tree : {"scan3/", "scan10/", "original/"}) EXPECT_FALSE(fs::exists(mount / (tree + path))) << path;
  ExpectLikeAFreshMount();
  expect_open_files_right(true);
  EXPECT_THAT(photos_.Pcrfs({"compact", photos_.dataset()}).out, HasSubstr("4 shards became 3"));
  ExpectRefreshed("4 files");
  ExpectLikeAFreshMount();
  expect_open_files_right(false);
  EXPECT_THAT(photos_.Pcrfs({"compact", photos_.dataset()}).out, HasSubstr("Nothing to compact"));
}

TEST_F(RefreshTest, RemovesAndCompactsUnderALiveMountWhileReadersRun) {
  for (int i = 0; i < 12; ++i)
    WriteFile(photos_.source() + "/t/" + std::to_string(i) + ".txt", std::string(5000, static_cast<char>('a' + i)));
  Append();
  const BackgroundMount mount(photos_);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::atomic<uint64_t> reads{0};
  std::vector<std::thread> readers;
  for (unsigned seed = 0; seed < 8; ++seed)
    readers.emplace_back([&, seed] {
      std::mt19937_64 random(seed);
      for (; !stop; ++reads) {
        const int i = static_cast<int>(random() % 12);
        const UniqueFd fd(open((mount / "scan4/t/" + std::to_string(i) + ".txt").c_str(), O_RDONLY));
        std::string text(5000, '?');
        if (fd.valid() && random() % 2 == 0) posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
        const ssize_t got = fd.valid() ? pread(fd.get(), text.data(), text.size(), 0) : -1;
        if (got >= 0 && (got != 5000 || text != std::string(5000, static_cast<char>('a' + i)))) ++wrong;
      }
    });
  for (const char* path : {"n00/0.jpg", "t/3.txt", "n01"}) {
    ASSERT_EQ(photos_.Pcrfs({"remove", photos_.dataset(), path}).status, 0) << path;
    ExpectRefreshed("as it is now");
    EXPECT_FALSE(fs::exists(mount / (std::string("scan4/") + path)));
    ASSERT_EQ(photos_.Pcrfs({"compact", photos_.dataset()}).status, 0);
    EXPECT_EQ(Refresh().status, 0);
  }
  EXPECT_TRUE(Eventually([&] { return reads > 200; }));
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
  ExpectLikeAFreshMount();
}

TEST_F(RefreshTest, ReplacedStatesLeaveDescriptorsForTheCurrentOne) {
  const ProgramResult result = photos_.RunAlone(R"(
    mkdir "$scratch/src"
    for i in $(seq 200); do echo $i >"$scratch/src/$i"; done
    "$pcrfs" pack "$scratch/src" "$scratch/d" --record-images 1
    (ulimit -n 320; "$pcrfs" mount "$scratch/d" "$mount" --log-file "$scratch/log")
    cat "$mount"/scan1/* >/dev/null
    for round in 2 3 4 5; do
      "$pcrfs" remove "$scratch/d" 10$round
      "$pcrfs" refresh "$mount"
      cat "$mount"/scan$round/* >/dev/null
    done
    for round in 6 7 8; do
      echo new >"$scratch/src/new$round"
      "$pcrfs" pack --append "$scratch/src" "$scratch/d"
      "$pcrfs" refresh "$mount"
      cat "$mount"/scan$round/* >/dev/null
    done
    "$pcrfs" umount "$mount"
  )");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
}

TEST_F(RefreshTest, OthersThanRootAndTheOwnerMayNot) {
  const ProgramResult result = photos_.RunAlone(std::string(PackedPhotos::kAsUser) + R"(
    "$pcrfs" mount "$dataset" "$mount" -o allow_other
    if $as_user "$pcrfs" refresh "$mount" 2>"$scratch/err"; then echo allowed; fi
    cat "$scratch/err"
    "$pcrfs" umount "$mount"
  )");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("only that user and root may do this"));
}

}  // namespace
}  // namespace pcrfs
