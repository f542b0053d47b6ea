// What programs see of a mounted data set, through the kernel.
#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "format/file.h"
#include "format/image_encoder.h"
#include "mount/mount_point.h"
#include "tests/support/fork.h"
#include "tests/support/mount_fixture.h"

namespace pcrfs {
namespace {

using testing::BackgroundMount;
using testing::FilesBelow;
using testing::PackedPhotos;
using testing::ReadFile;

std::string ScanFolder(int level) { return "scan" + std::to_string(level); }

struct stat StatOf(const std::string& path) {
  struct stat seen {};
  EXPECT_EQ(lstat(path.c_str(), &seen), 0) << path;
  return seen;
}

// What a source file is to look like at a level, from the encoder alone: no shard, no catalog, no mount in between.
class Expected {
 public:
  explicit Expected(const std::string& source) : whole_(ReadFile(source)), encoded_(EncodeImage(whole_)) {}

  [[nodiscard]] bool opaque() const { return !encoded_; }
  [[nodiscard]] Bytes AtLevel(int level) const {
    if (opaque()) return whole_;
    size_t size = 0;
    for (int g = 0; g < level; ++g) size += encoded_->fragment_sizes[static_cast<size_t>(g)];
    Bytes bytes(encoded_->bytes.begin(), encoded_->bytes.begin() + static_cast<ptrdiff_t>(size));
    bytes.insert(bytes.end(), {0xFF, 0xD9});
    if (level == kShardLevels) bytes.insert(bytes.end(), encoded_->tail.begin(), encoded_->tail.end());
    return bytes;
  }

 private:
  Bytes whole_;
  tl::expected<EncodedImage, Opaque> encoded_;
};

// One data set and one mount for all tests that only read.
class MountTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    PackOptions options;
    options.record_images = 5;  // several shards
    photos_ = std::make_unique<PackedPhotos>(testing::PhotoFolder{}, options);
    mount_ = std::make_unique<BackgroundMount>(*photos_);
  }
  static void TearDownTestSuite() {
    mount_.reset();
    photos_.reset();
  }

  static std::string At(int level, const std::string& file) { return *mount_ / (ScanFolder(level) + "/" + file); }
  // The largest image, so that a few pages are read.
  static std::string LargeFile() {
    std::string largest;
    for (const std::string& file : FilesBelow(photos_->source()))
      if (largest.empty() || std::filesystem::file_size(photos_->source() + "/" + file) >
                                 std::filesystem::file_size(photos_->source() + "/" + largest))
        largest = file;
    return largest;
  }

  static inline std::unique_ptr<PackedPhotos> photos_;
  static inline std::unique_ptr<BackgroundMount> mount_;
};

TEST_F(MountTest, RootHoldsTheLevelsCurrentAndOriginal) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(mount_->path())) names.insert(entry.path().filename());
  std::set<std::string> expected = {"current", "original"};
  for (int k = 1; k <= kShardLevels; ++k) expected.insert(ScanFolder(k));
  EXPECT_EQ(names, expected);
  EXPECT_EQ(std::filesystem::read_symlink(*mount_ / "current"), "scan10");
}

TEST_F(MountTest, EveryLevelShowsEveryFileAndNothingElse) {
  for (int k = 1; k <= kShardLevels; ++k)
    EXPECT_EQ(FilesBelow(*mount_ / ScanFolder(k)), FilesBelow(photos_->source())) << k;
  EXPECT_TRUE(std::filesystem::is_directory(At(1, "empty")));
}

TEST_F(MountTest, BytesAtEveryLevelAreTheTruncatedJpegAndSizesAreExactBefore) {
  int images = 0;
  for (const std::string& file : FilesBelow(photos_->source())) {
    const Expected expected(photos_->source() + "/" + file);
    images += expected.opaque() ? 0 : 1;
    for (int k = 1; k <= kShardLevels; ++k) {
      const Bytes bytes = expected.AtLevel(k);
      const struct stat before = StatOf(At(k, file));
      EXPECT_EQ(static_cast<size_t>(before.st_size), bytes.size()) << file << " at " << k;
      EXPECT_EQ(before.st_blocks, (before.st_size + 511) / 512);
      EXPECT_TRUE(ReadFile(At(k, file)) == bytes) << file << " at " << k;
      EXPECT_EQ(StatOf(At(k, file)).st_size, before.st_size);
    }
  }
  EXPECT_GE(images, 10);
}

TEST_F(MountTest, AttributesAreTheSourcesWithoutWritePermission) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(photos_->source())) {
    const std::string file = entry.path().string().substr(photos_->source().size() + 1);
    const struct stat source = StatOf(entry.path()), shown = StatOf(At(3, file));
    EXPECT_EQ(shown.st_mtim.tv_sec, source.st_mtim.tv_sec) << file;
    EXPECT_EQ(shown.st_mtim.tv_nsec, source.st_mtim.tv_nsec) << file;
    EXPECT_EQ(shown.st_mode, source.st_mode & ~mode_t{07222}) << file;
    EXPECT_EQ(shown.st_nlink, 1u);
    EXPECT_EQ(shown.st_uid, getuid());
    if (S_ISREG(shown.st_mode)) {
      EXPECT_EQ(shown.st_blksize, 128 << 10);
    }
  }
}

// Path below the mount to inode number; "." and ".." are left to the kernel.
std::map<std::string, uint64_t> Inodes(const std::string& mount) {
  std::map<std::string, uint64_t> inodes = {{"", StatOf(mount).st_ino}};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(mount))
    inodes[entry.path().string().substr(mount.size())] = StatOf(entry.path()).st_ino;
  return inodes;
}

TEST_F(MountTest, InodeNumbersAreUniqueAndTheSameAfterARemount) {
  const auto inodes = Inodes(mount_->path());
  std::set<uint64_t> numbers;
  for (const auto& [path, number] : inodes) EXPECT_TRUE(numbers.insert(number).second) << path << " " << number;
  EXPECT_GT(numbers.size(), 10 * FilesBelow(photos_->source()).size());

  mount_.reset();
  std::filesystem::remove_all(photos_->cache());  // another machine, so to speak
  mount_ = std::make_unique<BackgroundMount>(*photos_);
  EXPECT_EQ(Inodes(mount_->path()), inodes);
}

TEST_F(MountTest, ListingsGiveTheInodeNumbersOfStat) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(At(4, "n00").c_str()), closedir);
  ASSERT_NE(folder, nullptr);
  int seen = 0;
  while (const dirent* entry = readdir(folder.get())) {
    if (std::string_view(entry->d_name) == "." || std::string_view(entry->d_name) == "..") continue;
    EXPECT_EQ(entry->d_ino, StatOf(At(4, "n00/" + std::string(entry->d_name))).st_ino);
    EXPECT_EQ(entry->d_type, DT_REG);
    ++seen;
  }
  EXPECT_GT(seen, 0);
}

TEST_F(MountTest, MmapSendfileAndDirectReadsGiveTheSameBytes) {
  const std::string path = At(10, LargeFile());
  const Bytes expected = ReadFile(path);
  const UniqueFd fd(open(path.c_str(), O_RDONLY));
  void* mapped = mmap(nullptr, expected.size(), PROT_READ, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(std::memcmp(mapped, expected.data(), expected.size()), 0);
  munmap(mapped, expected.size());

  const std::string copy = *photos_ / "copy";
  {
    const UniqueFd to(open(copy.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
    ssize_t sent = 1;
    for (size_t all = 0; all < expected.size() && sent > 0; all += static_cast<size_t>(sent))
      sent = sendfile(to.get(), fd.get(), nullptr, expected.size() - all);
  }
  EXPECT_TRUE(ReadFile(copy) == expected);
  EXPECT_EQ(testing::RunProgram({"cp", path, copy}).status, 0);
  EXPECT_TRUE(ReadFile(copy) == expected);

  const UniqueFd direct(open(path.c_str(), O_RDONLY | O_DIRECT));
  ASSERT_TRUE(direct.valid());
  constexpr size_t kPart = 4096;
  const std::unique_ptr<uint8_t, void (*)(void*)> buffer(static_cast<uint8_t*>(std::aligned_alloc(kPart, kPart)),
                                                         std::free);
  Bytes read;
  for (ssize_t size = 1; size > 0;) {
    size = pread(direct.get(), buffer.get(), kPart, static_cast<off_t>(read.size()));
    ASSERT_GE(size, 0) << std::strerror(errno);
    read.insert(read.end(), buffer.get(), buffer.get() + size);
  }
  EXPECT_TRUE(read == expected);
}

TEST_F(MountTest, ManyReadersAtOnceAllReadRight) {
  const std::vector<std::string> files = FilesBelow(photos_->source());
  std::vector<std::vector<Bytes>> expected;
  for (const std::string& file : files) {
    const Expected source(photos_->source() + "/" + file);
    auto& levels = expected.emplace_back();
    for (int k = 1; k <= kShardLevels; ++k) levels.push_back(source.AtLevel(k));
  }
  mount_.reset();  // so that nothing is cached
  mount_ = std::make_unique<BackgroundMount>(*photos_);
  std::atomic<int> wrong{0}, reads{0};
  std::vector<std::thread> readers;
  for (unsigned t = 0; t < 32; ++t)
    readers.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 200; ++i) {
        const size_t file = random() % files.size();
        const int level = 1 + static_cast<int>(random() % kShardLevels);
        const Bytes& whole = expected[file][static_cast<size_t>(level - 1)];
        const size_t offset = random() % (whole.size() + 1), size = random() % 20000;
        Bytes part(size);
        const UniqueFd fd(open(At(level, files[file]).c_str(), O_RDONLY));
        const ssize_t got = pread(fd.get(), part.data(), size, static_cast<off_t>(offset));
        const size_t due = std::min(size, whole.size() - offset);
        const bool right = got == static_cast<ssize_t>(due) &&
                           std::equal(part.begin(), part.begin() + got, whole.begin() + static_cast<ptrdiff_t>(offset));
        wrong += right ? 0 : 1;
        ++reads;
      }
    });
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(reads, 32 * 200);
  EXPECT_EQ(wrong, 0);
}

TEST_F(MountTest, NothingCanBeWritten) {
  const std::string file = At(10, "n00/0.jpg"), folder = At(10, "n00");
  const auto fails_with = [](int result) { return result == 0 ? 0 : errno; };
  EXPECT_EQ(fails_with(open(file.c_str(), O_WRONLY)), EROFS);
  EXPECT_EQ(fails_with(open(file.c_str(), O_RDWR)), EROFS);
  EXPECT_EQ(fails_with(open((folder + "/new").c_str(), O_WRONLY | O_CREAT, 0600)), EROFS);
  EXPECT_EQ(fails_with(mkdir((folder + "/new").c_str(), 0700)), EROFS);
  EXPECT_EQ(fails_with(unlink(file.c_str())), EROFS);
  EXPECT_EQ(fails_with(rename(file.c_str(), (folder + "/new").c_str())), EROFS);
  EXPECT_EQ(fails_with(link(file.c_str(), (folder + "/new").c_str())), EROFS);
  EXPECT_EQ(fails_with(symlink("x", (folder + "/new").c_str())), EROFS);
  EXPECT_EQ(fails_with(truncate(file.c_str(), 0)), EROFS);
  EXPECT_EQ(fails_with(chmod(file.c_str(), 0600)), EROFS);
  EXPECT_EQ(fails_with(utimensat(AT_FDCWD, file.c_str(), nullptr, 0)), EROFS);
  EXPECT_EQ(fails_with(setxattr(file.c_str(), "user.x", "1", 1, 0)), EROFS);
  EXPECT_EQ(fails_with(static_cast<int>(getxattr(file.c_str(), "user.x", nullptr, 0))), EOPNOTSUPP);
}

TEST_F(MountTest, NoFileAndNoFolderIsATerminal) {
  for (const std::string& path : {At(10, "n00/0.jpg"), At(10, "n00"), mount_->path()}) {
    const UniqueFd fd(open(path.c_str(), O_RDONLY));
    EXPECT_EQ(isatty(fd.get()), 0);
    EXPECT_EQ(errno, ENOTTY);
    EXPECT_EQ(ioctl(fd.get(), _IOR('p', 99, int), nullptr), -1);
    EXPECT_EQ(errno, ENOTTY);
  }
}

TEST_F(MountTest, MountTableAndStatfsTellTheTruth) {
  const auto mounted = FindMount(mount_->path());
  ASSERT_TRUE(mounted);
  EXPECT_EQ(mounted->type, kMountType);
  EXPECT_EQ(mounted->source, photos_->dataset());  // with its comma and blank
  std::ifstream table("/proc/self/mounts");
  std::string line, ours;
  while (std::getline(table, line))
    if (line.find("fuse.pcrfs") != std::string::npos && line.find("data\\040set,") != std::string::npos) ours = line;
  for (const char* option : {" ro,", "nosuid", "nodev", "default_permissions"})
    EXPECT_THAT(ours, ::testing::HasSubstr(option));
  EXPECT_THAT(ours, ::testing::Not(::testing::HasSubstr("allow_other")));

  struct statvfs low {
  }, high{};
  ASSERT_EQ(statvfs(At(1, "n00").c_str(), &low), 0);
  ASSERT_EQ(statvfs(mount_->path().c_str(), &high), 0);
  EXPECT_EQ(high.f_namemax, 255u);
  EXPECT_GT(low.f_blocks, 0u);
  EXPECT_GT(high.f_blocks, low.f_blocks);
  EXPECT_GE(high.f_files, FilesBelow(photos_->source()).size());
  EXPECT_EQ(high.f_bfree, 0u);
}

// The kernel's file handle of a path, as an NFS server would keep it.
class Handle {
 public:
  Handle() { get()->handle_bytes = kRoom; }
  file_handle* get() { return reinterpret_cast<file_handle*>(memory_.data()); }

 private:
  static constexpr unsigned kRoom = 128;
  alignas(file_handle) std::array<unsigned char, sizeof(file_handle) + kRoom> memory_{};
};

TEST_F(MountTest, FileHandlesWorkAndForgedOnesAreStale) {
  const std::string path = At(2, "n01/0.jpg");
  Handle handle;
  int mount_id = 0;
  ASSERT_EQ(name_to_handle_at(AT_FDCWD, path.c_str(), handle.get(), &mount_id, 0), 0);
  const Bytes expected = ReadFile(path);
  mount_.reset();
  mount_ = std::make_unique<BackgroundMount>(*photos_);  // the handle outlives the mount
  const UniqueFd root(open(mount_->path().c_str(), O_RDONLY | O_DIRECTORY));
  const UniqueFd fd(open_by_handle_at(root.get(), handle.get(), O_RDONLY));
  ASSERT_TRUE(fd.valid()) << std::strerror(errno);
  Bytes bytes(expected.size());
  EXPECT_EQ(pread(fd.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(expected.size()));
  EXPECT_TRUE(bytes == expected);

  // It begins with the number, upper half first.
  std::array<uint32_t, 2> halves{};
  std::memcpy(halves.data(), handle.get()->f_handle, sizeof halves);
  const uint64_t number = uint64_t{halves[0]} << 32 | halves[1];
  EXPECT_EQ(number, StatOf(path).st_ino);
  for (const uint64_t forged : {uint64_t{2}, number + (uint64_t{1} << 40), number | 31, UINT64_MAX, uint64_t{30}}) {
    halves = {static_cast<uint32_t>(forged >> 32), static_cast<uint32_t>(forged)};
    std::memcpy(handle.get()->f_handle, halves.data(), sizeof halves);
    EXPECT_EQ(open_by_handle_at(root.get(), handle.get(), O_RDONLY), -1) << forged;
    EXPECT_EQ(errno, ESTALE) << forged;
  }
}

TEST(MountOptionsTest, LevelMakesThatTreeTheRoot) {
  const PackedPhotos photos;
  const BackgroundMount mount(photos, {"-o", "level=3"});
  EXPECT_EQ(FilesBelow(mount.path()), FilesBelow(photos.source()));
  for (const std::string& file : FilesBelow(photos.source()))
    EXPECT_TRUE(ReadFile(mount / file) == Expected(photos.source() + "/" + file).AtLevel(3)) << file;
}

TEST(MountOptionsTest, OwnerAndUmask) {
  const PackedPhotos photos;
  std::filesystem::permissions(photos.source() + "/notes.txt", std::filesystem::perms(0640));
  const BackgroundMount mount(photos, {"-o", "uid=1234,gid=4321", "-o", "umask=077"});
  for (const char* file : {"", "scan1", "scan1/n00", "scan1/n00/0.jpg", "current"}) {
    const struct stat seen = StatOf(mount / file);
    EXPECT_EQ(seen.st_uid, 1234u) << file;
    EXPECT_EQ(seen.st_gid, 4321u) << file;
    if (!S_ISLNK(seen.st_mode)) {
      EXPECT_EQ(seen.st_mode & 0077, 0u) << file;
    }
  }
}

// In a child process, as a user without rights: errno of opening `path` to read, or 0.
int OpenedByNobody(const std::string& path) {
  const pid_t child = testing::Fork();
  if (child == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(255);
    _exit(open(path.c_str(), O_RDONLY) < 0 ? errno : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(MountOptionsTest, OthersGetInOnlyWithAllowOtherAndOnlyAsFarAsModesSay) {
  if (getuid() != 0) GTEST_FAIL() << "this test changes its user, so it must run as root";
  testing::PhotoFolder spec;
  const PackedPhotos photos(spec);
  std::filesystem::permissions(photos / "", std::filesystem::perms(0755));
  {
    const BackgroundMount mount(photos);
    EXPECT_EQ(OpenedByNobody(mount / "scan1/n00/0.jpg"), EACCES);
  }
  const BackgroundMount mount(photos, {"-o", "allow_other,umask=004"});
  EXPECT_EQ(OpenedByNobody(mount / "scan1/n00/0.jpg"), EACCES);  // the mode says so, not FUSE
  EXPECT_EQ(OpenedByNobody(mount / "scan1/n00/0.jpg"), EACCES);  // and not from the cache either
}

TEST(MountOptionsTest, AllowOtherLetsOthersRead) {
  if (getuid() != 0) GTEST_FAIL() << "this test changes its user, so it must run as root";
  const PackedPhotos photos;
  std::filesystem::permissions(photos / "", std::filesystem::perms(0755));
  const BackgroundMount mount(photos, {"-o", "allow_other"});
  EXPECT_EQ(OpenedByNobody(mount / "scan1/n00/0.jpg"), 0);
}

}  // namespace
}  // namespace pcrfs
