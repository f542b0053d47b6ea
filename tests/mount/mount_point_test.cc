#include "mount/mount_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/temp_dir.h"

namespace pcrfs {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kMountInfo =
    "22 1 0:21 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
    "31 22 0:40 / /mnt/a ro,nosuid,nodev - fuse.pcrfs /data/ds ro,user_id=0\n"
    "32 22 0:41 / /mnt/with\\040blank\\134x ro shared:7 master:2 - fuse.pcrfs /data/a\\040b ro\n"
    "33 31 0:42 / /mnt/a rw - tmpfs tmpfs rw\n"
    "34 22 0:43 / /mnt/short rw - fuse\n"
    "nonsense\n";

TEST(FindMount, GivesTheTopmostOne) {
  const auto found = FindMount(kMountInfo, "/mnt/a");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->id, "33");
  EXPECT_EQ(found->type, "tmpfs");
}

TEST(FindMount, UndoesTheEscapes) {
  const auto found = FindMount(kMountInfo, "/mnt/with blank\\x");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->type, kMountType);
  EXPECT_EQ(found->source, "/data/a b");
}

TEST(FindMount, NothingForOtherPathsAndOddLines) {
  for (const char* path : {"", "/mnt", "/mnt/a/", "/mnt/ab", "/mnt/short", "nonsense"})
    EXPECT_FALSE(FindMount(kMountInfo, path)) << path;
  EXPECT_FALSE(FindMount("", "/"));
}

TEST(FindMount, KnowsTheRootOfThisMachine) { EXPECT_TRUE(FindMount(std::string("/proc"))); }

TEST(ResolveMountPoint, FollowsLinksAndWantsAFolderToBeThere) {
  const testing::TempDir folder;
  ASSERT_EQ(mkdir((folder / "real").c_str(), 0755), 0);
  ASSERT_EQ(symlink("real", (folder / "link").c_str()), 0);
  EXPECT_EQ(ResolveMountPoint(folder / "link/"), folder / "real");
  EXPECT_EQ(ResolveMountPoint(folder / "real/../real"), folder / "real");
  const auto missing = ResolveMountPoint(folder / "missing");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("there is no folder"));
}

TEST(ResolveMountPoint, LeavesAPassedDescriptorAsItIs) {
  EXPECT_EQ(ResolveMountPoint("/dev/fd/7"), "/dev/fd/7");
  for (const char* path : {"/dev/fd", "/dev/fd/", "/dev/fd/x", "/dev/fd/1/2", "dev/fd/1"})
    EXPECT_FALSE(IsPassedDescriptor(path)) << path;
}

TEST(PrepareMountPoint, LetsOneAtATimeMountOnAPlace) {
  const testing::TempDir folder;
  std::atomic<int> inside{0}, most{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      const auto lock = PrepareMountPoint(folder.path(), false);
      EXPECT_TRUE(lock);
      const int now = ++inside;
      if (now > most) most = now;
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      --inside;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
}

TEST(PrepareMountPoint, WantsAnEmptyFolder) {
  const testing::TempDir folder;
  EXPECT_TRUE(PrepareMountPoint(folder.path(), false));
  testing::WriteFile(folder / "file", std::string_view("x"));
  const auto full = PrepareMountPoint(folder.path(), false);
  ASSERT_FALSE(full);
  EXPECT_THAT(full.error().message, HasSubstr("not empty"));
  EXPECT_TRUE(PrepareMountPoint(folder.path(), true));
  const auto file = PrepareMountPoint(folder / "file", true);
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr("is not a folder"));
}

}  // namespace
}  // namespace pcrfs
