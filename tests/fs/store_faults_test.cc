// A store that fails, now and then or for good, and shards that shrink, vanish or are replaced: every read is right or
// an error, one line tells of it, and what is whole again is read again.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cache/catalog_builder.h"
#include "fs/dataset_shards.h"
#include "fs/file_system.h"
#include "tests/support/sample_dataset.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wrapped_source.h"

namespace pcrfs {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FaultInjector;
using ::testing::HasSubstr;
using testing::ReadFile;
using testing::SampleFile;
using testing::SourceWrapper;
using testing::TempDir;
using testing::WrappedSource;
using testing::WriteFile;
using namespace std::chrono_literals;

constexpr auto kTryAgain = 100ms;

class StoreFaultsTest : public ::testing::Test {
 protected:
  void Mount(const SourceWrapper& wrap = nullptr, std::chrono::milliseconds try_again = kTryAgain,
             size_t max_open = 100) {
    auto dataset = *Dataset::Open(data_.path());
    auto catalog = *OpenOrBuildCatalog(dataset, cache_.path(), nullptr);
    auto facts = FactsOf(dataset);
    auto open = [wrap, below = OpenerOf(std::move(dataset), catalog->shards())](size_t position) {
      auto shard = below(position);
      return shard && wrap ? Result<std::unique_ptr<ByteSource>>(wrap(*std::move(shard))) : std::move(shard);
    };
    auto shards = std::make_unique<ShardSet>(std::move(facts), std::move(open),
                                             ShardSetOptions{max_open, [] { return uint64_t{0}; }, try_again});
    files_ = std::make_unique<FileSystem>(std::move(catalog), std::move(shards), MountView{},
                                          [this](const Error& error, auto) {
                                            const std::lock_guard lock(mutex_);
                                            told_.push_back(error.message);
                                          });
  }

  [[nodiscard]] Ino Find(const std::string& path, int level) const {
    Ino at(1, level);
    for (size_t begin = 0; begin < path.size();) {
      const size_t end = std::min(path.find('/', begin), path.size());
      at = files_->Lookup(at, path.substr(begin, end - begin))->ino;
      begin = end + 1;
    }
    return at;
  }
  [[nodiscard]] const SampleFile& File(const std::string& path) const {
    for (const SampleFile& file : sample_.files)
      if (file.path == path) return file;
    std::abort();
  }

  // The whole file, by one read: nothing when it is right, or why it cannot be read. Wrong bytes fail the test.
  [[nodiscard]] std::optional<ErrorCode> Read(const std::string& path, int level = 10) const {
    const Bytes& right = File(path).levels[static_cast<size_t>(level - 1)];
    Bytes out(right.size());
    const auto read = files_->Read(Find(path, level), 0, out);
    if (!read) return read.error().code;
    EXPECT_EQ(*read, right.size()) << path;
    EXPECT_TRUE(out == right) << path << " at level " << level;
    return std::nullopt;
  }
  // Reads of a file until one is right; false after ten seconds.
  [[nodiscard]] bool Heals(const std::string& path) const {
    for (int i = 0; i < 1000; ++i, std::this_thread::sleep_for(10ms))
      if (!Read(path)) return true;
    return false;
  }
  [[nodiscard]] std::string Shard(int number) const { return data_ / ("PCR_" + std::to_string(number) + ".pcr"); }

  TempDir data_, cache_;
  const testing::SampleDataset sample_ = testing::WriteSampleDataset(data_.path());
  std::unique_ptr<FileSystem> files_;
  std::mutex mutex_;
  std::vector<std::string> told_;
};

// In PCR_0.pcr and in PCR_1.pcr.
const std::string kGray = "cats/gray.jpg", kLarge = "cats/large.bin", kOther = "root.jpg";

// ---- Faults made by the test

struct Tally {
  std::atomic<uint64_t> right{0}, refused{0};
};

class InjectedFaultsTest : public StoreFaultsTest {
 protected:
  // Any part of any file, also beyond its end.
  void ReadAnything(std::mt19937_64& random, Tally& tally) {
    const SampleFile& file = sample_.files[random() % sample_.files.size()];
    const int level = 1 + static_cast<int>(random() % 10);
    const Bytes& right = file.levels[static_cast<size_t>(level - 1)];
    const Ino ino = inos_[static_cast<size_t>(&file - sample_.files.data())][static_cast<size_t>(level - 1)];
    const uint64_t offset = random() % (right.size() + 100), size = 1 + random() % (random() % 3 == 0 ? 200'000 : 5000);
    thread_local Bytes out;
    out.assign(static_cast<size_t>(size), 0xA5);
    const auto read = files_->Read(ino, offset, out);
    if (!read) {
      ++tally.refused;
      EXPECT_TRUE(read.error().code == ErrorCode::kIo || read.error().code == ErrorCode::kDamaged ||
                  read.error().code == ErrorCode::kStale)
          << read.error().message;
      return;
    }
    ++tally.right;
    const uint64_t expected = offset >= right.size() ? 0 : std::min<uint64_t>(size, right.size() - offset);
    ASSERT_EQ(*read, expected) << file.path;
    ASSERT_TRUE(std::equal(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(expected),
                           right.begin() + static_cast<std::ptrdiff_t>(std::min<uint64_t>(offset, right.size()))))
        << file.path << " at level " << level << ", " << size << " bytes at " << offset;
  }

  void Run(uint64_t reads, std::chrono::milliseconds try_again) {
    FaultInjector injector(100);
    Mount(injector.wrapper(), try_again);
    for (const SampleFile& file : sample_.files) {
      auto& inos = inos_.emplace_back();
      for (int level = 1; level <= 10; ++level) {
        inos.push_back(Find(file.path, level));
        EXPECT_EQ(files_->GetAttr(inos.back())->size, file.levels[static_cast<size_t>(level - 1)].size());
      }
    }
    Tally tally;
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        std::mt19937_64 random(t);
        for (uint64_t i = 0; i < reads / 4 && !HasFatalFailure(); ++i) ReadAnything(random, tally);
      });
    for (std::thread& thread : threads) thread.join();
    std::printf("%lu reads with %lu faults: %lu right, %lu refused, the rest not made\n", reads, injector.injected(),
                tally.right.load(), tally.refused.load());
    EXPECT_GT(tally.right, reads / 10 * 9);
    EXPECT_GT(tally.refused, 0u);
    EXPECT_GT(injector.injected(), reads / 200);
    files_.reset();
  }

  std::vector<std::vector<Ino>> inos_;
};

// As many as this environment variable says.
uint64_t Reads() {
  const char* text = std::getenv("PCRFS_FAULT_READS");
  return text == nullptr ? 100'000 : std::strtoull(text, nullptr, 10);
}

TEST_F(InjectedFaultsTest, EveryReadIsRightOrAnError) { Run(Reads(), 0ms); }

TEST_F(InjectedFaultsTest, AlsoWhereFaultsAreRemembered) { Run(Reads(), 1ms); }

// A store whose reads of PCR_0.pcr fail or are spoilt for as long as a test says so; counts them.
class FailingStore {
 public:
  enum class How { kNot, kFails, kSpoils };

  [[nodiscard]] SourceWrapper wrapper() {
    return [this](std::unique_ptr<ByteSource> source) -> std::unique_ptr<ByteSource> {
      ++opened;
      if (source->name().find("PCR_0") == std::string::npos) return source;
      WrappedSource::Hooks hooks;
      hooks.before_read = [this](uint64_t, uint64_t) -> Result<void> {
        ++reads;
        if (how != How::kFails || times-- <= 0) return {};
        return Fail(ErrorCode::kIo, "bad sector");
      };
      hooks.after_read = [this](uint64_t, std::span<const MutableByteSpan> parts) {
        if (how == How::kSpoils && times-- > 0) parts[1][0] ^= 1;
      };
      return std::make_unique<WrappedSource>(std::move(source), std::move(hooks));
    };
  }

  std::atomic<How> how{How::kNot};
  std::atomic<int> times{INT_MAX};
  std::atomic<int> reads{0}, opened{0};
};

using How = FailingStore::How;

TEST_F(StoreFaultsTest, AFaultThatPassesIsNotSeen) {
  for (const How how : {How::kFails, How::kSpoils}) {
    FailingStore store;
    Mount(store.wrapper());
    store.how = how;
    store.times = 1;
    EXPECT_EQ(Read(kGray), std::nullopt);
    EXPECT_LE(store.times, 0) << "it was met";
    files_.reset();
  }
  EXPECT_THAT(told_, ElementsAre());
}

TEST_F(StoreFaultsTest, AFaultThatStaysIsToldOnceAndNotAskedForAtEachRead) {
  for (const How how : {How::kFails, How::kSpoils}) {
    told_.clear();
    FailingStore store;
    Mount(store.wrapper(), 10s);
    store.how = how;
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(Read(kGray, 1));
    EXPECT_LE(store.reads, 2) << "50 reads of one block";
    ASSERT_EQ(told_.size(), 1u);
    EXPECT_THAT(told_[0], AllOf(HasSubstr("'PCR_0.pcr'"), HasSubstr("'cats/gray.jpg' at level 1: ")));
    if (how == How::kSpoils) {
      EXPECT_THAT(told_[0], AllOf(HasSubstr("offset"), HasSubstr("expected"), HasSubstr("found")));
    }
    EXPECT_EQ(Read(kOther), std::nullopt) << "another shard";
    files_.reset();
  }
}

TEST_F(StoreFaultsTest, AFaultThatStaysCostsAFewReadsOfTheStoreASecond) {
  FailingStore store;
  Mount(store.wrapper(), 200ms);
  store.how = How::kFails;
  const auto begin = std::chrono::steady_clock::now();
  int64_t asked = 0;
  for (; std::chrono::steady_clock::now() - begin < 700ms; ++asked) EXPECT_TRUE(Read(kGray, 1));
  const auto periods = (std::chrono::steady_clock::now() - begin) / 200ms + 1;
  EXPECT_GT(asked, 4 * periods);
  EXPECT_LE(store.reads, 2 * periods);
  EXPECT_EQ(told_.size(), 1u);
}

TEST_F(StoreFaultsTest, WhatIsWholeAgainIsReadAgainAndToldOfIfItFailsAnew) {
  FailingStore store;
  Mount(store.wrapper());
  for (size_t times = 1; times <= 3; ++times) {
    store.how = times == 2 ? How::kSpoils : How::kFails;
    EXPECT_TRUE(Read(kGray, 1));
    EXPECT_EQ(told_.size(), times);
    store.how = How::kNot;
    EXPECT_TRUE(Heals(kGray));
  }
}

TEST_F(StoreFaultsTest, OfALargeFileOnlyTheBadBlockIsRefused) {
  const Bytes& right = File(kLarge).levels[0];
  ASSERT_GT(right.size(), kChecksumBlock);
  uint64_t shard_offset = 0;
  Mount([&](std::unique_ptr<ByteSource> source) -> std::unique_ptr<ByteSource> {
    WrappedSource::Hooks hooks;
    // A sector in the second block cannot be read.
    hooks.before_read = [&](uint64_t offset, uint64_t size) -> Result<void> {
      if (shard_offset == 0) shard_offset = offset;
      const uint64_t bad = shard_offset + kChecksumBlock + 3;
      if (offset <= bad && bad < offset + size) return Fail(ErrorCode::kIo, "bad sector");
      return {};
    };
    return std::make_unique<WrappedSource>(std::move(source), std::move(hooks));
  });
  const Ino ino = Find(kLarge, 3);
  Bytes out(right.size());
  EXPECT_EQ(files_->Read(ino, 0, out).error().code, ErrorCode::kIo);
  Bytes page(4096);
  for (uint64_t at = 0; at < right.size(); at += page.size()) {
    const auto read = files_->Read(ino, at, page);
    EXPECT_EQ(read.has_value(), at + page.size() <= kChecksumBlock) << at;
  }
  EXPECT_EQ(told_.size(), 1u);
}

// ---- Shards on a file system

void Overwrite(const std::string& path, const Bytes& bytes) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_TRUNC));
  ASSERT_EQ(write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
}

void ReplaceByRename(const std::string& path, const Bytes& bytes) {
  WriteFile(path + ".new", bytes);
  ASSERT_EQ(rename((path + ".new").c_str(), path.c_str()), 0);
}

TEST_F(StoreFaultsTest, AShardThatShrankIsStaleUntilItIsWhole) {
  const Bytes whole = ReadFile(Shard(0));
  for (const bool in_place : {true, false}) {
    told_.clear();
    Mount();
    EXPECT_EQ(Read(kGray), std::nullopt);
    ASSERT_EQ(truncate(Shard(0).c_str(), 100), 0);
    EXPECT_EQ(Read(kGray), ErrorCode::kStale);
    ASSERT_FALSE(told_.empty());
    EXPECT_THAT(told_[0], AllOf(HasSubstr("PCR_0.pcr"), HasSubstr("cats/gray.jpg' at level 10"),
                                HasSubstr(std::to_string(whole.size()))));
    EXPECT_EQ(Read(kOther), std::nullopt);
    if (in_place)
      Overwrite(Shard(0), whole);
    else
      ReplaceByRename(Shard(0), whole);
    EXPECT_TRUE(Heals(kGray));
    EXPECT_TRUE(Heals(kLarge));
  }
}

TEST_F(StoreFaultsTest, AShardThatShrankOrWhoseDiskFailsIsToldInOneLineNotInOneAnEntry) {
  const Bytes whole = ReadFile(Shard(0));
  const auto read_all = [this] {
    size_t refused = 0;
    for (const SampleFile& file : sample_.files)
      for (int level = 1; level <= 10; ++level)
        if (Read(file.path, level)) ++refused;
    return refused;
  };
  FailingStore store;
  Mount(store.wrapper());
  EXPECT_EQ(read_all(), 0u);
  ASSERT_EQ(truncate(Shard(0).c_str(), 100), 0);
  EXPECT_GT(read_all(), 20u);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_THAT(told_[0], AllOf(HasSubstr("'PCR_0.pcr', '"), HasSubstr("at level"), HasSubstr("at offset"),
                              HasSubstr("expected " + std::to_string(whole.size()) + " bytes, found 100;"),
                              HasSubstr("no more such faults of this shard")));
  Overwrite(Shard(0), whole);
  EXPECT_TRUE(Heals(kGray));
  std::this_thread::sleep_for(kTryAgain);
  EXPECT_EQ(read_all(), 0u);
  store.how = How::kFails;
  EXPECT_GT(read_all(), 20u);
  ASSERT_EQ(told_.size(), 2u) << "anew, after it was read";
  EXPECT_THAT(told_[1], AllOf(HasSubstr("'PCR_0.pcr', '"), HasSubstr("bad sector")));
}

TEST_F(StoreFaultsTest, AShardThatVanishedIsReadFromWhatIsOpenAndElseWhenItIsBack) {
  const Bytes first = ReadFile(Shard(0)), second = ReadFile(Shard(1));
  Mount();
  EXPECT_EQ(Read(kGray), std::nullopt);
  unlink(Shard(0).c_str());
  unlink(Shard(1).c_str());
  EXPECT_EQ(Read(kGray), std::nullopt);
  EXPECT_EQ(Read(kOther), ErrorCode::kIo) << "never 'no such file' for a file that is shown";
  EXPECT_EQ(Read(kOther), ErrorCode::kIo);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_THAT(told_[0], HasSubstr("missing"));
  WriteFile(Shard(1), second);
  EXPECT_TRUE(Heals(kOther)) << "though its time is another";
  WriteFile(Shard(0), first);
  EXPECT_EQ(Read(kGray), std::nullopt);
}

TEST_F(StoreFaultsTest, AnotherShardInItsPlaceIsNeverRead) {
  const Bytes whole = ReadFile(Shard(0));
  Bytes other = whole;
  for (uint8_t& byte : other) byte ^= 0x5A;
  Bytes older = whole;  // a shard of the same size and form, with another index
  older[older.size() - 100] ^= 1;
  for (const Bytes& wrong : {other, older})
    for (const bool open_before : {true, false}) {
      told_.clear();
      Mount();
      if (open_before) {
        EXPECT_EQ(Read(kGray), std::nullopt);
      }
      ReplaceByRename(Shard(0), wrong);
      if (open_before) {
        EXPECT_EQ(Read(kLarge), std::nullopt) << "from the one that is open";
      } else {
        EXPECT_TRUE(Read(kGray));
        EXPECT_EQ(told_.size(), 1u);
      }
      EXPECT_EQ(Read(kOther), std::nullopt);
      ReplaceByRename(Shard(0), whole);
      EXPECT_TRUE(Heals(kGray));
    }
}

TEST_F(StoreFaultsTest, AShardOverwrittenInPlaceIsAnErrorUntilItIsItselfAgain) {
  const Bytes whole = ReadFile(Shard(0));
  Bytes other(whole.size());
  for (size_t i = 0; i < other.size(); ++i) other[i] = static_cast<uint8_t>(i * 7);
  Mount();
  EXPECT_EQ(Read(kGray), std::nullopt);
  Overwrite(Shard(0), other);
  EXPECT_TRUE(Read(kGray));
  EXPECT_TRUE(Read(kLarge));
  EXPECT_EQ(Read(kOther), std::nullopt);
  EXPECT_THAT(told_.at(0), AllOf(HasSubstr("CRC-32 expected"), HasSubstr("found")));
  Overwrite(Shard(0), whole);
  EXPECT_TRUE(Heals(kGray));
  EXPECT_TRUE(Heals(kLarge));
}

TEST_F(StoreFaultsTest, AnotherDataSetsShardOfTheSameSizeIsStale) {
  // The same but for one file's time, so an index of the same length and another id.
  const Bytes whole = ReadFile(Shard(0));
  const TempDir other;
  (void)testing::WriteSampleDataset(other.path(), 1);
  const Bytes wrong = ReadFile(other / "PCR_0.pcr");
  ASSERT_EQ(wrong.size(), whole.size());
  ASSERT_NE(wrong, whole);
  Mount();
  ReplaceByRename(Shard(0), wrong);
  EXPECT_EQ(Read(kLarge), ErrorCode::kStale) << "though of this file each byte is the same";
  EXPECT_THAT(told_.at(0), HasSubstr("not the shard that PCR_index.pb lists"));
}

TEST_F(StoreFaultsTest, TooManyShardsForTheDescriptorsAreReopenedAfterTheyWereCopiedBack) {
  Mount(nullptr, kTryAgain, 1);
  EXPECT_EQ(Read(kGray), std::nullopt);
  ReplaceByRename(Shard(0), ReadFile(Shard(0)));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Read(kOther), std::nullopt);
    EXPECT_EQ(Read(kGray), std::nullopt);
  }
  EXPECT_THAT(told_, ElementsAre());
}

TEST_F(StoreFaultsTest, ManyReadersOfAShardThatComesAndGoes) {
  Mount(nullptr, 1ms);
  const Bytes whole = ReadFile(Shard(0));
  Bytes other = whole;
  for (size_t i = 0; i < other.size(); i += 100) other[i] ^= 1;
  std::atomic<bool> stop{false};
  Tally tally;
  std::vector<std::thread> readers;
  for (int t = 0; t < 4; ++t)
    readers.emplace_back([&] {
      while (!stop) ++(Read(kGray) ? tally.refused : tally.right);
    });
  for (int i = 0; i < 100; ++i) {
    switch (i % 5) {
      case 0:
        unlink(Shard(0).c_str());
        break;
      case 1:
        WriteFile(Shard(0), other);
        break;
      case 2:
        Overwrite(Shard(0), whole);
        break;
      case 3:
        ReplaceByRename(Shard(0), whole);
        break;
      default:
        ASSERT_EQ(truncate(Shard(0).c_str(), 1000), 0);
    }
    std::this_thread::sleep_for(3ms);
  }
  WriteFile(Shard(0), whole);
  EXPECT_TRUE(Heals(kGray));
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_GT(tally.right, 0u);
}

}  // namespace
}  // namespace pcrfs
