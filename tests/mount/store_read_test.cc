// A READ that waits for the store, interrupted: the kernel's side and the store's are played by the test.
#include "mount/store_read.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

#include "tests/mount/fake_kernel.h"
#include "tests/support/fork.h"
#include "tests/support/mount_fixture.h"

namespace pcrfs {
namespace {

using testing::Eventually;
using testing::FakeKernel;
using testing::PackedPhotos;
using testing::WrappedSource;

class StoreReadTest : public ::testing::Test {
 protected:
  StoreReadTest() {
    kernel_.Init(0);
    uint64_t node = 35;
    for (const char* name : {"n00", "0.jpg"}) node = kernel_.Lookup(node, name).As<fuse_entry_out>().nodeid;
    file_ = node;
  }

  FakeKernel::Answer ReadWhile(const std::function<void()>& store) {
    store_ = store;
    return kernel_.Read(file_, 0, 300);
  }

  // Calls what the test has set before each read of a shard, once.
  std::unique_ptr<ByteSource> Wrapped(std::unique_ptr<ByteSource> shard) {
    return std::make_unique<WrappedSource>(std::move(shard),
                                           WrappedSource::Hooks{[this](uint64_t, uint64_t) {
                                                                  if (const auto once = std::exchange(store_, nullptr))
                                                                    once();
                                                                  return Result<void>();
                                                                },
                                                                {},
                                                                {}});
  }

  PackedPhotos photos_;
  std::function<void()> store_;
  std::unique_ptr<FileSystem> files_ = testing::OpenFileSystem(
      photos_, {}, [](const Error&, auto) {}, [this](auto shard) { return Wrapped(std::move(shard)); });
  MountState state_{*files_};
  FakeKernel kernel_{FuseOps(), &state_};
  uint64_t file_ = 0;
};

// A process with a fatal signal pending.
class Dying {
 public:
  Dying() : child_(testing::Fork()) {
    if (child_ == 0) {
      raise(SIGSTOP);
      _exit(0);
    }
    waitpid(child_, nullptr, WUNTRACED);
    kill(child_, SIGTERM);
  }
  ~Dying() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  [[nodiscard]] pid_t pid() const { return child_; }

 private:
  pid_t child_;
};

TEST_F(StoreReadTest, AnswersWhatTheStoreGives) {
  const auto answer = ReadWhile([] {});
  EXPECT_EQ(answer.error, 0);
  EXPECT_EQ(answer.body.size(), 300u);
  EXPECT_EQ(answer.body[0], 0xFF);
}

TEST_F(StoreReadTest, AnInterruptedReadOfADyingReaderIsAnsweredWhileTheStoreHangs) {
  const Dying reader;
  kernel_.ActAsThread(reader.pid());
  const auto begin = std::chrono::steady_clock::now();
  const auto answer = ReadWhile([&] {
    kernel_.Interrupt();
    EXPECT_TRUE(Eventually([&] { return kernel_.answered() == 1; }));
  });
  EXPECT_EQ(answer.error, EINTR) << "and no second answer when the store had given in";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_F(StoreReadTest, OneThatIsNotInterruptedIsFoundAsWell) {
  const Dying reader;
  kernel_.ActAsThread(reader.pid());
  EXPECT_EQ(ReadWhile([&] { EXPECT_TRUE(Eventually([&] { return kernel_.answered() == 1; })); }).error, EINTR);
}

TEST_F(StoreReadTest, AReaderThatLivesOnGetsItsBytes) {
  kernel_.ActAsThread(getpid());
  const auto answer = ReadWhile([&] {
    kernel_.Interrupt();
    std::this_thread::sleep_for(2 * ReadQueue::kPatience);
  });
  EXPECT_EQ(answer.error, 0);
  EXPECT_EQ(answer.body.size(), 300u);
}

TEST_F(StoreReadTest, AnExceptionIsAnErrorAndNothingMore) {
  EXPECT_EQ(ReadWhile([] { throw std::bad_alloc(); }).error, ENOMEM);
  EXPECT_EQ(ReadWhile([] { throw 1; }).error, EIO);
  EXPECT_EQ(ReadWhile([] {}).error, 0);
}

}  // namespace
}  // namespace pcrfs
