#include "format/memory_gate.h"

namespace pcrfs {

MemoryGate::Claim MemoryGate::Enter(uint64_t bytes) {
  std::unique_lock lock(mutex_);
  const uint64_t ticket = next_ticket_++;
  const auto fits = [&] { return used_ == 0 || (used_ <= budget_ && bytes <= budget_ - used_); };
  changed_.wait(lock, [&] { return now_served_ == ticket && fits(); });
  ++now_served_;
  used_ += bytes;
  changed_.notify_all();
  return {*this, bytes};
}

uint64_t MemoryGate::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

void MemoryGate::GiveBack(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  used_ -= bytes;
  changed_.notify_all();
}

}  // namespace pcrfs
