// The daemon is killed again and again while processes read, and mounted anew on the dead mount point: nobody reads a
// wrong byte, and in the end nothing is left. $PCRFS_KILL_CYCLES: how often (5).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mount/mount_point.h"
#include "tests/support/fork.h"
#include "tests/support/mount_fixture.h"
#include "tests/support/shown_files.h"

namespace pcrfs {
namespace {

using testing::BackgroundMount;
using testing::Eventually;
using testing::FilesBelow;
using testing::PackedPhotos;
using testing::ShownFiles;

int Cycles() {
  const char* text = std::getenv("PCRFS_KILL_CYCLES");
  return text == nullptr ? 5 : std::atoi(text);
}

// Of the mount point when nothing, a dead mount or a mount that is dying is there.
bool IsOfADeadMount(int error) { return error == ENOTCONN || error == EIO || error == ECONNABORTED || error == ENOENT; }

// Shared between the processes.
struct Counts {
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> right{0}, refused{0}, wrong{0};
  std::atomic<int> odd_error{0};  // the last errno that no dead mount gives
};

// Processes that read and compare until told to stop.
class Readers {
 public:
  Readers(const ShownFiles& shown, const std::string& mount, int count)
      : counts_(new (mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Counts) {
    for (int i = 0; i < count; ++i) {
      const pid_t child = testing::Fork();
      if (child == 0) {
        Read(shown, mount, static_cast<unsigned>(i));
        _exit(0);
      }
      children_.push_back(child);
    }
  }
  ~Readers() {
    Stop();
    munmap(counts_, sizeof(Counts));
  }
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;

  [[nodiscard]] const Counts& counts() const { return *counts_; }

  void Stop() {
    counts_->stop = true;
    for (const pid_t child : std::exchange(children_, {})) {
      int status = 1;
      waitpid(child, &status, 0);
      EXPECT_EQ(status, 0) << "a reader died";
    }
  }

 private:
  void Read(const ShownFiles& shown, const std::string& mount, unsigned seed) const {
    std::mt19937_64 random(seed);
    while (!counts_->stop) {
      const unsigned what = random() % 8;
      const int result = what == 0   ? shown.ListSome(mount, random)
                         : what == 1 ? shown.StatSome(mount, random)
                                     : shown.ReadSome(mount, random);
      ++(result == 0 ? counts_->right : result == ShownFiles::kWrong ? counts_->wrong : counts_->refused);
      if (result > 0 && !IsOfADeadMount(result)) counts_->odd_error = result;
    }
  }

  Counts* counts_;
  std::vector<pid_t> children_;
};

class KillTest : public ::testing::Test {
 protected:
  KillTest() : photos_({.classes = 3, .images_per_class = 4}, FewImagesAShard()) {}

  static PackOptions FewImagesAShard() {
    PackOptions options;
    options.record_images = 4;
    return options;
  }

  void Mount() {
    const auto mounted = photos_.Pcrfs({"mount", photos_.dataset(), photos_.mount_point()});
    EXPECT_EQ(mounted.status, 0) << mounted.err;
  }
  void KillAll() {
    for (const pid_t process : testing::ProcessesOf(photos_.mount_point())) kill(process, SIGKILL);
  }
  // A mount command that is killed, with the daemon that it starts, somewhere on its way.
  void KillWhileItMounts(std::chrono::microseconds after) {
    std::thread mounting([&] { (void)photos_.Pcrfs({"mount", photos_.dataset(), photos_.mount_point()}); });
    std::this_thread::sleep_for(after);
    while (testing::ProcessesOf(photos_.mount_point()).empty() && !FindMount(photos_.mount_point()))
      std::this_thread::yield();
    KillAll();
    mounting.join();
    KillAll();  // what it started last
  }

  void ExpectNothingLeft() {
    EXPECT_FALSE(FindMount(photos_.mount_point()));
    EXPECT_TRUE(Eventually([&] { return testing::ProcessesOf(photos_.mount_point()).empty(); }));
    for (const std::string& path : FilesBelow(photos_.cache()))
      EXPECT_THAT(path, ::testing::ContainsRegex("/(catalog.mdb|catalog.head|lock)$"));
    EXPECT_TRUE(std::filesystem::is_empty(photos_.mount_point()));
  }

  PackedPhotos photos_;
  std::mt19937_64 random_{99};
};

TEST_F(KillTest, KilledUnderLoadAndMountedAgainNobodyReadsAWrongByte) {
  const std::string dataset_before = testing::RunProgram({"ls", "-l", photos_.dataset()}).out;
  Mount();
  const ShownFiles shown(photos_.mount_point(), {1, 5, 10});
  ASSERT_GT(shown.files().size(), 30u);
  Readers readers(shown, photos_.mount_point(), 4);
  const Counts& counts = readers.counts();
  for (int cycle = 0; cycle < Cycles() && !HasFailure(); ++cycle) {
    const uint64_t before = counts.right;
    EXPECT_TRUE(Eventually([&] { return counts.right > before + 50; })) << "readers read, cycle " << cycle;
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 30'000));
    KillAll();
    if (cycle % 3 == 1) {
      if (cycle % 2 == 0) std::filesystem::remove_all(photos_.cache());  // so that the catalog is being built
      KillWhileItMounts(std::chrono::microseconds(random_() % 20'000));
    }
    Mount();
  }
  const uint64_t before = counts.right;
  EXPECT_TRUE(Eventually([&] { return counts.right > before + 50; }));
  readers.Stop();
  EXPECT_EQ(counts.wrong, 0u);
  EXPECT_EQ(counts.odd_error, 0) << std::strerror(counts.odd_error);
  EXPECT_GT(counts.refused, 0u) << "the readers were there when it died";
  std::printf("%d cycles: %lu reads right, %lu refused\n", Cycles(), static_cast<unsigned long>(counts.right),
              static_cast<unsigned long>(counts.refused));
  EXPECT_EQ(photos_.Pcrfs({"umount", photos_.mount_point()}).status, 0);
  ExpectNothingLeft();
  EXPECT_EQ(testing::RunProgram({"ls", "-l", photos_.dataset()}).out, dataset_before);
}

// SIGTERM is how a service manager ends it.
TEST_F(KillTest, SigtermUnderLoadEndsItAndLeavesNothing) {
  for (int round = 0; round < 3; ++round) {
    Mount();
    const ShownFiles shown(photos_.mount_point(), {1, 10});
    Readers readers(shown, photos_.mount_point(), 8);
    EXPECT_TRUE(Eventually([&] { return readers.counts().right > 200; }));
    for (const pid_t daemon : testing::ProcessesOf(photos_.mount_point())) kill(daemon, SIGTERM);
    EXPECT_TRUE(Eventually([&] { return testing::ProcessesOf(photos_.mount_point()).empty(); }));
    EXPECT_FALSE(FindMount(photos_.mount_point()));
    readers.Stop();
    EXPECT_EQ(readers.counts().wrong, 0u);
    EXPECT_EQ(readers.counts().odd_error, 0) << std::strerror(readers.counts().odd_error);
    ExpectNothingLeft();
  }
}

}  // namespace
}  // namespace pcrfs
