// The helper thread that asks the kernel for prefixes of shards before they are read.
//
// A prefix (all scan groups up to a level, one contiguous range) is asked for lowest group first, as long as the
// prefixes in use fit the memory available; beyond that nothing is asked for, and readers read what they need. A prefix
// is in use until its shard has been idle for 30 s.
//
// Ownership: owns its thread, no shard. Where the store hangs, its end does not wait for long: the thread is left to
// itself, and ends without calling back when the store gives in. Thread safety: Ask from any number of threads; it
// never waits for a device. No errors: what cannot be had now is read later.
#ifndef PCRFS_FS_PREFETCHER_H_
#define PCRFS_FS_PREFETCHER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

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
    int level_before = 0;                   // for `refused`
  };

  // All are called from the helper thread.
  struct Callbacks {
    std::function<uint64_t()> memory;                            // bytes that prefixes may take now
    std::function<TimePoint(size_t position)> last_used;         // when a shard was last used
    std::function<void(const Request&)> refused = [](auto&) {};  // there was no memory for it
  };

  explicit Prefetcher(Callbacks callbacks);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  void Ask(Request request);
  // Waits until everything asked for so far is done, for tests.
  void Drain();

 private:
  class Helper;

  std::shared_ptr<Helper> helper_;  // shared with its thread
  std::thread thread_;
};

}  // namespace pcrfs

#endif  // PCRFS_FS_PREFETCHER_H_
