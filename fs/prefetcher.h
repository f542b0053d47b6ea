// The helper thread that asks the kernel for prefixes of shards before they are read.
//
// A prefix (all scan groups up to a level, one contiguous range) is asked for lowest group first, as long as the
// prefixes in use fit the memory available; beyond that nothing is asked for, and readers read what they need. A prefix
// is in use until its shard has been idle for 30 s.
//
// Ownership: owns its thread, no shard. Thread safety: Ask from any number of threads; it never waits for a device.
// No errors: what cannot be had now is read later.
#ifndef PCRFS_FS_PREFETCHER_H_
#define PCRFS_FS_PREFETCHER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "format/file.h"

namespace pcrfs {

class Prefetcher {
 public:
  using Clock = std::chrono::steady_clock;
  using TimePoint = Clock::time_point;
  static constexpr std::chrono::seconds kIdle{30};

  struct Request {
    size_t position = 0;                    // of the shard
    std::weak_ptr<const ByteSource> shard;  // one that was closed meanwhile is let be: descriptors are scarce then
    uint64_t begin = 0, end = 0;            // of the prefix, in the shard
    bool anew = false;                      // first touch, or idle since: what was asked for may be gone
  };

  // `memory` gives the bytes that prefixes may take now, `last_used` when a shard was last used; both are called from
  // the helper thread.
  Prefetcher(std::function<uint64_t()> memory, std::function<TimePoint(size_t position)> last_used);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  void Ask(Request request);
  // Waits until everything asked for so far is done, for tests.
  void Drain();

 private:
  struct Prefix {
    uint64_t begin = 0, end = 0;  // end: how far was asked for
  };

  void Run();
  void Fetch(const Request& request);
  [[nodiscard]] bool Fits(uint64_t more);
  void Forget(size_t position);
  void ForgetIdle();
  [[nodiscard]] bool stopping();

  std::function<uint64_t()> memory_;
  std::function<TimePoint(size_t)> last_used_;

  // Of the helper thread only.
  std::unordered_map<size_t, Prefix> in_use_;  // by the shard's position
  uint64_t in_use_bytes_ = 0;
  uint64_t memory_now_ = 0;
  TimePoint memory_asked_{}, idle_forgotten_{};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> queue_;
  bool busy_ = false, stop_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace pcrfs

#endif  // PCRFS_FS_PREFETCHER_H_
