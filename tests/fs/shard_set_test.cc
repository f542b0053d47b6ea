#include "fs/shard_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "tests/support/faulty_source.h"
#include "tests/support/temp_dir.h"

namespace pcrfs {
namespace {

using ::testing::ElementsAre;
using testing::FaultySource;
using ::testing::HasSubstr;
using testing::ReadRequest;

constexpr uint64_t kSize = 4'000'000;

// Asks again and again, for ten seconds at most, until it is so.
bool Eventually(const std::function<bool()>& is_so) {
  for (int i = 0; i < 1000 && !is_so(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return is_so();
}

// Shards of 4 MB whose groups 1, 2 and 3 end at 1, 2 and 3.5 MB.
class Shards {
 public:
  explicit Shards(size_t count) : sources_(count) {}

  [[nodiscard]] std::vector<ShardFacts> facts() const {
    std::vector<ShardFacts> facts;
    for (size_t i = 0; i < sources_.size(); ++i)
      facts.push_back({"PCR_" + std::to_string(i) + ".pcr", kSize, {1000, 1'000'000, 2'000'000, 3'500'000}});
    return facts;
  }
  ShardSet::Opener opener() {
    return [this](size_t position) -> Result<std::unique_ptr<ByteSource>> {
      ++opened_;
      if (open_ >= descriptors_) return Fail(ErrorCode::kShortage, "Too many open files");
      if (position == fails_) return Fail(ErrorCode::kIo, "cannot be opened");
      auto forwarding = std::make_unique<Forwarding>(*this, position);
      return std::unique_ptr<ByteSource>(std::move(forwarding));
    };
  }
  // What was asked for ahead of shard `position`, adjacent requests joined.
  [[nodiscard]] std::vector<ReadRequest> Advised(size_t position) {
    const std::lock_guard lock(mutex_);
    std::vector<ReadRequest> joined;
    for (const ReadRequest& request : sources_[position])
      if (!joined.empty() && joined.back().offset + joined.back().size == request.offset)
        joined.back().size += request.size;
      else
        joined.push_back(request);
    return joined;
  }
  [[nodiscard]] int opened() const { return opened_; }
  [[nodiscard]] int open() const { return open_; }
  void FailToOpen(size_t position) { fails_ = position; }
  void HaveDescriptors(int count) { descriptors_ = count; }
  void ShowSize(uint64_t size) { size_ = size; }
  [[nodiscard]] bool advising() const { return advising_; }
  // Read-ahead waits until Release.
  void Hold() { held_ = true; }
  void Release() {
    {
      const std::lock_guard lock(mutex_);
      held_ = false;
    }
    released_.notify_all();
  }

 private:
  class Forwarding final : public ByteSource {
   public:
    Forwarding(Shards& shards, size_t position) : shards_(shards), position_(position) { ++shards_.open_; }
    ~Forwarding() override { --shards_.open_; }
    [[nodiscard]] const std::string& name() const override { return name_; }
    [[nodiscard]] uint64_t size() const override { return shards_.size_; }
    [[nodiscard]] Result<void> ReadAt(uint64_t, MutableByteSpan) const override { return {}; }
    void WillNeed(uint64_t offset, uint64_t size) const override {
      shards_.advising_ = true;
      std::unique_lock lock(shards_.mutex_);
      shards_.released_.wait(lock, [this] { return !shards_.held_; });
      shards_.sources_[position_].push_back({offset, size});
    }

   private:
    Shards& shards_;
    size_t position_;
    std::string name_ = "a shard";
  };

  std::mutex mutex_;
  std::condition_variable released_;
  std::vector<std::vector<ReadRequest>> sources_;
  std::atomic<int> opened_{0}, open_{0};
  std::atomic<bool> advising_{false};
  int descriptors_ = INT_MAX;
  size_t fails_ = SIZE_MAX;
  uint64_t size_ = kSize;
  bool held_ = false;
};

ShardSetOptions Options(uint64_t memory, size_t max_open = 100) {
  return {max_open, [memory] { return memory; }};
}

constexpr uint64_t kPlenty = uint64_t{1} << 40;

TEST(ShardSetTest, OpensAShardWhenItIsFirstUsedAndKeepsIt) {
  Shards shards(3);
  ShardSet set(shards.facts(), shards.opener(), Options(kPlenty));
  EXPECT_EQ(shards.opened(), 0);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(set.Use(1, std::nullopt));
  EXPECT_EQ(shards.opened(), 1);
  EXPECT_EQ(set.size(), 3u);
  EXPECT_EQ(set.facts(2).name, "PCR_2.pcr");
  EXPECT_EQ(set.Use(3, std::nullopt).error().code, ErrorCode::kInvalidArgument);
}

TEST(ShardSetTest, ClosesShardsNotUsedLately) {
  Shards shards(20);
  ShardSet set(shards.facts(), shards.opener(), Options(kPlenty, 4));
  for (size_t round = 0; round < 5; ++round)
    for (size_t i = 1; i < 20; ++i) {
      ASSERT_TRUE(set.Use(0, std::nullopt));  // in use all the time
      ASSERT_TRUE(set.Use(i, std::nullopt));
      ASSERT_LE(shards.open(), 4);
    }
  EXPECT_LT(shards.opened(), 100) << "shard 0 hardly ever, or it were 190";
}

TEST(ShardSetTest, ASetThatStepsBackKeepsHalfAsManyOpenAndReadsAllTheSame) {
  Shards shards(20);
  ShardSet set(shards.facts(), shards.opener(), Options(kPlenty, 8));
  for (size_t i = 0; i < 20; ++i) ASSERT_TRUE(set.Use(i, std::nullopt));
  EXPECT_EQ(shards.open(), 8);
  set.StepBack();
  EXPECT_EQ(shards.open(), 4);
  for (size_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(set.Use(i, std::nullopt));
    ASSERT_LE(shards.open(), 4);
  }
}

TEST(ShardSetTest, AShardThatWasClosedStaysForWhoeverHoldsIt) {
  Shards shards(5);
  ShardSet set(shards.facts(), shards.opener(), Options(kPlenty, 1));
  const auto held = set.Use(0, std::nullopt);
  for (size_t i = 1; i < 5; ++i) ASSERT_TRUE(set.Use(i, std::nullopt));
  EXPECT_EQ(shards.open(), 2);
  EXPECT_TRUE((*held)->ReadAt(0, {}));
}

TEST(ShardSetTest, WithoutADescriptorLeftAShardThatNobodyReadsIsClosed) {
  Shards shards(20);
  shards.HaveDescriptors(5);
  ShardSet set(shards.facts(), shards.opener(), Options(kPlenty, 100));
  const auto held = set.Use(3, std::nullopt);
  for (int round = 0; round < 3; ++round)
    for (size_t i = 0; i < 20; ++i) {
      const auto used = set.Use(i, Level::Of<1>());
      ASSERT_TRUE(used) << used.error().message;
    }
  EXPECT_LE(shards.open(), 5);
  EXPECT_EQ(set.UseOpen(3, std::nullopt), *held) << "closing it would have given no descriptor back";
}

TEST(ShardSetTest, WithoutADescriptorLeftReadersAreWaitedForButNotForEver) {
  Shards shards(4);
  shards.HaveDescriptors(2);
  ShardSet set(shards.facts(), shards.opener(), Options(kPlenty, 100));
  auto one = set.Use(0, std::nullopt), other = set.Use(1, std::nullopt);
  std::thread reader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    one->reset();
  });
  auto third = set.Use(2, std::nullopt);
  reader.join();
  ASSERT_TRUE(third) << third.error().message;
  EXPECT_EQ(set.Use(3, std::nullopt).error().message, "Too many open files") << "the two others are held";
}

TEST(ShardSetTest, OpensTheLimitOfDescriptorsAsFarAsItGoes) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit lowered{std::min<rlim_t>(100, before.rlim_max), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &lowered), 0);
  Shards shards(1);
  const ShardSet set(shards.facts(), shards.opener(), Options(kPlenty, 0));
  rlimit after{};
  getrlimit(RLIMIT_NOFILE, &after);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(ShardSetTest, AShardOfAnotherSizeIsStale) {
  Shards shards(1);
  shards.ShowSize(kSize - 1);
  ShardSet set(shards.facts(), shards.opener(), Options(kPlenty));
  const auto used = set.Use(0, Level::Of<1>());
  ASSERT_FALSE(used);
  EXPECT_EQ(used.error().code, ErrorCode::kStale);
  EXPECT_THAT(used.error().message, HasSubstr("3999999"));
}

TEST(ShardSetTest, TriesAgainAfterAFailedOpen) {
  Shards shards(1);
  shards.FailToOpen(0);
  ShardSet set(shards.facts(), shards.opener(), Options(kPlenty));
  EXPECT_EQ(set.Use(0, Level::Of<1>()).error().message, "cannot be opened");
  shards.FailToOpen(SIZE_MAX);
  ASSERT_TRUE(set.Use(0, Level::Of<1>()));
  set.WaitForReadAhead();
  EXPECT_THAT(shards.Advised(0), ElementsAre(ReadRequest{1000, 999'000})) << "read-ahead was not lost";
}

TEST(ShardSetTest, TheFirstTouchOfALevelAsksForWhatIsMissingOfItsPrefix) {
  Shards shards(2);
  ShardSet set(shards.facts(), shards.opener(), Options(kPlenty));
  const auto use = [&](Level level) {
    ASSERT_TRUE(set.Use(0, level));
    set.WaitForReadAhead();
  };
  use(Level::Of<1>());
  EXPECT_THAT(shards.Advised(0), ElementsAre(ReadRequest{1000, 999'000}));
  use(Level::Of<1>());
  use(Level::Of<3>());
  use(Level::Of<2>());
  EXPECT_THAT(shards.Advised(0), ElementsAre(ReadRequest{1000, 3'499'000})) << "one after the other, nothing twice";
  use(Level::Of<10>());
  use(Level::Of<31>());
  EXPECT_THAT(shards.Advised(0), ElementsAre(ReadRequest{1000, 3'499'000})) << "there are no more groups";
  EXPECT_TRUE(shards.Advised(1).empty());
}

TEST(ShardSetTest, WithoutALevelNothingIsReadAhead) {
  Shards shards(1);
  ShardSet set(shards.facts(), shards.opener(), Options(kPlenty));
  ASSERT_TRUE(set.Use(0, std::nullopt));
  set.WaitForReadAhead();
  EXPECT_TRUE(shards.Advised(0).empty());
}

TEST(ShardSetTest, TheReaderDoesNotWaitForReadAhead) {
  Shards shards(1);
  shards.Hold();
  ShardSet set(shards.facts(), shards.opener(), Options(kPlenty));
  for (const int level : {1, 2, 3}) ASSERT_TRUE(set.Use(0, Level::FromNumber(level))) << "or this test hangs";
  EXPECT_TRUE(shards.Advised(0).empty());
  shards.Release();
  set.WaitForReadAhead();
  EXPECT_THAT(shards.Advised(0), ElementsAre(ReadRequest{1000, 3'499'000}));
}

TEST(ShardSetTest, AsksForNoMorePrefixesThanFitTheMemory) {
  Shards shards(6);
  ShardSet set(shards.facts(), shards.opener(), Options(3'100'000));
  for (size_t i = 0; i < 6; ++i) ASSERT_TRUE(set.Use(i, Level::Of<1>()));
  set.WaitForReadAhead();
  size_t asked = 0;
  for (size_t i = 0; i < 6; ++i) asked += shards.Advised(i).empty() ? size_t{0} : size_t{1};
  EXPECT_EQ(asked, 3u);
  ASSERT_TRUE(set.Use(0, Level::Of<3>()));
  set.WaitForReadAhead();
  EXPECT_THAT(shards.Advised(0), ElementsAre(ReadRequest{1000, 999'000})) << "its groups 2 and 3 do not fit";
}

TEST(ShardSetTest, WhatTheMemoryDidNotAllowIsAskedForAgainWhileTheShardIsUsed) {
  Shards shards(1);
  std::atomic<uint64_t> memory{1'500'000};
  ShardSet set(shards.facts(), shards.opener(), {100, [&] { return memory.load(); }});
  ASSERT_TRUE(set.Use(0, Level::Of<1>()));
  ASSERT_TRUE(set.Use(0, Level::Of<3>()));
  set.WaitForReadAhead();
  EXPECT_THAT(shards.Advised(0), ElementsAre(ReadRequest{1000, 999'000})) << "groups 2 and 3 did not fit";
  memory = kPlenty;
  const auto begin = std::chrono::steady_clock::now();
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ASSERT_TRUE(set.Use(0, Level::Of<3>()));
    set.WaitForReadAhead();
  } while (shards.Advised(0).front().size < 3'499'000 &&
           std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  EXPECT_THAT(shards.Advised(0), ElementsAre(ReadRequest{1000, 3'499'000}));
  EXPECT_GT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(900)) << "not at every use";
}

TEST(ShardSetTest, ItsEndDoesNotWaitForReadAheadThatHangs) {
  Shards shards(1);
  shards.Hold();
  auto set = std::make_unique<ShardSet>(shards.facts(), shards.opener(), Options(kPlenty));
  ASSERT_TRUE(set->Use(0, Level::Of<3>()));
  ASSERT_TRUE(Eventually([&] { return shards.advising(); }));
  const auto begin = std::chrono::steady_clock::now();
  set.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(shards.open(), 1) << "it hangs still";
  shards.Release();
  EXPECT_TRUE(Eventually([&] { return shards.open() == 0; }));
  EXPECT_TRUE(shards.Advised(0).size() == 1 && shards.Advised(0)[0].size <= 1 << 20) << "and goes on no further";
}

TEST(ShardSetTest, StopsInTheMidstOfReadAhead) {
  Shards shards(1);
  shards.Hold();
  auto set = std::make_unique<ShardSet>(shards.facts(), shards.opener(), Options(kPlenty));
  ASSERT_TRUE(set->Use(0, Level::Of<3>()));
  std::thread stopper([&] { set.reset(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  shards.Release();
  stopper.join();
  EXPECT_EQ(shards.open(), 0);
}

TEST(ShardSetTest, ManyThreadsUseManyShards) {
  Shards shards(50);
  ShardSet set(shards.facts(), shards.opener(), Options(kPlenty, 7));
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < 2000; ++i) {
        const auto shard = set.Use(random() % 50, Level::FromNumber(1 + static_cast<int>(random() % 3)));
        ASSERT_TRUE(shard);
        ASSERT_EQ((*shard)->size(), kSize);
      }
    });
  for (std::thread& thread : threads) thread.join();
  set.WaitForReadAhead();
  EXPECT_LE(shards.open(), 7);
}

}  // namespace
}  // namespace pcrfs
