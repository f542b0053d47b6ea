#include "mount/read_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/support/mount_fixture.h"

namespace pcrfs {
namespace {

using testing::Eventually;
using namespace std::chrono_literals;

// A read that runs until it is let go.
class HeldRead final : public ReadQueue::Read {
 public:
  void Run() override {
    if (answer_ >= 0) return;
    std::unique_lock lock(mutex_);
    ran_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return let_go_; });
    if (answer_ < 0) answer_ = 0;
  }
  [[nodiscard]] bool Abandoned() const override { return abandoned_ && answer_ < 0; }
  void Cancel(int number) override {
    if (answer_ < 0) answer_ = number;
  }

  void LetGo() {
    {
      const std::lock_guard lock(mutex_);
      let_go_ = true;
    }
    changed_.notify_all();
  }
  void Abandon() { abandoned_ = true; }
  [[nodiscard]] bool runs() {
    const std::lock_guard lock(mutex_);
    return ran_;
  }
  // -1: none yet.
  [[nodiscard]] int answer() const { return answer_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ran_ = false, let_go_ = false;
  std::atomic<bool> abandoned_{false};
  std::atomic<int> answer_{-1};
};

class ReadQueueTest : public ::testing::Test {
 protected:
  ~ReadQueueTest() override {
    for (const auto& read : reads_) read->LetGo();
    for (std::thread& thread : threads_) thread.join();
  }

  // Submits `count` reads, each from a thread of its own, in this order.
  void Submit(int count) {
    for (int i = 0; i < count; ++i) {
      const auto read = reads_.emplace_back(std::make_shared<HeldRead>());
      std::atomic<bool>& back = returned_.emplace_back(false);
      threads_.emplace_back([this, &back, read] {
        queue_.Submit(read);
        back = true;
      });
      ASSERT_TRUE(Eventually([&] { return read->runs() || back; }));
    }
  }

  ReadQueue queue_;
  std::vector<std::shared_ptr<HeldRead>> reads_;
  std::deque<std::atomic<bool>> returned_;
  std::vector<std::thread> threads_;
};

TEST_F(ReadQueueTest, SomeWorkersAreAlwaysKeptFree) {
  EXPECT_EQ(ReadQueue::ReadsAtOnce(1), 1u);
  EXPECT_EQ(ReadQueue::ReadsAtOnce(2), 1u);
  EXPECT_EQ(ReadQueue::ReadsAtOnce(4), 3u);
  EXPECT_EQ(ReadQueue::ReadsAtOnce(10), 8u);
  EXPECT_EQ(ReadQueue::ReadsAtOnce(256), 248u);
}

TEST_F(ReadQueueTest, ThreadsOfReadsThatMustWaitGoBack) {
  queue_.Allow(3);
  Submit(10);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(reads_[i]->runs(), i < 3) << i;
    EXPECT_EQ(returned_[i], i >= 3) << i;
  }
}

TEST_F(ReadQueueTest, WhoeverEndsAReadGoesOnWithTheOneThatWaitsLongest) {
  queue_.Allow(2);
  Submit(6);
  reads_[1]->LetGo();
  ASSERT_TRUE(Eventually([&] { return reads_[2]->runs(); }));
  EXPECT_FALSE(reads_[3]->runs());
  EXPECT_FALSE(returned_[1]);
  for (size_t i = 2; i < 6; ++i) {
    ASSERT_TRUE(Eventually([&] { return reads_[i]->runs(); })) << i;
    reads_[i]->LetGo();
  }
  ASSERT_TRUE(Eventually([&] { return returned_[1].load(); }));
  EXPECT_FALSE(returned_[0]);
}

TEST_F(ReadQueueTest, ReadsThatNobodyWaitsForAreCancelled) {
  queue_.Allow(1);
  Submit(3);
  reads_[0]->Abandon();  // it runs
  reads_[1]->Abandon();  // it waits
  const auto begin = std::chrono::steady_clock::now();
  queue_.Look();
  EXPECT_TRUE(Eventually([&] { return reads_[0]->answer() == EINTR && reads_[1]->answer() == EINTR; }));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  EXPECT_EQ(reads_[2]->answer(), -1);
  reads_[0]->LetGo();
  EXPECT_TRUE(Eventually([&] { return reads_[2]->runs(); }));
  EXPECT_FALSE(reads_[1]->runs());
}

TEST_F(ReadQueueTest, ReadersThatAreKilledLaterAreFoundWithoutBeingTold) {
  queue_.Allow(1);
  Submit(2);
  std::this_thread::sleep_for(2 * ReadQueue::kPatience);
  reads_[0]->Abandon();
  reads_[1]->Abandon();
  EXPECT_TRUE(Eventually([&] { return reads_[0]->answer() == EINTR && reads_[1]->answer() == EINTR; }));
}

TEST_F(ReadQueueTest, AfterTheEndNothingWaitsAndNothingIsTaken) {
  queue_.Allow(1);
  Submit(3);
  queue_.Refuse();
  EXPECT_EQ(reads_[0]->answer(), -1) << "it runs, and may end";
  EXPECT_EQ(reads_[1]->answer(), EIO);
  EXPECT_EQ(reads_[2]->answer(), EIO);
  Submit(1);
  EXPECT_EQ(reads_[3]->answer(), EIO);
  EXPECT_FALSE(reads_[3]->runs());
  reads_[0]->LetGo();
  EXPECT_TRUE(Eventually([&] { return returned_[0].load(); }));
  EXPECT_EQ(reads_[0]->answer(), 0);
  queue_.End();
}

TEST_F(ReadQueueTest, ManyThreadsSubmitManyReads) {
  struct Quick final : ReadQueue::Read {
    Quick(std::atomic<int>& now_running, std::atomic<int>& all_run) : running(now_running), ran(all_run) {}
    void Run() override {
      EXPECT_LE(++running, 5);
      if (ran % 7 == 0) std::this_thread::yield();
      --running;
      ++ran;
    }
    [[nodiscard]] bool Abandoned() const override { return false; }
    void Cancel(int) override {}
    std::atomic<int>&running, &ran;
  };
  std::atomic<int> running{0}, ran{0};
  {
    queue_.Allow(5);
    for (int t = 0; t < 8; ++t)
      threads_.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) {
          queue_.Submit(std::make_shared<Quick>(running, ran));
          if (i % 50 == 0) queue_.Look();
        }
      });
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  EXPECT_EQ(ran, 8000) << "none is left in the queue";
}

}  // namespace
}  // namespace pcrfs
