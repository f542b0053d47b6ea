// A budget of memory in bytes that threads share: who is about to need much claims it first, and waits while others
// hold too much.
//
// First come, first served, so that a large claim is not passed by small ones for ever. A claim larger than the whole
// budget is let in when it is alone. Each waits on a condition of its own, so that what is given back wakes only those
// that may enter. Thread-safe; a claim belongs to one thread at a time and must not outlive its gate, and a thread that
// holds one must not wait for another.
#ifndef PCRFS_FORMAT_MEMORY_GATE_H_
#define PCRFS_FORMAT_MEMORY_GATE_H_

#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <utility>

namespace pcrfs {

class MemoryGate {
 public:
  // `make_room` is called, without a lock, by each that begins to wait: give back what can be done without.
  explicit MemoryGate(uint64_t budget, std::function<void()> make_room = nullptr);
  MemoryGate(const MemoryGate&) = delete;
  MemoryGate& operator=(const MemoryGate&) = delete;

  // Gives its bytes back when it goes.
  class Claim {
   public:
    Claim() = default;  // of nothing
    Claim(Claim&& other) noexcept { *this = std::move(other); }
    Claim& operator=(Claim&& other) noexcept {
      std::swap(gate_, other.gate_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Claim() { ShrinkTo(0); }

    [[nodiscard]] uint64_t bytes() const { return bytes_; }
    // Gives back what is above `bytes`.
    void ShrinkTo(uint64_t bytes);

   private:
    friend class MemoryGate;
    Claim(MemoryGate& gate, uint64_t bytes) : gate_(&gate), bytes_(bytes) {}

    MemoryGate* gate_ = nullptr;
    uint64_t bytes_ = 0;
  };

  // Blocks until there is room.
  [[nodiscard]] Claim Enter(uint64_t bytes);

  // Bytes that are claimed now.
  [[nodiscard]] uint64_t used() const;
  [[nodiscard]] bool someone_waits() const;

 private:
  struct Waiter;

  [[nodiscard]] bool Fits(uint64_t bytes) const;
  void GiveBack(uint64_t bytes);

  const uint64_t budget_;
  const std::function<void()> make_room_;
  mutable std::mutex mutex_;  // guards all that follows
  uint64_t used_ = 0;
  std::list<Waiter*> waiting_;  // in the order of asking
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_MEMORY_GATE_H_
