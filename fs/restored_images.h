// Images restored on demand, and the few results that are kept while they are being read.
//
// A reader who asks for an image that is not here restores it in its own thread; others who want the same one wait for
// that and share the result. Before a restore starts, its memory is claimed at one gate (format/memory_gate.h).
// A result stays until its readers have had as many bytes as it has, its end among them, or until nobody has read it
// for a while (`idle`); when others wait for memory, those not read lately go sooner, and all of them when nothing is
// being restored. That bytes did not match their checksums is kept, too, so that the kernel, which asks again page by
// page, does not set going a restore each time; but not for longer than `lately`, since they may have been repaired.
// Other errors are not kept.
//
// Ownership: owns the results, and a thread that drops what is idle and sleeps while nothing is kept. Thread safety:
// all methods from any number of threads; memory is waited for in the order of asking. Units: bytes. Errors: those
// of the work, kIo when memory cannot be had.
#ifndef PCRFS_FS_RESTORED_IMAGES_H_
#define PCRFS_FS_RESTORED_IMAGES_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include "format/bytes.h"
#include "format/error.h"
#include "format/memory_gate.h"

namespace pcrfs {

inline constexpr uint64_t kDefaultRestoreMemory = uint64_t{256} << 20;

class RestoredImages {
 public:
  struct Options {
    uint64_t memory = kDefaultRestoreMemory;
    std::chrono::milliseconds idle{5000};
    std::chrono::milliseconds lately{1000};
  };

  // How to restore an image. Both are called by one thread, one after the other.
  struct Work {
    std::function<Result<uint64_t>()> memory;  // bytes that `restore` takes at most, with its result
    std::function<Result<Bytes>()> restore;
  };

  explicit RestoredImages(const Options& options);
  ~RestoredImages();
  RestoredImages(const RestoredImages&) = delete;
  RestoredImages& operator=(const RestoredImages&) = delete;

  // Fills `out` with the bytes of image `key` from `offset`, all of which it must have (kDamaged).
  [[nodiscard]] Result<void> Read(uint64_t key, const Work& work, uint64_t offset, MutableByteSpan out);
  // The same when the image is here; false when it would have to be waited for, or failed.
  [[nodiscard]] bool ReadAtHand(uint64_t key, uint64_t offset, MutableByteSpan out);

  // Bytes claimed: by results and by what is being restored.
  [[nodiscard]] uint64_t memory_used() const { return gate_.used(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Image;
  using Images = std::list<Image>;

  [[nodiscard]] std::optional<Images::iterator> FindAtHand(uint64_t key);
  [[nodiscard]] Images::iterator FindOrRestore(uint64_t key, const Work& work);
  void Restore(Image& image, const Work& work);
  [[nodiscard]] Result<void> CopyAndLeave(Images::iterator image, uint64_t offset, MutableByteSpan out);
  void Join(Images::iterator image);
  void Leave(Images::iterator image);
  void Drop(Images& from, Images::iterator image);
  void Forget(Images::iterator image);
  void MakeRoom();
  void DropWhatIsIdle();

  const Options options_;
  MemoryGate gate_;
  std::mutex mutex_;  // never taken while the gate's is held
  Images busy_;       // being restored, or some reader has it now
  Images idle_;       // the longest unread first
  std::unordered_map<uint64_t, Images::iterator> by_key_;
  uint64_t kept_bytes_ = 0;  // the results' part of what is claimed
  bool stop_ = false;
  std::condition_variable changed_;
  std::thread sweeper_;  // last: it uses all of the above
};

}  // namespace pcrfs

#endif  // PCRFS_FS_RESTORED_IMAGES_H_
