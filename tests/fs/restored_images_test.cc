#include "fs/restored_images.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace pcrfs {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr milliseconds kNever = hours(1);

Bytes Content(uint64_t key, size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(key * 31 + i * 7 + i / 256);
  return bytes;
}

bool Eventually(const std::function<bool()>& is_so) {
  for (int i = 0; i < 2000 && !is_so(); ++i) std::this_thread::sleep_for(milliseconds(5));
  return is_so();
}

// Restores made up: counted, and held up while a test wants them to be.
class RestoredImagesTest : public ::testing::Test {
 protected:
  static constexpr size_t kSize = 1000;

  RestoredImages::Work Work(uint64_t key, uint64_t memory = 5000) {
    return {[memory]() -> Result<uint64_t> { return memory; },
            [this, key]() -> Result<Bytes> {
              ++running_;
              ++restores_;
              while (held_up_) std::this_thread::yield();
              --running_;
              return Content(key, kSize);
            }};
  }

  Result<Bytes> Read(RestoredImages& images, uint64_t key, uint64_t offset, size_t size, uint64_t memory = 5000) {
    Bytes out(size);
    auto read = images.Read(key, Work(key, memory), offset, out);
    if (!read) return PassOn(std::move(read));
    return out;
  }

  static Bytes Part(uint64_t key, size_t offset, size_t size) {
    const Bytes all = Content(key, kSize);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(offset);
    return {begin, begin + static_cast<std::ptrdiff_t>(size)};
  }

  std::atomic<int> restores_ = 0, running_ = 0;
  std::atomic<bool> held_up_ = false;
};

TEST_F(RestoredImagesTest, PartsOfOneImageAreReadFromOneRestoreInAnyOrder) {
  RestoredImages images({10'000, kNever, kNever});
  for (const size_t offset : {size_t{500}, size_t{0}, size_t{250}})
    EXPECT_EQ(Read(images, 7, offset, 250).value(), Part(7, offset, 250));
  EXPECT_EQ(restores_, 1);
  EXPECT_EQ(images.memory_used(), kSize) << "the result stays, not what restoring it took";
  Bytes out(100);
  EXPECT_TRUE(images.ReadAtHand(7, 300, out));
  EXPECT_EQ(out, Part(7, 300, 100));
  EXPECT_FALSE(images.ReadAtHand(8, 300, out));
}

TEST_F(RestoredImagesTest, WhatWasReadToItsEndIsDropped) {
  RestoredImages images({10'000, kNever, kNever});
  EXPECT_EQ(Read(images, 1, 0, kSize).value(), Content(1, kSize));
  EXPECT_EQ(images.memory_used(), 0u);
  EXPECT_TRUE(Read(images, 1, 0, 600));
  EXPECT_TRUE(Read(images, 1, 600, 400));
  EXPECT_EQ(images.memory_used(), 0u);
  EXPECT_EQ(restores_, 2);
}

TEST_F(RestoredImagesTest, TheKernelsReadAheadMayAskForTheEndFirst) {
  RestoredImages images({10'000, kNever, kNever});
  EXPECT_TRUE(Read(images, 1, 800, 200));
  EXPECT_EQ(images.memory_used(), kSize);
  EXPECT_TRUE(Read(images, 1, 0, 800));
  EXPECT_EQ(images.memory_used(), 0u);
  EXPECT_EQ(restores_, 1);
}

TEST_F(RestoredImagesTest, WhatNobodyReadsOnIsDroppedAfterAWhile) {
  RestoredImages images({10'000, milliseconds(30), kNever});
  EXPECT_TRUE(Read(images, 1, 0, 10));
  EXPECT_TRUE(Read(images, 2, 0, 10));
  EXPECT_TRUE(Eventually([&] { return images.memory_used() == 0; }));
  EXPECT_TRUE(Read(images, 1, 0, 10)) << "and it can be had again";
  EXPECT_EQ(restores_, 3);
}

TEST_F(RestoredImagesTest, EndingDoesNotWaitForWhatIsIdle) {
  RestoredImages images({10'000, kNever, kNever});
  EXPECT_TRUE(Read(images, 1, 0, 10));
}

TEST_F(RestoredImagesTest, ReadersOfOneImageShareOneRestore) {
  RestoredImages images({10'000, kNever, kNever});
  held_up_ = true;
  std::vector<std::thread> readers;
  for (size_t i = 0; i < 8; ++i)
    readers.emplace_back([&, i] { EXPECT_EQ(Read(images, 3, i * 100, 100).value(), Part(3, i * 100, 100)); });
  EXPECT_TRUE(Eventually([&] { return running_ == 1; }));
  Bytes out(10);
  EXPECT_FALSE(images.ReadAtHand(3, 0, out)) << "it is still being restored";
  held_up_ = false;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(restores_, 1);
}

TEST_F(RestoredImagesTest, RestoresBeyondTheBudgetWait) {
  RestoredImages images({10'000, kNever, milliseconds(0)});
  held_up_ = true;
  std::vector<std::thread> readers;
  for (uint64_t key = 0; key < 6; ++key)
    readers.emplace_back([&, key] { EXPECT_EQ(Read(images, key, 0, 500, 4000).value(), Part(key, 0, 500)); });
  EXPECT_TRUE(Eventually([&] { return running_ == 2; }));
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_EQ(running_, 2);
  EXPECT_EQ(images.memory_used(), 8000u);
  held_up_ = false;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(restores_, 6);
}

TEST_F(RestoredImagesTest, AnImageLargerThanTheBudgetIsRestoredAloneAndRoomIsMadeForIt) {
  RestoredImages images({10'000, kNever, kNever});
  for (uint64_t key = 0; key < 5; ++key) EXPECT_TRUE(Read(images, key, 0, 10));
  EXPECT_EQ(images.memory_used(), 5 * kSize);
  EXPECT_EQ(Read(images, 9, 0, 10, 1'000'000).value(), Part(9, 0, 10));
  EXPECT_EQ(images.memory_used(), kSize) << "and nothing else is left";
}

TEST_F(RestoredImagesTest, RoomIsMadeByWhatHasNotBeenReadForTheLongestTime) {
  RestoredImages images({10'000, kNever, kNever});
  for (uint64_t key = 1; key <= 3; ++key) EXPECT_TRUE(Read(images, key, 0, 10));
  EXPECT_TRUE(Read(images, 1, 10, 10));
  EXPECT_TRUE(Read(images, 4, 0, 10, 8500));  // two must go
  Bytes out(10);
  EXPECT_TRUE(images.ReadAtHand(1, 0, out));
  EXPECT_FALSE(images.ReadAtHand(2, 0, out));
  EXPECT_FALSE(images.ReadAtHand(3, 0, out));
}

TEST_F(RestoredImagesTest, WhatIsBeingReadStaysWhileOthersAreRestored) {
  RestoredImages images({10'000, kNever, kNever});
  EXPECT_TRUE(Read(images, 1, 0, 10));
  held_up_ = true;
  std::thread running([&] { EXPECT_TRUE(Read(images, 2, 0, 10, 8000)); });
  EXPECT_TRUE(Eventually([&] { return running_ == 1; }));
  std::thread waiting([&] { EXPECT_TRUE(Read(images, 3, 0, 10, 1500)); });
  std::this_thread::sleep_for(milliseconds(30));
  Bytes out(10);
  EXPECT_TRUE(images.ReadAtHand(1, 0, out)) << "its reader would have to restore it again";
  held_up_ = false;
  running.join();
  waiting.join();
  EXPECT_EQ(restores_, 3);
}

TEST_F(RestoredImagesTest, FailuresReachEveryReaderAndOnlyDamageIsRemembered) {
  RestoredImages images({10'000, kNever, kNever});
  int tries = 0;
  ErrorCode code = ErrorCode::kDamaged;
  const RestoredImages::Work fails{[]() -> Result<uint64_t> { return 5000; },
                                   [&]() -> Result<Bytes> {
                                     ++tries;
                                     return Fail(code, "bad");
                                   }};
  Bytes out(10);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(images.Read(1, fails, 0, out).error().code, ErrorCode::kDamaged);
  EXPECT_EQ(tries, 1);
  EXPECT_FALSE(images.ReadAtHand(1, 0, out));
  EXPECT_EQ(images.memory_used(), 0u);
  code = ErrorCode::kIo;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(images.Read(2, fails, 0, out).error().code, ErrorCode::kIo);
  EXPECT_EQ(tries, 4);
  EXPECT_EQ(Read(images, 2, 0, 10).value(), Part(2, 0, 10));
}

TEST_F(RestoredImagesTest, AnImageThatIsWholeAgainIsReadAlsoByWhoAskedForItAllTheTime) {
  RestoredImages images({10'000, kNever, milliseconds(50)});
  std::atomic<bool> bad = true;
  std::atomic<int> tries = 0;
  const RestoredImages::Work work{[]() -> Result<uint64_t> { return 5000; },
                                  [&]() -> Result<Bytes> {
                                    ++tries;
                                    if (bad) return Fail(ErrorCode::kDamaged, "bad");
                                    return Content(1, kSize);
                                  }};
  const auto read = [&] {
    Bytes out(10);
    return images.Read(1, work, 0, out).has_value();
  };
  EXPECT_FALSE(read());
  bad = false;
  std::atomic<bool> enough = false;
  std::thread beside([&] {
    while (!enough) (void)read();
  });
  EXPECT_TRUE(Eventually(read));
  enough = true;
  beside.join();
  EXPECT_EQ(tries, 2);
}

TEST_F(RestoredImagesTest, AnUnknownAmountOfMemoryIsNotRestored) {
  RestoredImages images({10'000, kNever, kNever});
  RestoredImages::Work work = Work(1);
  work.memory = []() -> Result<uint64_t> { return Fail(ErrorCode::kIo, "cannot be read"); };
  Bytes out(10);
  EXPECT_EQ(images.Read(1, work, 0, out).error().message, "cannot be read");
  EXPECT_EQ(restores_, 0);
}

TEST_F(RestoredImagesTest, WhenMemoryCannotBeHadItIsAnErrorForAllAndGivenBack) {
  RestoredImages images({10'000, kNever, kNever});
  RestoredImages::Work work = Work(1);
  work.restore = []() -> Result<Bytes> { throw std::bad_alloc(); };
  Bytes out(10);
  EXPECT_EQ(images.Read(1, work, 0, out).error().code, ErrorCode::kIo);
  EXPECT_EQ(images.memory_used(), 0u);
}

TEST_F(RestoredImagesTest, NoByteBeyondAResultIsMadeUp) {
  RestoredImages images({10'000, kNever, kNever});
  EXPECT_EQ(Read(images, 1, kSize - 5, 10).error().code, ErrorCode::kDamaged);
  EXPECT_EQ(Read(images, 1, kSize + 5, 1).error().code, ErrorCode::kDamaged);
  Bytes out(10);
  EXPECT_FALSE(images.ReadAtHand(1, kSize - 5, out));
  EXPECT_TRUE(images.ReadAtHand(1, kSize - 10, out));
}

TEST_F(RestoredImagesTest, ManyReadersOfManyImagesOnASmallBudgetAllGetRightBytes) {
  RestoredImages images({6000, milliseconds(1), milliseconds(2)});
  std::vector<std::thread> readers;
  for (unsigned seed = 0; seed < 8; ++seed)
    readers.emplace_back([&, seed] {
      std::minstd_rand random(seed + 1);
      for (int i = 0; i < 300; ++i) {
        const uint64_t key = random() % 12;
        const size_t offset = random() % kSize, size = 1 + random() % (kSize - offset);
        const uint64_t memory = random() % 20 == 0 ? 9000 : 1000 + random() % 4000;
        const auto read = Read(images, key, offset, size, memory);
        ASSERT_TRUE(read) << read.error().message;
        ASSERT_EQ(*read, Part(key, offset, size));
      }
    });
  for (std::thread& reader : readers) reader.join();
  EXPECT_TRUE(Eventually([&] { return images.memory_used() == 0; }));
}

}  // namespace
}  // namespace pcrfs
