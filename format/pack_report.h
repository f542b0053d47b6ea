// What a pack tells its observer, from all its threads, one call at a time; and the sums it returns in the end.
//
// Thread-safe. The observer must outlive the report.
#ifndef PCRFS_FORMAT_PACK_REPORT_H_
#define PCRFS_FORMAT_PACK_REPORT_H_

#include <cstdint>
#include <mutex>
#include <string>

#include "format/image_encoder.h"
#include "format/packer.h"

namespace pcrfs {

class PackReport {
 public:
  explicit PackReport(PackObserver& observer) : observer_(observer) {}

  // Of a file of SOURCE, while it is listed.
  void Listed(uint64_t size) {
    const std::lock_guard lock(mutex_);
    observer_.OnListing(++listed_files_, listed_bytes_ += size);
  }
  void SetTotal(uint64_t files, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    progress_.files_total = files;
    progress_.bytes_total = bytes;
    observer_.OnProgress(progress_);
  }
  // `bytes` as the plan lists them, whatever became of the files.
  void Done(uint64_t files, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    progress_.files_done += files;
    progress_.bytes_done += bytes;
    observer_.OnProgress(progress_);
  }
  void Skipped(const std::string& path, const pcrfs::Skipped& why) {
    const std::lock_guard lock(mutex_);
    ++summary_.skipped;
    ++summary_.skipped_by_reason.at(static_cast<size_t>(why.reason));
    observer_.OnSkipped(path, why);
  }
  void Opaque(const std::string& path, const pcrfs::Opaque& why) {
    const std::lock_guard lock(mutex_);
    ++summary_.opaque_by_reason.at(static_cast<size_t>(why.reason));
    observer_.OnOpaque(path, why);
  }
  void NotRestorable(const std::string& path, const std::string& reason) {
    const std::lock_guard lock(mutex_);
    observer_.OnNotRestorable(path, reason);
  }
  void Kept(const std::string& path) {
    const std::lock_guard lock(mutex_);
    observer_.OnKept(path);
  }
  void Changed(const std::string& path, const std::string& detail) {
    const std::lock_guard lock(mutex_);
    ++summary_.changed;
    observer_.OnChanged(path, detail);
  }
  void Gone(const std::string& path) {
    const std::lock_guard lock(mutex_);
    ++summary_.gone;
    observer_.OnGone(path);
  }
  // After the last of all these.
  [[nodiscard]] Result<void> ShardsComplete() { return observer_.OnShardsComplete(); }
  // Adds the counts of a shard that is in place.
  void AddShard(const PackSummary& counts) {
    const std::lock_guard lock(mutex_);
    ++summary_.shards;
    summary_.images += counts.images;
    summary_.images_kept += counts.images_kept;
    summary_.images_not_restorable += counts.images_not_restorable;
    summary_.opaque_files += counts.opaque_files;
    summary_.source_bytes += counts.source_bytes;
    summary_.stored_bytes += counts.stored_bytes;
  }
  // After the last thread is done.
  [[nodiscard]] PackSummary& summary() { return summary_; }

 private:
  std::mutex mutex_;
  PackObserver& observer_;
  uint64_t listed_files_ = 0, listed_bytes_ = 0;
  PackProgress progress_;
  PackSummary summary_;
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_PACK_REPORT_H_
