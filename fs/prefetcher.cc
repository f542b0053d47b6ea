#include "fs/prefetcher.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace pcrfs {
namespace {

// Between two of these the thread looks whether it is to stop.
constexpr uint64_t kSlice = uint64_t{1} << 20;

}  // namespace

Prefetcher::Prefetcher(std::function<uint64_t()> memory, std::function<TimePoint(size_t)> last_used)
    : memory_(std::move(memory)), last_used_(std::move(last_used)), thread_([this] { Run(); }) {}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Prefetcher::Ask(Request request) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(request));
  }
  changed_.notify_all();
}

void Prefetcher::Drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
}

bool Prefetcher::stopping() {
  const std::lock_guard lock(mutex_);
  return stop_;
}

void Prefetcher::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    const Request request = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    Fetch(request);
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void Prefetcher::Fetch(const Request& request) {
  const std::shared_ptr<const ByteSource> shard = request.shard.lock();
  if (!shard) return;
  if (request.anew) Forget(request.position);
  const auto known = in_use_.find(request.position);
  uint64_t at = known == in_use_.end() ? request.begin : known->second.end;
  if (at >= request.end || !Fits(request.end - at)) return;
  Prefix& prefix = in_use_.try_emplace(request.position, Prefix{at, at}).first->second;
  while (at < request.end && !stopping()) {
    const uint64_t slice = std::min(kSlice, request.end - at);
    shard->WillNeed(at, slice);
    at += slice;
  }
  in_use_bytes_ += at - prefix.end;
  prefix.end = at;
}

void Prefetcher::Forget(size_t position) {
  const auto known = in_use_.find(position);
  if (known == in_use_.end()) return;
  in_use_bytes_ -= known->second.end - known->second.begin;
  in_use_.erase(known);
}

bool Prefetcher::Fits(uint64_t more) {
  const TimePoint now = Clock::now();
  if (now - memory_asked_ >= std::chrono::seconds(1) || memory_asked_ == TimePoint()) {
    memory_now_ = memory_();
    memory_asked_ = now;
  }
  if (in_use_bytes_ + more > memory_now_) ForgetIdle();
  return in_use_bytes_ + more <= memory_now_;
}

void Prefetcher::ForgetIdle() {
  const TimePoint now = Clock::now();
  if (now - idle_forgotten_ < std::chrono::seconds(1)) return;
  idle_forgotten_ = now;
  std::vector<size_t> idle;
  for (const auto& [position, prefix] : in_use_)
    if (now - last_used_(position) >= kIdle) idle.push_back(position);
  for (const size_t position : idle) Forget(position);
}

}  // namespace pcrfs
