#include "mount/mount_table.h"

#include <gtest/gtest.h>

#include <string>

namespace pcrfs {
namespace {

constexpr std::string_view kMountInfo =
    "22 1 0:21 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
    "31 22 0:40 / /mnt/a ro,nosuid,nodev - fuse.pcrfs /data/ds ro,user_id=0\n"
    "32 22 0:41 /scan\\0403 /mnt/with\\040blank\\134x ro shared:7 master:2 - fuse.pcrfs /data/a\\040b "
    "ro,user_id=1000,group_id=100\n"
    "33 31 0:42 / /mnt/a rw - tmpfs tmpfs rw\n"
    "34 22 0:43 / /mnt/short rw - fuse\n"
    "x 22 0:43 / /mnt/x rw - fuse.pcrfs y ro\n"
    "35 22 0:44 / /mnt/b rw - nfs server:/x\n"
    "nonsense\n";

TEST(FindMount, GivesTheTopmostOne) {
  const auto found = FindMount(kMountInfo, "/mnt/a");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->id, 33u);
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

TEST(ReadMounts, TellsAllOfThemInTheirOrder) {
  const auto mounts = ReadMounts(kMountInfo);
  ASSERT_EQ(mounts.size(), 5u);
  const MountedThere& ours = mounts[2];
  EXPECT_EQ(ours.id, 32u);
  EXPECT_EQ(ours.device, "0:41");
  EXPECT_EQ(ours.root, "/scan 3");
  EXPECT_EQ(ours.path, "/mnt/with blank\\x");
  EXPECT_EQ(ours.user, 1000u);
  EXPECT_EQ(ours.group, 100u);
  EXPECT_EQ(mounts[1].user, 0u);
  EXPECT_EQ(mounts[4].source, "server:/x");
}

}  // namespace
}  // namespace pcrfs
