#include "fs/restored_images.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

namespace pcrfs {

struct RestoredImages::Image {
  uint64_t key = 0;
  bool done = false;
  Result<Bytes> result = Bytes();
  MemoryGate::Claim claim = {};
  std::condition_variable is_done = {};
  size_t readers = 0;       // that have it now or wait for it
  uint64_t bytes_read = 0;  // by all of them
  bool end_read = false;
  bool forgotten = false;  // only its present readers know of it
  Clock::time_point last_read = {}, restored = {};

  // Nobody is going to want it, as far as can be told.
  [[nodiscard]] bool used_up() const {
    if (forgotten) return true;
    if (!result) return result.error().code != ErrorCode::kDamaged;
    return end_read && bytes_read >= result->size();
  }
};

RestoredImages::RestoredImages(const Options& options)
    : options_(options),
      gate_(options.memory,
            [this] {
              const std::lock_guard lock(mutex_);
              MakeRoom();
            }),
      sweeper_([this] { DropWhatIsIdle(); }) {}

RestoredImages::~RestoredImages() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  sweeper_.join();
}

Result<void> RestoredImages::Read(uint64_t key, const Work& work, uint64_t offset, MutableByteSpan out) {
  return CopyAndLeave(FindOrRestore(key, work), offset, out);
}

bool RestoredImages::ReadAtHand(uint64_t key, uint64_t offset, MutableByteSpan out) {
  const auto image = FindAtHand(key);
  return image && CopyAndLeave(*image, offset, out).has_value();
}

std::optional<RestoredImages::Images::iterator> RestoredImages::FindAtHand(uint64_t key) {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end() || !found->second->done || !found->second->result) return std::nullopt;
  Join(found->second);
  return found->second;
}

RestoredImages::Images::iterator RestoredImages::FindOrRestore(uint64_t key, const Work& work) {
  std::unique_lock lock(mutex_);
  auto found = by_key_.find(key);
  if (found != by_key_.end() && found->second->done && !found->second->result &&
      Clock::now() - found->second->restored >= options_.lately) {
    Forget(found->second);
    found = by_key_.end();
  }
  if (found != by_key_.end()) {
    const auto image = found->second;
    Join(image);
    image->is_done.wait(lock, [&] { return image->done; });
    return image;
  }
  Images made;
  const auto image = made.emplace(made.end());
  image->key = key;
  image->readers = 1;
  by_key_.emplace(key, image);
  busy_.splice(busy_.end(), made);
  lock.unlock();
  Restore(*image, work);
  return image;
}

// Whatever happens, those who wait for the image are told.
void RestoredImages::Restore(Image& image, const Work& work) {
  Result<Bytes> result = Fail(ErrorCode::kIo, "there was not enough memory to restore the image");
  MemoryGate::Claim claim;
  try {
    const auto memory = work.memory();
    if (memory) {
      claim = gate_.Enter(*memory);
      result = work.restore();
    } else {
      result = tl::unexpected<Error>(memory.error());
    }
  } catch (const std::exception&) {  // bad_alloc; `result` says so
  }
  const std::lock_guard lock(mutex_);
  claim.ShrinkTo(result ? result->size() : 0);
  kept_bytes_ += claim.bytes();
  image.claim = std::move(claim);
  image.result = std::move(result);
  image.restored = Clock::now();
  image.done = true;
  image.is_done.notify_all();
  MakeRoom();
}

Result<void> RestoredImages::CopyAndLeave(Images::iterator image, uint64_t offset, MutableByteSpan out) {
  // What is done never changes, and a reader keeps it here.
  Result<void> copied;
  if (!image->result) {
    copied = tl::unexpected<Error>(image->result.error());
  } else if (offset > image->result->size() || out.size() > image->result->size() - offset) {
    copied = Fail(ErrorCode::kDamaged, "a restored image is of another size than its index says");
  } else {
    std::copy_n(image->result->begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
  }
  const std::lock_guard lock(mutex_);
  if (copied) {
    image->bytes_read += out.size();
    image->end_read = image->end_read || offset + out.size() == image->result->size();
  }
  Leave(image);
  return copied;
}

void RestoredImages::Join(Images::iterator image) {
  if (image->readers++ == 0) busy_.splice(busy_.end(), idle_, image);
}

void RestoredImages::Leave(Images::iterator image) {
  if (--image->readers > 0) return;
  if (image->used_up()) {
    Drop(busy_, image);
  } else {
    image->last_read = Clock::now();
    const bool sweeper_sleeps = idle_.empty();
    idle_.splice(idle_.end(), busy_, image);
    if (sweeper_sleeps) changed_.notify_one();
  }
  MakeRoom();
}

void RestoredImages::Drop(Images& from, Images::iterator image) {
  kept_bytes_ -= image->claim.bytes();
  if (!image->forgotten) by_key_.erase(image->key);
  from.erase(image);
}

// Whoever asks for it next restores it anew; those who have it now keep it.
void RestoredImages::Forget(Images::iterator image) {
  if (image->readers == 0) return Drop(idle_, image);
  by_key_.erase(image->key);
  image->forgotten = true;
}

// What was read lately will probably be read on; restoring it again would cost more than to wait for what runs.
void RestoredImages::MakeRoom() {
  while (!idle_.empty() && gate_.someone_waits()) {
    const bool read_lately = Clock::now() - idle_.front().last_read < options_.lately;
    if (read_lately && gate_.used() > kept_bytes_) return;
    Drop(idle_, idle_.begin());
  }
}

void RestoredImages::DropWhatIsIdle() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (idle_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const Clock::time_point until = idle_.front().last_read + options_.idle;
    if (Clock::now() >= until)
      Drop(idle_, idle_.begin());
    else
      changed_.wait_until(lock, until);
  }
}

}  // namespace pcrfs
