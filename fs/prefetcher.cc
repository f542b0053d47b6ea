#include "fs/prefetcher.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pcrfs {
namespace {

// Between two of these the thread looks whether it is to stop.
constexpr uint64_t kSlice = uint64_t{1} << 20;

// How long an end waits for a store that hangs.
constexpr std::chrono::seconds kGrace{1};

}  // namespace

class Prefetcher::Helper {
 public:
  explicit Helper(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}

  void Run();
  void Ask(Request request);
  void Drain();
  // False when the thread hangs in the store. It calls nothing back any more either way.
  [[nodiscard]] bool Stop();

 private:
  struct Prefix {
    uint64_t begin = 0, end = 0;  // end: how far was asked for
  };

  void Fetch(const Request& request);
  [[nodiscard]] uint64_t Advise(const ByteSource& shard, uint64_t at, uint64_t end);
  [[nodiscard]] bool Fits(uint64_t more);
  void Forget(size_t position);
  void ForgetIdle();

  // Of the helper thread only.
  Callbacks callbacks_;
  std::unordered_map<size_t, Prefix> in_use_;  // by the shard's position
  uint64_t in_use_bytes_ = 0;
  uint64_t memory_now_ = 0;
  TimePoint memory_asked_{}, idle_forgotten_{};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> queue_;
  bool busy_ = false, stop_ = false, ended_ = false;
  bool advising_ = false;  // in the store; afterwards it looks at stop_ before it does anything else
};

Prefetcher::Prefetcher(Callbacks callbacks)
    : helper_(std::make_shared<Helper>(std::move(callbacks))), thread_([helper = helper_] { helper->Run(); }) {}

Prefetcher::~Prefetcher() {
  if (helper_->Stop())
    thread_.join();
  else
    thread_.detach();
}

void Prefetcher::Ask(Request request) { helper_->Ask(std::move(request)); }
void Prefetcher::Drain() { helper_->Drain(); }

bool Prefetcher::Helper::Stop() {
  std::unique_lock lock(mutex_);
  stop_ = true;
  changed_.notify_all();
  while (!changed_.wait_for(lock, kGrace, [this] { return ended_; }))
    if (advising_) return false;
  return true;
}

void Prefetcher::Helper::Ask(Request request) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(request));
  }
  changed_.notify_all();
}

void Prefetcher::Helper::Drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
}

void Prefetcher::Helper::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (stop_) break;
    const Request request = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    Fetch(request);
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
  ended_ = true;
  changed_.notify_all();
}

void Prefetcher::Helper::Fetch(const Request& request) {
  const std::shared_ptr<const ByteSource> shard = request.shard.lock();
  if (!shard) return;
  if (request.anew) Forget(request.position);
  const auto known = in_use_.find(request.position);
  const uint64_t at = known == in_use_.end() ? request.begin : known->second.end;
  if (at >= request.end) return;
  if (!Fits(request.end - at)) return callbacks_.refused(request);
  Prefix& prefix = in_use_.try_emplace(request.position, Prefix{at, at}).first->second;
  const uint64_t end = Advise(*shard, at, request.end);
  in_use_bytes_ += end - prefix.end;
  prefix.end = end;
}

// Returns how far it came: to `end`, or as far as it was when it was to stop.
uint64_t Prefetcher::Helper::Advise(const ByteSource& shard, uint64_t at, uint64_t end) {
  std::unique_lock lock(mutex_);
  while (at < end && !stop_) {
    const uint64_t slice = std::min(kSlice, end - at);
    advising_ = true;
    lock.unlock();
    shard.WillNeed(at, slice);
    lock.lock();
    advising_ = false;
    at += slice;
  }
  return at;
}

void Prefetcher::Helper::Forget(size_t position) {
  const auto known = in_use_.find(position);
  if (known == in_use_.end()) return;
  in_use_bytes_ -= known->second.end - known->second.begin;
  in_use_.erase(known);
}

bool Prefetcher::Helper::Fits(uint64_t more) {
  const TimePoint now = Clock::now();
  if (now - memory_asked_ >= std::chrono::seconds(1) || memory_asked_ == TimePoint()) {
    memory_now_ = callbacks_.memory();
    memory_asked_ = now;
  }
  if (in_use_bytes_ + more > memory_now_) ForgetIdle();
  return in_use_bytes_ + more <= memory_now_;
}

void Prefetcher::Helper::ForgetIdle() {
  const TimePoint now = Clock::now();
  if (now - idle_forgotten_ < std::chrono::seconds(1)) return;
  idle_forgotten_ = now;
  std::vector<size_t> idle;
  for (const auto& [position, prefix] : in_use_)
    if (now - callbacks_.last_used(position) >= kIdle) idle.push_back(position);
  for (const size_t position : idle) Forget(position);
}

}  // namespace pcrfs
