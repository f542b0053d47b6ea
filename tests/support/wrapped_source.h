// A real source with something of the test's own before and behind each read: delays, errors, wrong bytes. And a store
// that hangs for as long as a test wants it to.
//
// Thread safety: all methods from any number of threads; what a test gives must be so, too.
#ifndef PCRFS_TESTS_SUPPORT_WRAPPED_SOURCE_H_
#define PCRFS_TESTS_SUPPORT_WRAPPED_SOURCE_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <utility>

#include "format/bytes.h"
#include "format/error.h"
#include "format/file.h"

namespace pcrfs::testing {

// Never at hand, so that each read is waited for.
class WrappedSource final : public ByteSource {
 public:
  struct Hooks {
    std::function<Result<void>(uint64_t offset, uint64_t size)> before_read;  // fails the read when it fails
    std::function<void(uint64_t offset, std::span<const MutableByteSpan> parts)> after_read;
    std::function<void(uint64_t offset, uint64_t size)> before_advice;
  };

  WrappedSource(std::unique_ptr<ByteSource> source, Hooks hooks)
      : source_(std::move(source)), hooks_(std::move(hooks)) {}

  [[nodiscard]] const std::string& name() const override { return source_->name(); }
  [[nodiscard]] uint64_t size() const override { return source_->size(); }
  [[nodiscard]] Result<void> ReadAt(uint64_t offset, MutableByteSpan out) const override {
    return ReadParts(offset, std::span<const MutableByteSpan>(&out, 1));
  }
  [[nodiscard]] Result<void> ReadParts(uint64_t offset, std::span<const MutableByteSpan> parts) const override {
    uint64_t size = 0;
    for (const MutableByteSpan part : parts) size += part.size();
    if (hooks_.before_read)
      if (auto allowed = hooks_.before_read(offset, size); !allowed) return allowed;
    if (auto read = source_->ReadParts(offset, parts); !read) return read;
    if (hooks_.after_read) hooks_.after_read(offset, parts);
    return {};
  }
  void WillNeed(uint64_t offset, uint64_t size) const override {
    if (hooks_.before_advice) hooks_.before_advice(offset, size);
    source_->WillNeed(offset, size);
  }

 private:
  std::unique_ptr<ByteSource> source_;
  Hooks hooks_;
};

using SourceWrapper = std::function<std::unique_ptr<ByteSource>(std::unique_ptr<ByteSource>)>;

// Reads and advice wait while it is held.
class HeldStore {
 public:
  ~HeldStore() { Release(); }

  void Hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  void Release() {
    {
      const std::lock_guard lock(mutex_);
      held_ = false;
    }
    changed_.notify_all();
  }
  // Until so many reads hang; false when that takes ten seconds.
  [[nodiscard]] bool AwaitReads(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return reads_ >= count; });
  }
  [[nodiscard]] int reads() {
    const std::lock_guard lock(mutex_);
    return reads_;
  }
  // Of all reads so far.
  [[nodiscard]] int total() {
    const std::lock_guard lock(mutex_);
    return total_;
  }

  // Must not outlive the store.
  [[nodiscard]] SourceWrapper wrapper() {
    return [this](std::unique_ptr<ByteSource> source) -> std::unique_ptr<ByteSource> {
      return std::make_unique<WrappedSource>(std::move(source),
                                             WrappedSource::Hooks{[this](uint64_t, uint64_t) {
                                                                    Wait(reads_, 1);
                                                                    return Result<void>();
                                                                  },
                                                                  {},
                                                                  [this](uint64_t, uint64_t) { Wait(advices_, 0); }});
    };
  }

 private:
  void Wait(int& counter, int reads) {
    std::unique_lock lock(mutex_);
    total_ += reads;
    ++counter;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !held_; });
    --counter;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  int reads_ = 0, advices_ = 0;  // that wait
  int total_ = 0;
};

// A store of which one request in `one_in` fails: with an error of the device, an interruption, an early end, or, and
// this is told to nobody, with wrong bytes.
class FaultInjector {
 public:
  explicit FaultInjector(unsigned one_in) : one_in_(one_in) {}

  [[nodiscard]] uint64_t injected() const { return injected_; }
  [[nodiscard]] SourceWrapper wrapper() {  // must not outlive this
    return [this](std::unique_ptr<ByteSource> source) -> std::unique_ptr<ByteSource> {
      WrappedSource::Hooks hooks;
      hooks.before_read = [this](uint64_t, uint64_t) { return Before(); };
      hooks.after_read = [this](uint64_t, std::span<const MutableByteSpan> parts) { After(parts); };
      return std::make_unique<WrappedSource>(std::move(source), std::move(hooks));
    };
  }

 private:
  static std::mt19937_64& Random() {
    static std::atomic<uint64_t> threads{0};
    thread_local std::mt19937_64 random(threads++);
    return random;
  }
  bool Once() {
    const bool now = Random()() % one_in_ == 0;
    injected_ += now ? 1 : 0;
    return now;
  }
  Result<void> Before() {
    if (!Once()) return {};
    switch (Random()() % 4) {
      case 0:
        return Fail(ErrorCode::kIo, "injected: the device failed");
      case 1:
        return Fail(ErrorCode::kInterrupted, "injected: interrupted");
      case 2:
        return Fail(ErrorCode::kStale, "injected: the file ends early");
      default:
        wrong_ = true;
        return {};
    }
  }
  static void After(std::span<const MutableByteSpan> parts) {
    if (!std::exchange(wrong_, false)) return;
    const MutableByteSpan part = parts[Random()() % parts.size()];
    if (part.empty()) return;
    const size_t at = Random()() % part.size();
    if (Random()() % 2 == 0)
      part[at] ^= static_cast<uint8_t>(1 + Random()() % 255);
    else
      std::fill(part.begin() + static_cast<std::ptrdiff_t>(at), part.end(), static_cast<uint8_t>(Random()()));
  }

  const unsigned one_in_;
  std::atomic<uint64_t> injected_{0};
  static inline thread_local bool wrong_ = false;  // what is being read is to be spoilt
};

}  // namespace pcrfs::testing

#endif  // PCRFS_TESTS_SUPPORT_WRAPPED_SOURCE_H_
