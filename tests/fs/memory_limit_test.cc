#include "fs/memory_limit.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/temp_dir.h"

namespace pcrfs {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// A /proc and control groups of a test's own.
class MemoryLimitTest : public ::testing::Test {
 protected:
  MemoryLimitTest() { Write("proc/meminfo", "MemTotal: 16000 kB\nMemFree: 100 kB\nMemAvailable:    8192000 kB\n"); }

  void Write(const std::string& path, const std::string& text) { testing::WriteFile(root_ / path, text); }

  void UseVersionTwo(const std::string& group, const std::string& top = "/") {
    Write("proc/self/cgroup", "0::" + group + "\n");
    Write("proc/self/mountinfo",
          "24 1 8:1 / / rw - ext4 /dev/sda rw\n"
          "30 24 0:26 " +
              top + " /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  void UseVersionOne(const std::string& group, const std::string& top = "/") {
    Write("proc/self/cgroup", "11:cpu,cpuacct:/elsewhere\n9:memory:" + group + "\n0::/ignored\n");
    Write("proc/self/mountinfo",
          "31 24 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
          "32 24 0:28 " +
              top + " /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  }
  void GroupTwo(const std::string& group, const std::string& max, uint64_t current, uint64_t file) {
    Write("sys/fs/cgroup" + group + "/memory.max", max + "\n");
    Write("sys/fs/cgroup" + group + "/memory.current", std::to_string(current) + "\n");
    Write("sys/fs/cgroup" + group + "/memory.stat", "anon 5\nfile 999999999\ninactive_file " +
                                                        std::to_string(file / 2) + "\nactive_file " +
                                                        std::to_string(file - file / 2) + "\n");
  }
  void GroupOne(const std::string& group, uint64_t limit, uint64_t usage, uint64_t file) {
    Write("sys/fs/cgroup/memory" + group + "/memory.limit_in_bytes", std::to_string(limit) + "\n");
    Write("sys/fs/cgroup/memory" + group + "/memory.usage_in_bytes", std::to_string(usage) + "\n");
    Write("sys/fs/cgroup/memory" + group + "/memory.stat",
          "inactive_file 1\ntotal_inactive_file " + std::to_string(file) + "\ntotal_active_file 0\n");
  }
  uint64_t Available() const { return AvailableMemory(root_.path()); }

  testing::TempDir root_;
};

TEST_F(MemoryLimitTest, WithoutGroupsItIsWhatTheMachineHas) { EXPECT_EQ(Available(), uint64_t{8192000} * 1024); }

TEST_F(MemoryLimitTest, KnowingNothingIsNothing) { EXPECT_EQ(AvailableMemory(root_ / "nowhere"), 0u); }

TEST_F(MemoryLimitTest, AGroupLeavesWhatIsNeitherTakenNorReclaimable) {
  UseVersionTwo("/job");
  GroupTwo("/job", std::to_string(1000 * kMiB), 700 * kMiB, 500 * kMiB);
  EXPECT_EQ(Available(), 800 * kMiB);
  UseVersionOne("/job");
  GroupOne("/job", 900 * kMiB, 600 * kMiB, 100 * kMiB);
  EXPECT_EQ(Available(), 400 * kMiB);
}

TEST_F(MemoryLimitTest, TheTightestGroupUpTheTreeCounts) {
  UseVersionTwo("/slice/service/job");
  GroupTwo("/slice/service/job", "max", 10 * kMiB, 0);
  GroupTwo("/slice/service", std::to_string(300 * kMiB), 100 * kMiB, 50 * kMiB);
  GroupTwo("/slice", std::to_string(2000 * kMiB), 100 * kMiB, 0);
  EXPECT_EQ(Available(), 250 * kMiB);
  Write("sys/fs/cgroup/slice/memory.high", std::to_string(150 * kMiB));
  EXPECT_EQ(Available(), 50 * kMiB) << "the soft limit throttles too";
}

TEST_F(MemoryLimitTest, TheMountedGroupItselfCounts) {
  UseVersionTwo("/");
  GroupTwo("", std::to_string(64 * kMiB), 0, 0);
  EXPECT_EQ(Available(), 64 * kMiB);
}

TEST_F(MemoryLimitTest, InsideAContainerTheMountStartsAtItsGroup) {
  UseVersionOne("/docker/abc/inner", "/docker/abc");
  GroupOne("/inner", 500 * kMiB, 0, 0);
  GroupOne("", 200 * kMiB, 0, 0);
  EXPECT_EQ(Available(), 200 * kMiB);
}

TEST_F(MemoryLimitTest, AFullGroupLeavesNothing) {
  UseVersionTwo("/job");
  GroupTwo("/job", std::to_string(100 * kMiB), 120 * kMiB, 0);
  EXPECT_EQ(Available(), 0u);
  GroupTwo("/job", std::to_string(100 * kMiB), 10 * kMiB, 999 * kMiB);
  EXPECT_EQ(Available(), 100 * kMiB) << "never more than the limit";
}

TEST_F(MemoryLimitTest, NonsenseIsIgnored) {
  UseVersionTwo("/../..//x/");
  Write("proc/self/mountinfo",
        "\n - \n1 2 3 - cgroup2\nx - cgroup2 a b\n30 24 0:26 / /sys/fs/cgroup rw - cgroup2 c rw\n");
  Write("proc/self/cgroup", "\n::\n0:\n0::no/slash\n");
  Write("sys/fs/cgroup/memory.max", "12monkeys");
  EXPECT_LE(Available(), uint64_t{8192000} * 1024);
}

TEST(ThisMachineTest, HasMemory) { EXPECT_GT(AvailableMemory(), 0u); }

}  // namespace
}  // namespace pcrfs
