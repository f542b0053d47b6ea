#include "mount/read_queue.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

namespace pcrfs {
namespace {

constexpr size_t kMostKeptFree = 8;

// Looks that follow one another faster than this are one.
constexpr std::chrono::milliseconds kBetweenLooks{5};

}  // namespace

ReadQueue::ReadQueue(size_t at_once) : at_once_(at_once), watcher_([this] { Watch(); }) {}

ReadQueue::~ReadQueue() { End(); }

size_t ReadQueue::ReadsAtOnce(size_t workers) {
  const size_t kept_free = std::clamp<size_t>(workers / 4, 1, kMostKeptFree);
  return workers > kept_free ? workers - kept_free : 1;
}

void ReadQueue::Allow(size_t at_once) {
  const std::lock_guard lock(mutex_);
  at_once_ = at_once;
}

void ReadQueue::Submit(std::shared_ptr<Read> read) {
  Entries one;
  one.push_back({std::move(read), Clock::now()});
  const auto mine = one.begin();  // also in another list
  switch (Enter(one)) {
    case Place::kRefused:
      return mine->read->Cancel(EIO);
    case Place::kWaiting:
      return;
    case Place::kRunning:
      break;
  }
  for (auto running = std::optional(mine); running; running = Next(*running)) (*running)->read->Run();
}

ReadQueue::Place ReadQueue::Enter(Entries& one) {
  const std::lock_guard lock(mutex_);
  if (refusing_) return Place::kRefused;
  const bool runs = running_.size() < at_once_;
  Entries& place = runs ? running_ : waiting_;
  place.splice(place.end(), one);
  if (std::exchange(asleep_, false)) changed_.notify_all();
  return runs ? Place::kRunning : Place::kWaiting;
}

// In place of a read that has run, one that waits, if there is any.
std::optional<ReadQueue::Entries::iterator> ReadQueue::Next(Entries::iterator done) {
  Entries gone;  // after the lock
  const std::lock_guard lock(mutex_);
  gone.splice(gone.end(), running_, done);
  if (waiting_.empty()) return std::nullopt;
  running_.splice(running_.end(), waiting_, waiting_.begin());
  return std::prev(running_.end());
}

void ReadQueue::Look() {
  const std::lock_guard lock(mutex_);
  look_ = true;
  changed_.notify_all();
}

void ReadQueue::Refuse() {
  Entries refused;
  {
    const std::lock_guard lock(mutex_);
    refusing_ = true;
    refused.swap(waiting_);
  }
  for (const Entry& entry : refused) entry.read->Cancel(EIO);
}

void ReadQueue::End() {
  Refuse();
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

void ReadQueue::Watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (running_.empty() && waiting_.empty()) {
      // Only after a while without a read, so that one that comes alone costs no waking up.
      asleep_ = true;
      look_ = false;
      changed_.wait(lock, [this] { return stop_ || !asleep_; });
    }
    changed_.wait_for(lock, kPatience, [this] { return stop_ || look_; });
    if (stop_) return;
    const auto now = Clock::now();
    const auto suspects = Suspects(std::exchange(look_, false) ? now : now - kPatience);
    lock.unlock();
    std::vector<std::shared_ptr<Read>> cancelled;
    for (const auto& read : suspects) {
      if (!read->Abandoned()) continue;
      read->Cancel(EINTR);
      cancelled.push_back(read);
    }
    lock.lock();
    Forget(cancelled);
    if (!suspects.empty()) changed_.wait_for(lock, kBetweenLooks, [this] { return stop_; });
  }
}

// Reads that were submitted at `since` or before.
std::vector<std::shared_ptr<ReadQueue::Read>> ReadQueue::Suspects(Clock::time_point since) const {
  std::vector<std::shared_ptr<Read>> suspects;
  for (const Entries* entries : {&running_, &waiting_})
    for (const Entry& entry : *entries)
      if (entry.since <= since) suspects.push_back(entry.read);
  return suspects;
}

// Takes them out of the queue; those that run stay until they have.
void ReadQueue::Forget(const std::vector<std::shared_ptr<Read>>& cancelled) {
  for (const auto& read : cancelled) waiting_.remove_if([&](const Entry& entry) { return entry.read == read; });
}

}  // namespace pcrfs
