#include "mount/mount_point.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "format/file.h"
#include "tests/support/temp_dir.h"

namespace pcrfs {
namespace {

using ::testing::HasSubstr;

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
  const UniqueFd fuse(open("/dev/fuse", O_RDWR | O_CLOEXEC)), other(open("/dev/null", O_RDWR | O_CLOEXEC));
  const auto name = [](const UniqueFd& fd) { return "/dev/fd/" + std::to_string(fd.get()); };
  EXPECT_EQ(ResolveMountPoint(name(fuse)), name(fuse));
  EXPECT_EQ(ResolveMountPoint(name(other)).error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(ResolveMountPoint("/dev/fd/999").has_value());
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
