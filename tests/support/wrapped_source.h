// A real source with something of the test's own before and behind each read: delays, errors, wrong bytes. And a store
// that hangs for as long as a test wants it to.
//
// Thread safety: all methods from any number of threads; what a test gives must be so, too.
#ifndef PCRFS_TESTS_SUPPORT_WRAPPED_SOURCE_H_
#define PCRFS_TESTS_SUPPORT_WRAPPED_SOURCE_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
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

}  // namespace pcrfs::testing

#endif  // PCRFS_TESTS_SUPPORT_WRAPPED_SOURCE_H_
