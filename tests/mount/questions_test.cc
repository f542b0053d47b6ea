// What programs ask of files besides their bytes, through a real mount: commands, locks, watches, extended attributes,
// statx.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "format/file.h"
#include "tests/support/mount_fixture.h"

namespace pcrfs {
namespace {

using testing::BackgroundMount;
using testing::PackedPhotos;
using testing::ReadFile;

// errno of a call that failed, or 0.
template <typename T>
int Errno(T result) {
  return result == static_cast<T>(-1) ? errno : 0;
}

class QuestionsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    photos_ = std::make_unique<PackedPhotos>();
    mount_ = std::make_unique<BackgroundMount>(*photos_);
  }
  static void TearDownTestSuite() {
    mount_.reset();
    photos_.reset();
  }

  static std::string At(const std::string& path) { return *mount_ / path; }
  static std::string Image() { return At("scan10/n01/5.jpg"); }
  static UniqueFd Open(const std::string& path) {
    UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_TRUE(fd.valid()) << path << ": " << std::strerror(errno);
    return fd;
  }
  static std::vector<std::string> Files() {
    std::vector<std::string> files;
    for (const std::string& file : testing::FilesBelow(At("scan10"))) files.push_back(At("scan10/" + file));
    return files;
  }

  static inline std::unique_ptr<PackedPhotos> photos_;
  static inline std::unique_ptr<BackgroundMount> mount_;
};

TEST_F(QuestionsTest, CommandsOfOtherFileSystemsAreForeign) {
  for (const std::string& path : {Image(), At("scan10/n01"), mount_->path(), At("scan10")}) {
    const UniqueFd fd = Open(path);
    std::array<char, 256> argument{};
    for (const unsigned long command :
         {static_cast<unsigned long>(TCGETS), static_cast<unsigned long>(TIOCGWINSZ),
          static_cast<unsigned long>(FS_IOC_GETFLAGS), static_cast<unsigned long>(FS_IOC_GETVERSION),
          static_cast<unsigned long>(FS_IOC_FSGETXATTR), static_cast<unsigned long>(BLKGETSIZE64)})
      EXPECT_EQ(Errno(ioctl(fd.get(), command, argument.data())), ENOTTY) << path << std::hex << " " << command;
    EXPECT_EQ(Errno(ioctl(fd.get(), FS_IOC_FIEMAP, argument.data())), EOPNOTSUPP) << path;
  }
  // The kernel answers for regular files itself: bytes behind the offset.
  int left = 0;
  const UniqueFd fd = Open(Image());
  ASSERT_EQ(lseek(fd.get(), 100, SEEK_SET), 100);
  EXPECT_EQ(ioctl(fd.get(), FIONREAD, &left), 0);
  EXPECT_EQ(static_cast<size_t>(left), ReadFile(Image()).size() - 100);
}

TEST_F(QuestionsTest, LocksAreKeptByTheKernel) {
  const UniqueFd one = Open(Image()), other = Open(Image());
  EXPECT_EQ(flock(one.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(Errno(flock(other.get(), LOCK_SH | LOCK_NB)), EWOULDBLOCK);
  EXPECT_EQ(flock(one.get(), LOCK_UN), 0);
  EXPECT_EQ(flock(other.get(), LOCK_SH | LOCK_NB), 0);

  struct flock range {};
  range.l_type = F_RDLCK;
  range.l_len = 10;
  EXPECT_EQ(fcntl(one.get(), F_SETLK, &range), 0);
  EXPECT_EQ(fcntl(one.get(), F_OFD_SETLK, &range), 0);
  range.l_type = F_WRLCK;  // takes a file that is open for writing
  EXPECT_EQ(Errno(fcntl(one.get(), F_SETLK, &range)), EBADF);
  EXPECT_EQ(fcntl(other.get(), F_OFD_GETLK, &range), 0);
  EXPECT_EQ(range.l_type, F_RDLCK);
}

TEST_F(QuestionsTest, WatchesAreSetAndReadsAreSeen) {
  const UniqueFd watcher(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  ASSERT_GE(inotify_add_watch(watcher.get(), At("scan10/n01").c_str(), IN_OPEN | IN_ACCESS), 0);
  ASSERT_GE(inotify_add_watch(watcher.get(), Image().c_str(), IN_ALL_EVENTS), 0);
  EXPECT_FALSE(ReadFile(Image()).empty());
  std::array<char, 4096> events{};
  EXPECT_GT(read(watcher.get(), events.data(), events.size()), 0);
}

// How many times the daemon has read: one more for each request.
uint64_t ReadCallsOf(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/io");
  std::string name;
  for (uint64_t value = 0; file >> name >> value;)
    if (name == "syscr:") return value;
  ADD_FAILURE() << "no syscr in /proc/" << process << "/io";
  return 0;
}

TEST_F(QuestionsTest, ExtendedAttributesAreAskedForOnceForAllFiles) {
  const pid_t daemon = mount_->daemon();
  const auto none = [&](const std::string& path) {
    std::array<char, 64> value;
    const auto is_none = [](ssize_t size) { return size < 0 && (errno == EOPNOTSUPP || errno == ENODATA); };
    // No list is an empty list to some kernels.
    return Errno(getxattr(path.c_str(), "user.mime_type", value.data(), value.size())) == EOPNOTSUPP &&
           Errno(lgetxattr(path.c_str(), "security.capability", value.data(), value.size())) == EOPNOTSUPP &&
           is_none(lgetxattr(path.c_str(), "system.posix_acl_access", nullptr, 0)) &&
           llistxattr(path.c_str(), value.data(), value.size()) <= 0;
  };
  EXPECT_TRUE(none(Image()));
  const std::vector<std::string> files = Files();
  struct stat seen {};
  for (const std::string& file : files) EXPECT_EQ(lstat(file.c_str(), &seen), 0);
  const uint64_t before = ReadCallsOf(daemon);
  size_t without = 0;
  for (int i = 0; i < 20; ++i)
    for (const std::string& file : files) without += none(file) ? 1U : 0U;
  EXPECT_EQ(without, 20 * files.size());
  EXPECT_EQ(ReadCallsOf(daemon), before);
}

TEST_F(QuestionsTest, StatxSaysWhatStatSaysWhateverIsAskedFor) {
  for (const std::string& path : {Image(), At("scan10/n01"), mount_->path(), At("current")}) {
    struct stat seen {};
    ASSERT_EQ(lstat(path.c_str(), &seen), 0);
    for (const unsigned mask : {0u, STATX_SIZE, STATX_MTIME | STATX_MODE, STATX_BASIC_STATS, STATX_ALL})
      for (const int sync : {AT_STATX_SYNC_AS_STAT, AT_STATX_FORCE_SYNC, AT_STATX_DONT_SYNC}) {
        struct statx more {};
        ASSERT_EQ(statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW | sync, mask, &more), 0) << path;
        EXPECT_EQ(more.stx_mask & STATX_BASIC_STATS & mask, mask & STATX_BASIC_STATS) << path << " " << mask;
        EXPECT_EQ(more.stx_ino, seen.st_ino) << path;
        EXPECT_EQ(more.stx_size, static_cast<uint64_t>(seen.st_size)) << path;
        EXPECT_EQ(more.stx_mode, seen.st_mode) << path;
        EXPECT_EQ(more.stx_nlink, 1u) << path;
        EXPECT_EQ(more.stx_blocks, static_cast<uint64_t>(seen.st_blocks)) << path;
        EXPECT_EQ(more.stx_mtime.tv_sec, seen.st_mtim.tv_sec) << path;
        EXPECT_EQ(more.stx_mtime.tv_nsec, seen.st_mtim.tv_nsec) << path;
        EXPECT_EQ(makedev(more.stx_dev_major, more.stx_dev_minor), seen.st_dev) << path;
      }
  }
}

}  // namespace
}  // namespace pcrfs
