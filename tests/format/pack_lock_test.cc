#include "format/pack_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "tests/support/fork.h"
#include "tests/support/temp_dir.h"

namespace pcrfs {
namespace {

using testing::TempDir;

TEST(PackLock, IsHeldOnceAndLeavesNothing) {
  TempDir dir;
  {
    auto lock = PackLock::Acquire(dir.path());
    ASSERT_TRUE(lock) << lock.error().message;
    auto second = PackLock::Acquire(dir.path());
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kBusy);
    EXPECT_TRUE(std::filesystem::exists(dir / "pack.lock"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  EXPECT_TRUE(PackLock::Acquire(dir.path()));
}

TEST(PackLock, OfAKilledProcessIsTakenOver) {
  TempDir dir;
  const pid_t child = testing::Fork();
  if (child == 0) {
    auto lock = PackLock::Acquire(dir.path());
    kill(getpid(), SIGKILL);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  ASSERT_TRUE(std::filesystem::exists(dir / "pack.lock"));
  EXPECT_TRUE(PackLock::Acquire(dir.path()));
}

TEST(PackLock, NeverHasTwoHoldersWhileItsFileComesAndGoes) {
  TempDir dir;
  std::atomic<int> holders = 0, taken = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 4000; ++round)
        if (auto lock = PackLock::Acquire(dir.path())) {
          EXPECT_EQ(++holders, 1);
          std::this_thread::yield();
          ++taken;
          --holders;
        }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(taken, 100);
}

TEST(PackLock, OneWhoseFileWasRemovedKnowsItAndLeavesTheNextHolderAlone) {
  TempDir dir;
  std::optional<PackLock> next;
  {
    const auto lock = PackLock::Acquire(dir.path());
    ASSERT_TRUE(lock);
    EXPECT_TRUE(lock->CheckHeld());
    std::filesystem::remove(dir / "pack.lock");
    EXPECT_EQ(lock->CheckHeld().error().code, ErrorCode::kBusy);
    auto second = PackLock::Acquire(dir.path());
    ASSERT_TRUE(second);
    next.emplace(*std::move(second));
    EXPECT_EQ(lock->CheckHeld().error().code, ErrorCode::kBusy);
  }
  EXPECT_TRUE(next->CheckHeld());
  EXPECT_EQ(PackLock::Acquire(dir.path()).error().code, ErrorCode::kBusy);
}

TEST(PackLock, IsNotTakenThroughALink) {
  TempDir dir, other;
  ASSERT_EQ(symlink((other / "victim").c_str(), (dir / "pack.lock").c_str()), 0);
  EXPECT_FALSE(PackLock::Acquire(dir.path()));
  EXPECT_TRUE(std::filesystem::is_empty(other.path()));
}

TEST(PackLock, NamesTheFolderThatIsNotThere) {
  TempDir dir;
  auto lock = PackLock::Acquire(dir / "missing");
  ASSERT_FALSE(lock);
  EXPECT_EQ(lock.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace pcrfs
