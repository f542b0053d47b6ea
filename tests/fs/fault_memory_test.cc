#include "fs/fault_memory.h"

#include <gtest/gtest.h>

namespace pcrfs {
namespace {

using namespace std::chrono_literals;

constexpr ShardPlace kBlock{3, 1000, 2000};
const Error kError{ErrorCode::kIo, "bad sector"};

class FaultMemoryTest : public ::testing::Test {
 protected:
  [[nodiscard]] bool Bad(uint64_t shard, uint64_t begin, uint64_t end) const {
    return memory_.Find({shard, begin, end}, now_).has_value();
  }

  FaultMemory memory_{1s};
  FaultMemory::Clock::time_point now_ = FaultMemory::Clock::now();
};

TEST_F(FaultMemoryTest, KnowsWhatOverlapsABadPlace) {
  EXPECT_TRUE(memory_.empty());
  EXPECT_TRUE(memory_.Remember(kBlock, kError, now_));
  EXPECT_FALSE(memory_.empty());
  EXPECT_TRUE(Bad(3, 1000, 2000));
  EXPECT_TRUE(Bad(3, 0, 1001));
  EXPECT_TRUE(Bad(3, 1999, 5000));
  EXPECT_TRUE(Bad(3, 1500, 1501));
  EXPECT_TRUE(Bad(3, 0, 9000));
  EXPECT_FALSE(Bad(3, 0, 1000));
  EXPECT_FALSE(Bad(3, 2000, 3000));
  EXPECT_FALSE(Bad(2, 1000, 2000));
  EXPECT_FALSE(Bad(4, 1000, 2000));
  EXPECT_EQ(memory_.Find(kBlock, now_)->message, "bad sector");
}

TEST_F(FaultMemoryTest, ForgetsToRefuseButNotThatItWasTold) {
  EXPECT_TRUE(memory_.Remember(kBlock, kError, now_));
  EXPECT_FALSE(memory_.Remember(kBlock, kError, now_));
  now_ += 999ms;
  EXPECT_TRUE(Bad(3, 1000, 2000));
  now_ += 1ms;
  EXPECT_FALSE(Bad(3, 1000, 2000));
  EXPECT_FALSE(memory_.Remember(kBlock, kError, now_)) << "it was told of";
  EXPECT_TRUE(Bad(3, 1000, 2000));
}

TEST_F(FaultMemoryTest, WhatWasReadAgainIsToldAgain) {
  EXPECT_TRUE(memory_.Remember(kBlock, kError, now_));
  EXPECT_TRUE(memory_.Remember({3, 2000, 2500}, kError, now_));
  memory_.Forget({3, 1900, 2000});
  EXPECT_FALSE(Bad(3, 1000, 2000));
  EXPECT_TRUE(Bad(3, 2000, 2500));
  EXPECT_TRUE(memory_.Remember(kBlock, kError, now_));
  memory_.Forget({3, 0, 9999});
  EXPECT_TRUE(memory_.empty());
}

TEST_F(FaultMemoryTest, AWholeShardIsAPlaceOfItsOwn) {
  EXPECT_TRUE(memory_.Remember(ShardPlace::Whole(3), kError, now_));
  EXPECT_TRUE(memory_.Find(ShardPlace::Whole(3), now_));
  EXPECT_FALSE(memory_.Find(ShardPlace::Whole(2), now_));
  EXPECT_FALSE(Bad(3, 0, uint64_t{1} << 42));
  memory_.Forget({3, 0, uint64_t{1} << 42});
  EXPECT_TRUE(memory_.Find(ShardPlace::Whole(3), now_));
  memory_.Forget(ShardPlace::Whole(3));
  EXPECT_TRUE(memory_.empty());
}

TEST_F(FaultMemoryTest, IsBounded) {
  for (uint64_t i = 0; i < 10'000; ++i) ASSERT_TRUE(memory_.Remember({i, 0, 10}, kError, now_));
  EXPECT_FALSE(memory_.Remember({10'000, 0, 10}, kError, now_));
  EXPECT_FALSE(Bad(10'000, 0, 10));
  memory_.Forget({17, 0, 1});
  EXPECT_TRUE(memory_.Remember({10'000, 0, 10}, kError, now_));
}

}  // namespace
}  // namespace pcrfs
