#include "cache/cache_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/fork.h"
#include "tests/support/temp_dir.h"

namespace pcrfs {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;

class CacheFolderTest : public ::testing::Test {
 protected:
  CacheFolderTest() {
    for (const char* name : {"PCRFS_CACHE_DIR", "XDG_CACHE_HOME", "HOME"}) unsetenv(name);
  }
  TempDir folder_;
};

mode_t ModeOf(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

TEST_F(CacheFolderTest, OptionComesBeforeEnvironment) {
  setenv("PCRFS_CACHE_DIR", (folder_ / "variable").c_str(), 1);
  EXPECT_EQ(CacheFolder(folder_ / "option"), folder_ / "option");
  EXPECT_EQ(CacheFolder(""), folder_ / "variable");
  EXPECT_EQ(ModeOf(folder_ / "option"), 0700u);
  EXPECT_EQ(ModeOf(folder_ / "variable"), 0700u);
}

TEST_F(CacheFolderTest, MakesFoldersAboveAndTakesWhatIsThere) {
  EXPECT_EQ(CacheFolder(folder_ / "a/b/c/"), folder_ / "a/b/c");
  EXPECT_EQ(CacheFolder(folder_ / "a/b/../b/c"), folder_ / "a/b/c");
}

TEST_F(CacheFolderTest, MakesPathsAbsolute) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  EXPECT_EQ(CacheFolder("relative"), folder_ / "relative");
  std::filesystem::current_path(before);
}

TEST_F(CacheFolderTest, RefusesWhatOthersCanWriteTo) {
  for (const mode_t mode : {0777u, 0720u, 0702u}) {
    const std::string path = folder_ / std::to_string(mode);
    mkdir(path.c_str(), 0700);
    chmod(path.c_str(), mode);
    const auto refused = CacheFolder(path);
    ASSERT_FALSE(refused) << mode;
    EXPECT_EQ(refused.error().code, ErrorCode::kPermission);
  }
}

TEST_F(CacheFolderTest, RefusesASymbolicLink) {
  mkdir((folder_ / "real").c_str(), 0700);
  ASSERT_EQ(symlink("real", (folder_ / "link").c_str()), 0);
  for (const char* name : {"link", "link/"}) {
    const auto refused = CacheFolder(folder_ / name);
    ASSERT_FALSE(refused) << name;
    EXPECT_THAT(refused.error().message, HasSubstr("symbolic link"));
  }
  EXPECT_TRUE(CacheFolder(folder_ / "link/below")) << "links on the way are the user's own business";
}

TEST_F(CacheFolderTest, RefusesAFile) {
  testing::WriteFile(folder_ / "file", "text");
  EXPECT_EQ(CacheFolder(folder_ / "file").error().code, ErrorCode::kNotDirectory);
  EXPECT_FALSE(CacheFolder(folder_ / "file/below"));
}

TEST_F(CacheFolderTest, RefusesAFolderOfSomeoneElse) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give folders away";
  const std::string path = folder_ / "theirs";
  mkdir(path.c_str(), 0700);
  ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
  EXPECT_EQ(CacheFolder(path).error().code, ErrorCode::kPermission);
}

// Tells the child's answer by its exit status.
template <typename Function>
bool HoldsForNobody(const Function& holds) {
  const pid_t child = testing::Fork();
  if (child == 0) _exit(setgid(65534) == 0 && setuid(65534) == 0 && holds() ? 0 : 1);
  int status = 1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status == 0;
}

TEST_F(CacheFolderTest, FollowsTheXdgRuleForUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  chmod(folder_.path().c_str(), 0777);
  const std::string home = folder_ / "home", xdg = folder_ / "xdg";
  for (const std::string& path : {home, xdg}) {
    mkdir(path.c_str(), 0700);
    ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  }
  setenv("HOME", home.c_str(), 1);
  EXPECT_TRUE(HoldsForNobody([&] { return CacheFolder("") == home + "/.cache/pcrfs"; }));
  setenv("XDG_CACHE_HOME", "not/absolute", 1);
  EXPECT_TRUE(HoldsForNobody([&] { return CacheFolder("") == home + "/.cache/pcrfs"; }));
  setenv("XDG_CACHE_HOME", xdg.c_str(), 1);
  EXPECT_TRUE(HoldsForNobody([&] { return CacheFolder("") == xdg + "/pcrfs"; }));
}

TEST_F(CacheFolderTest, TakesVarTmpWhereThereIsNoHome) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  setenv("HOME", "/proc/nothing/can/be/made/here", 1);
  EXPECT_TRUE(HoldsForNobody([] { return CacheFolder("") == "/var/tmp/pcrfs-65534"; }));
  std::filesystem::remove_all("/var/tmp/pcrfs-65534");
}

TEST(NetworkFileSystemTest, KnowsNetworkFromLocal) {
  EXPECT_TRUE(IsNetworkFileSystem(NFS_SUPER_MAGIC));
  EXPECT_TRUE(IsNetworkFileSystem(0x0BD00BD0)) << "Lustre";
  EXPECT_TRUE(IsNetworkFileSystem(static_cast<int>(0xFF534D42))) << "CIFS, sign-extended";
  for (const long local : {long{EXT4_SUPER_MAGIC}, long{XFS_SUPER_MAGIC}, long{BTRFS_SUPER_MAGIC}, long{TMPFS_MAGIC},
                           long{OVERLAYFS_SUPER_MAGIC}})
    EXPECT_FALSE(IsNetworkFileSystem(local));
}

}  // namespace
}  // namespace pcrfs
