#include "fs/prefetcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "tests/support/faulty_source.h"

namespace pcrfs {
namespace {

using testing::FaultySource;

constexpr uint64_t kMiB = 1 << 20;

class PrefetcherTest : public ::testing::Test {
 protected:
  PrefetcherTest() {
    for (int i = 0; i < 4; ++i) shards_.push_back(std::make_shared<FaultySource>("shard", Bytes()));
  }

  Prefetcher::Request Prefix(size_t position, uint64_t end, bool anew = false) {
    return {position, shards_[position], 0, end, anew};
  }
  uint64_t Asked(size_t position) const {
    uint64_t bytes = 0;
    for (const testing::ReadRequest& request : shards_[position]->advices()) bytes += request.size;
    return bytes;
  }

  std::vector<std::shared_ptr<FaultySource>> shards_;
  std::vector<Prefetcher::Request> refused_;  // looked at after Drain
  std::atomic<bool> idle_{false};             // all shards but the last
  Prefetcher prefetcher_{{[] { return 10 * kMiB; },
                          [this](size_t position) {
                            const auto now = Prefetcher::Clock::now();
                            return idle_ && position != 3 ? now - 2 * Prefetcher::kIdle : now;
                          },
                          [this](const auto& request) { refused_.push_back(request); }}};
};

TEST_F(PrefetcherTest, PrefixesOfIdleShardsMakeRoom) {
  prefetcher_.Ask(Prefix(0, 4 * kMiB));
  prefetcher_.Ask(Prefix(1, 4 * kMiB));
  prefetcher_.Drain();
  idle_ = true;
  prefetcher_.Ask(Prefix(3, 9 * kMiB));
  prefetcher_.Drain();
  EXPECT_EQ(Asked(0) + Asked(1), 8 * kMiB);
  EXPECT_EQ(Asked(3), 9 * kMiB);
}

TEST_F(PrefetcherTest, PrefixesInUseDoNot) {
  prefetcher_.Ask(Prefix(3, 4 * kMiB));
  prefetcher_.Drain();
  idle_ = true;
  prefetcher_.Ask(Prefix(1, 7 * kMiB));
  prefetcher_.Ask(Prefix(2, 6 * kMiB));
  prefetcher_.Drain();
  EXPECT_EQ(Asked(1), 0u) << "4 + 7 are too many";
  EXPECT_EQ(Asked(2), 6 * kMiB) << "4 + 6 fit exactly";
}

TEST_F(PrefetcherTest, SaysWhatItRefused) {
  Prefetcher::Request request = Prefix(2, 11 * kMiB);
  request.level_before = 4;
  prefetcher_.Ask(request);
  prefetcher_.Ask(Prefix(1, 10 * kMiB));
  prefetcher_.Drain();
  ASSERT_EQ(refused_.size(), 1u);
  EXPECT_EQ(refused_[0].position, 2u);
  EXPECT_EQ(refused_[0].level_before, 4);
}

TEST_F(PrefetcherTest, AShardThatWasIdleIsAskedForAnew) {
  prefetcher_.Ask(Prefix(0, 4 * kMiB));
  prefetcher_.Ask(Prefix(0, 4 * kMiB));
  prefetcher_.Drain();
  EXPECT_EQ(Asked(0), 4 * kMiB);
  for (int i = 0; i < 3; ++i) prefetcher_.Ask(Prefix(0, 4 * kMiB, /*anew=*/true));
  prefetcher_.Ask(Prefix(1, 6 * kMiB));
  prefetcher_.Drain();
  EXPECT_EQ(Asked(0), 16 * kMiB);
  EXPECT_EQ(Asked(1), 6 * kMiB) << "what was asked for anew is counted once";
}

TEST_F(PrefetcherTest, AShardThatWasClosedIsLetBe) {
  prefetcher_.Ask(Prefix(0, 4 * kMiB));
  prefetcher_.Drain();
  Prefetcher::Request request = Prefix(1, 4 * kMiB);
  shards_[1].reset();
  prefetcher_.Ask(request);
  prefetcher_.Drain();
}

TEST_F(PrefetcherTest, AsksLowestFirst) {
  prefetcher_.Ask(Prefix(0, 3 * kMiB + 5));
  prefetcher_.Drain();
  uint64_t at = 0;
  for (const testing::ReadRequest& request : shards_[0]->advices()) {
    EXPECT_EQ(request.offset, at);
    at += request.size;
  }
  EXPECT_EQ(at, 3 * kMiB + 5);
}

}  // namespace
}  // namespace pcrfs
