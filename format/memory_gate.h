// A budget of memory in bytes that threads share: who is about to need much claims it first, and waits while others
// hold too much.
//
// First come, first served, so that a large claim is not passed by small ones for ever. A claim larger than the whole
// budget is let in when it is alone. Thread-safe; claims must not outlive their gate, and a thread that holds one must
// not wait for another.
#ifndef PCRFS_FORMAT_MEMORY_GATE_H_
#define PCRFS_FORMAT_MEMORY_GATE_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

namespace pcrfs {

class MemoryGate {
 public:
  explicit MemoryGate(uint64_t budget) : budget_(budget) {}

  // Gives its bytes back when it goes.
  class Claim {
   public:
    Claim(Claim&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)), bytes_(other.bytes_) {}
    Claim& operator=(Claim&&) = delete;
    ~Claim() {
      if (gate_ != nullptr) gate_->GiveBack(bytes_);
    }

   private:
    friend class MemoryGate;
    Claim(MemoryGate& gate, uint64_t bytes) : gate_(&gate), bytes_(bytes) {}

    MemoryGate* gate_;
    uint64_t bytes_;
  };

  // Blocks until there is room.
  [[nodiscard]] Claim Enter(uint64_t bytes);

  // Bytes that are claimed now.
  [[nodiscard]] uint64_t used() const;

 private:
  void GiveBack(uint64_t bytes);

  const uint64_t budget_;
  mutable std::mutex mutex_;  // guards all that follows
  std::condition_variable changed_;
  uint64_t used_ = 0;
  uint64_t next_ticket_ = 0;  // of who comes next
  uint64_t now_served_ = 0;   // the ticket of who may enter next
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_MEMORY_GATE_H_
