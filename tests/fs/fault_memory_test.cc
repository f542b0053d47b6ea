#include "fs/fault_memory.h"

#include <gtest/gtest.h>

namespace pcrfs {
namespace {

using namespace std::chrono_literals;

constexpr ShardPlace kBlock{3, 1000, 2000};
const Error kError{ErrorCode::kDamaged, "bad block"}, kUnreadable{ErrorCode::kIo, "bad sector"};

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
  EXPECT_EQ(memory_.Find(kBlock, now_)->message, "bad block");
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
  for (uint64_t i = 0; i < 10'000; ++i) ASSERT_TRUE(memory_.Remember({1, 10 * i, 10 * i + 10}, kError, now_));
  EXPECT_FALSE(memory_.Remember({1, 100'000, 100'010}, kError, now_));
  EXPECT_FALSE(Bad(1, 100'000, 100'010));
  memory_.Forget({1, 17, 18});
  EXPECT_TRUE(memory_.Remember({1, 100'000, 100'010}, kError, now_));
}

TEST_F(FaultMemoryTest, AShardFullOfBadBlocksDoesNotHideTheFirstOfAnother) {
  for (uint64_t i = 0; i < 10'000; ++i) ASSERT_TRUE(memory_.Remember({1, 10 * i, 10 * i + 10}, kError, now_));
  for (const uint64_t other : {uint64_t{0}, uint64_t{2}}) {
    EXPECT_TRUE(memory_.Remember({other, 0, 10}, kError, now_));
    EXPECT_TRUE(Bad(other, 0, 10));
    EXPECT_FALSE(memory_.Remember({other, 10, 20}, kError, now_));
  }
  EXPECT_TRUE(memory_.Remember({3, 0, 10}, kUnreadable, now_));
}

TEST_F(FaultMemoryTest, AShardThatCannotBeReadIsToldOnceWhereverItIsRead) {
  EXPECT_TRUE(memory_.Remember({3, 0, 10}, kUnreadable, now_));
  for (uint64_t i = 1; i < 100; ++i) {
    EXPECT_FALSE(memory_.Remember({3, 10 * i, 10 * i + 10}, kUnreadable, now_));
    EXPECT_TRUE(Bad(3, 10 * i, 10 * i + 10)) << "but remembered";
  }
  EXPECT_FALSE(memory_.Remember(ShardPlace::Whole(3), kUnreadable, now_)) << "nor can it be opened";
  EXPECT_TRUE(memory_.Remember({4, 0, 10}, kUnreadable, now_)) << "another shard";
  EXPECT_TRUE(memory_.Remember({3, 5000, 5010}, kError, now_)) << "a bad block is told for itself";
  memory_.Forget({3, 5000, 5010});
  EXPECT_FALSE(memory_.Remember({3, 2000, 2010}, kUnreadable, now_)) << "it is not read again by that";
  memory_.Forget({3, 10, 20});
  EXPECT_TRUE(memory_.Remember({3, 2000, 2010}, kUnreadable, now_));
}

}  // namespace
}  // namespace pcrfs
