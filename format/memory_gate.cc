#include "format/memory_gate.h"

#include <condition_variable>

namespace pcrfs {

struct MemoryGate::Waiter {
  uint64_t bytes;
  bool may_enter = false;
  std::condition_variable turn = {};
};

MemoryGate::MemoryGate(uint64_t budget, std::function<void()> make_room)
    : budget_(budget), make_room_(std::move(make_room)) {}

bool MemoryGate::Fits(uint64_t bytes) const { return used_ == 0 || (used_ <= budget_ && bytes <= budget_ - used_); }

MemoryGate::Claim MemoryGate::Enter(uint64_t bytes) {
  Waiter self{bytes};
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty() && Fits(bytes)) {
      used_ += bytes;
      return {*this, bytes};
    }
    waiting_.push_back(&self);
  }
  if (make_room_) make_room_();
  std::unique_lock lock(mutex_);
  self.turn.wait(lock, [&] { return self.may_enter; });
  return {*this, bytes};
}

void MemoryGate::GiveBack(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  used_ -= bytes;
  while (!waiting_.empty() && Fits(waiting_.front()->bytes)) {
    Waiter& first = *waiting_.front();
    waiting_.pop_front();
    used_ += first.bytes;
    first.may_enter = true;
    first.turn.notify_one();  // under the lock, since it is gone when it has seen `may_enter`
  }
}

uint64_t MemoryGate::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

bool MemoryGate::someone_waits() const {
  const std::lock_guard lock(mutex_);
  return !waiting_.empty();
}

void MemoryGate::Claim::ShrinkTo(uint64_t bytes) {
  if (bytes >= bytes_) return;
  gate_->GiveBack(bytes_ - bytes);
  bytes_ = bytes;
}

}  // namespace pcrfs
