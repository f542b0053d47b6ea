#include "format/memory_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

namespace pcrfs {
namespace {

using namespace std::chrono_literals;

// A thread that claims, says that it has, and holds until it is told to let go.
class Claimant {
 public:
  Claimant(MemoryGate& gate, uint64_t bytes)
      : thread_([this, &gate, bytes] {
          const auto claim = gate.Enter(bytes);
          entered_ = true;
          while (!let_go_) std::this_thread::sleep_for(1ms);
        }) {}
  ~Claimant() { LetGo(); }

  void LetGo() {
    let_go_ = true;
    if (thread_.joinable()) thread_.join();
  }
  [[nodiscard]] bool entered() const { return entered_; }
  void WaitUntilEntered() const {
    while (!entered_) std::this_thread::sleep_for(1ms);
  }

 private:
  std::atomic<bool> entered_ = false, let_go_ = false;
  std::thread thread_;
};

TEST(MemoryGateTest, ClaimsAreCountedAndGivenBack) {
  MemoryGate gate(100);
  {
    const auto first = gate.Enter(60), second = gate.Enter(40), nothing = gate.Enter(0);
    EXPECT_EQ(gate.used(), 100u);
  }
  EXPECT_EQ(gate.used(), 0u);
}

TEST(MemoryGateTest, AClaimShrinksAndMoves) {
  MemoryGate gate(100);
  {
    auto claim = gate.Enter(60);
    claim.ShrinkTo(10);
    claim.ShrinkTo(50);  // there is no way to grow
    EXPECT_EQ(gate.used(), 10u);
    MemoryGate::Claim other = gate.Enter(20);
    other = std::move(claim);
    EXPECT_EQ(other.bytes(), 10u);
  }
  EXPECT_EQ(gate.used(), 0u);
}

TEST(MemoryGateTest, WhoeverWaitsAsksForRoomOnce) {
  std::optional<MemoryGate::Claim> spare;
  int asked = 0;
  MemoryGate gate(100, [&] {
    ++asked;
    spare.reset();
  });
  spare = gate.Enter(100);
  EXPECT_EQ(asked, 0);
  const auto claim = gate.Enter(1);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(gate.used(), 1u);
  EXPECT_FALSE(gate.someone_waits());
}

TEST(MemoryGateTest, WhatDoesNotFitWaits) {
  MemoryGate gate(100);
  Claimant first(gate, 60);
  first.WaitUntilEntered();
  Claimant second(gate, 41);
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(second.entered());
  first.LetGo();
  second.WaitUntilEntered();
}

TEST(MemoryGateTest, WhatIsLargerThanAllOfItEntersAlone) {
  MemoryGate gate(100);
  Claimant small(gate, 1);
  small.WaitUntilEntered();
  Claimant huge(gate, UINT64_MAX);
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(huge.entered());
  small.LetGo();
  huge.WaitUntilEntered();
  Claimant next(gate, 1);
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(next.entered());
  huge.LetGo();
  next.WaitUntilEntered();
}

TEST(MemoryGateTest, SmallClaimsDoNotPassALargeOneThatWaits) {
  MemoryGate gate(100);
  Claimant first(gate, 50);
  first.WaitUntilEntered();
  Claimant large(gate, 90);
  std::this_thread::sleep_for(50ms);  // for its turn
  Claimant small(gate, 10);
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(small.entered());
  first.LetGo();
  large.WaitUntilEntered();
  small.WaitUntilEntered();
}

TEST(MemoryGateTest, ManyThreadsNeverHoldMoreThanTheBudget) {
  MemoryGate gate(1000);
  std::atomic<uint64_t> held = 0, most = 0;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (uint64_t round = 0; round < 200; ++round) {
        const uint64_t bytes = (t * 37 + round * 91) % 700;
        const auto claim = gate.Enter(bytes);
        const uint64_t now = held += bytes;
        for (uint64_t before = most; before < now && !most.compare_exchange_weak(before, now);) {
        }
        held -= bytes;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, 1000u);
  EXPECT_EQ(gate.used(), 0u);
}

}  // namespace
}  // namespace pcrfs
