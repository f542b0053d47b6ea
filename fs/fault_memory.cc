#include "fs/fault_memory.h"

#include <algorithm>

namespace pcrfs {
namespace {

constexpr size_t kMost = 10'000;

}  // namespace

template <typename Map, typename Visit>
void FaultMemory::ForEachOverlap(Map& faults, uint64_t longest, const ShardPlace& place, const Visit& visit) {
  const uint64_t from = place.begin - std::min(place.begin, longest);
  for (auto at = faults.lower_bound({place.shard, from}); at != faults.end();) {
    const auto here = at++;
    if (here->first.first != place.shard || here->first.second >= place.end) return;
    if (here->second.end > place.begin && !visit(here)) return;
  }
}

bool FaultMemory::Remember(const ShardPlace& place, const Error& error, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  const Key key(place.shard, place.begin);
  const bool is_new = !faults_.contains(key);
  if (is_new && faults_.size() >= kMost && KnowsAPlaceOf(place.shard)) return false;
  const bool of_shard = IsFaultOfShard(place, error.code);
  faults_[key] = {place.end, error, now, of_shard};
  longest_ = std::max(longest_, place.end - place.begin);
  count_.store(faults_.size(), std::memory_order_relaxed);
  return of_shard ? told_.insert(place.shard).second : is_new;
}

bool FaultMemory::KnowsAPlaceOf(uint64_t shard) const {
  const auto first = faults_.lower_bound({shard, 0});
  return first != faults_.end() && first->first.first == shard;
}

std::optional<Error> FaultMemory::Find(const ShardPlace& place, Clock::time_point now) const {
  if (empty()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  std::optional<Error> found;
  ForEachOverlap(faults_, longest_, place, [&](auto fault) {
    if (now - fault->second.when < remembered_for_) found = fault->second.error;
    return !found;
  });
  return found;
}

void FaultMemory::Forget(const ShardPlace& place) {
  if (empty()) return;
  const std::lock_guard lock(mutex_);
  ForEachOverlap(faults_, longest_, place, [&](auto fault) {
    if (fault->second.of_shard) told_.erase(place.shard);
    faults_.erase(fault);
    return true;
  });
  count_.store(faults_.size(), std::memory_order_relaxed);
}

}  // namespace pcrfs
