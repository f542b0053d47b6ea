// Which places of the shards could not be read just now: so that a fault is told once, and asked of the store again
// only now and then however often the kernel asks (it does page by page), until it has healed.
//
// A place is a run of bytes of one shard, as a rule a checksum block, or a shard as a whole. Its error is remembered
// for a while; that it was told of, until it has been read again. Bytes that are wrong (kDamaged) are the fault of
// their place, and told of each place. All else is the fault of the shard, which was cut, replaced or lies on a disk
// that fails: told of its first place alone, until one that failed so has been read again. At most 10,000 places are
// kept, but of each shard one; further ones are neither remembered nor told. Thread safety: all methods from any number
// of threads; without a fault they cost one load.
#ifndef PCRFS_FS_FAULT_MEMORY_H_
#define PCRFS_FS_FAULT_MEMORY_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "format/error.h"

namespace pcrfs {

struct ShardPlace {
  uint64_t shard = 0;  // its position
  uint64_t begin = 0, end = 0;

  [[nodiscard]] static constexpr ShardPlace Whole(uint64_t shard) { return {shard, UINT64_MAX - 1, UINT64_MAX}; }
  [[nodiscard]] constexpr bool is_whole() const { return end == UINT64_MAX; }
};

// Whether such a fault says more of the shard than of the place where it showed.
[[nodiscard]] inline bool IsFaultOfShard(const ShardPlace& place, ErrorCode code) {
  return place.is_whole() || code != ErrorCode::kDamaged;
}

class FaultMemory {
 public:
  using Clock = std::chrono::steady_clock;

  explicit FaultMemory(Clock::duration remembered_for) : remembered_for_(remembered_for) {}

  // True when it should be told: the place was not known to be bad, nor, when that is whose fault it is, its shard.
  bool Remember(const ShardPlace& place, const Error& error, Clock::time_point now = Clock::now());
  // The error of a place that overlaps this one and failed lately.
  [[nodiscard]] std::optional<Error> Find(const ShardPlace& place, Clock::time_point now = Clock::now()) const;
  // It has been read: what overlaps it is whole again.
  void Forget(const ShardPlace& place);
  [[nodiscard]] bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }

 private:
  struct Fault {
    uint64_t end = 0;
    Error error;
    Clock::time_point when;
    bool of_shard = false;
  };
  using Key = std::pair<uint64_t, uint64_t>;  // shard and begin
  using Faults = std::map<Key, Fault>;

  // Calls `visit` with each fault that overlaps the place, until it returns false; it may erase the one it is given.
  template <typename Map, typename Visit>
  static void ForEachOverlap(Map& faults, uint64_t longest, const ShardPlace& place, const Visit& visit);

  [[nodiscard]] bool KnowsAPlaceOf(uint64_t shard) const;

  const Clock::duration remembered_for_;
  mutable std::mutex mutex_;
  Faults faults_;
  std::set<uint64_t> told_;  // the shards whose own fault was told
  uint64_t longest_ = 0;     // of all places ever kept: how far back an overlap may begin
  std::atomic<size_t> count_{0};
};

}  // namespace pcrfs

#endif  // PCRFS_FS_FAULT_MEMORY_H_
