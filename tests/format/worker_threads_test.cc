#include "format/worker_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <stdexcept>
#include <thread>

namespace pcrfs {
namespace {

TEST(RunOnThreads, RunsOnAsManyAtOnceAndWaitsForAll) {
  std::barrier all_there(4);  // would wait for ever with fewer threads
  std::atomic<int> done = 0;
  RunOnThreads(4, [&] {
    all_there.arrive_and_wait();
    ++done;
  });
  EXPECT_EQ(done, 4);
}

TEST(RunOnThreads, OneIsTheCaller) {
  const auto caller = std::this_thread::get_id();
  RunOnThreads(1, [&] { EXPECT_EQ(std::this_thread::get_id(), caller); });
}

TEST(RunOnThreads, ZeroIsOneAProcessor) {
  std::atomic<unsigned> runs = 0;
  RunOnThreads(0, [&] { ++runs; });
  EXPECT_EQ(runs, std::max(1U, std::thread::hardware_concurrency()));
}

TEST(RunOnThreads, ThrowsOnWhatOneThrewAfterAllHaveEnded) {
  std::atomic<int> number = 0, ended = 0;
  EXPECT_THROW(RunOnThreads(3,
                            [&] {
                              if (number++ == 1) throw std::bad_alloc();
                              ++ended;
                            }),
               std::bad_alloc);
  EXPECT_EQ(ended, 2);
}

}  // namespace
}  // namespace pcrfs
