#include "cache/mapping_guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "format/file.h"
#include "tests/support/fork.h"
#include "tests/support/temp_dir.h"

namespace pcrfs {
namespace {

// A page that is mapped and behind the end of its file.
class LostPage {
 public:
  LostPage() {
    testing::WriteFile(folder_ / "file", "");
    const UniqueFd fd(open((folder_ / "file").c_str(), O_RDONLY));
    page_ = mmap(nullptr, kSize, PROT_READ, MAP_SHARED, fd.get(), 0);
  }
  ~LostPage() { munmap(page_, kSize); }
  LostPage(const LostPage&) = delete;
  LostPage& operator=(const LostPage&) = delete;

  uint8_t Read() const { return *static_cast<const volatile uint8_t*>(page_); }

 private:
  static constexpr size_t kSize = 4096;
  testing::TempDir folder_;
  void* page_;
};

// Not a page that anything is mapped to.
uint8_t ReadNowhere() { return *reinterpret_cast<const volatile uint8_t*>(uintptr_t{64}); }

class MappingGuardTest : public ::testing::Test {
 protected:
  MappingGuardTest() { InstallMappingGuard(); }
  LostPage lost_;
};

TEST_F(MappingGuardTest, GivesUpWhereAPageCannotBeHad) {
  int steps = 0;
  EXPECT_TRUE(Guarded([&] { ++steps; }));
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(Guarded([&] {
      ++steps;
      (void)lost_.Read();
      steps = 1000;
    }));
    EXPECT_FALSE(Guarded([] { (void)ReadNowhere(); }));
    EXPECT_FALSE(Guarded([] { GiveUpGuarded(); }));
  }
  EXPECT_EQ(steps, 4);
}

TEST_F(MappingGuardTest, AnInnerGuardLeavesTheOuterOneInPlace) {
  bool inner = true, went_on = false;
  EXPECT_FALSE(Guarded([&] {
    inner = Guarded([&] { (void)lost_.Read(); });
    went_on = true;
    (void)lost_.Read();
  }));
  EXPECT_FALSE(inner);
  EXPECT_TRUE(went_on);
}

TEST_F(MappingGuardTest, EachThreadGuardsItself) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) EXPECT_FALSE(Guarded([&] { (void)lost_.Read(); }));
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(MappingGuardTest, OtherFaultsStillEndTheProcess) {
  const auto ends = [&](void (*body)(const LostPage&)) {
    const pid_t child = testing::Fork();
    if (child == 0) {
      close(STDERR_FILENO);  // a sanitizer says much about it
      body(lost_);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  };
  EXPECT_TRUE(ends([](const LostPage& lost) { (void)lost.Read(); }));
  EXPECT_TRUE(ends([](const LostPage&) { (void)ReadNowhere(); }));
  EXPECT_TRUE(ends([](const LostPage&) { raise(SIGSEGV); }));
  EXPECT_FALSE(ends([](const LostPage&) {}));
}

}  // namespace
}  // namespace pcrfs
