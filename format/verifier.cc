#include "format/verifier.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "format/dataset_folder.h"
#include "format/dataset_index.h"
#include "format/memory_gate.h"
#include "format/path_conflicts.h"
#include "format/shard_reader.h"
#include "format/worker_threads.h"

namespace pcrfs {
namespace {

// An index and what is decoded from it (shard_index.h), in bytes of the former; what is read of a shard at a time.
constexpr uint64_t kDecodedIndex = 5;
constexpr uint64_t kWindowBytes = uint64_t{2} << 20;

class Verification {
 public:
  Verification(Dataset dataset, const VerifyOptions& options, const std::function<void(const Error&)>& on_fault,
               const std::function<void(const VerifyProgress&)>& on_progress)
      : dataset_(std::move(dataset)),
        options_(options),
        labels_(dataset_.index().labels),
        on_fault_(on_fault),
        on_progress_(on_progress) {
    for (const ShardRow& row : dataset_.index().rows) progress_.bytes_total += row.file_size;
  }

  Result<VerifySummary> Run() {
    RunOnThreads(options_.jobs, [this] {
      for (size_t i = next_++; i < dataset_.shard_count() && !failed_; i = next_++) CheckShard(i);
    });
    if (failed_) return tl::unexpected<Error>(*std::move(failure_));
    paths_.Find(dataset_, [this](const Error& fault) { Fault(fault); });
    if (auto found = FindUnlisted(); !found) return PassOn(std::move(found));
    return std::move(summary_);
  }

 private:
  void CheckShard(size_t position) {
    const auto on_fault = [this](const Error& fault) { Fault(fault); };
    const ShardRow& row = dataset_.index().rows[position];
    const auto claim = index_memory_.Enter(kDecodedIndex * row.index_length + kWindowBytes);
    auto shard = dataset_.OpenShard(position);
    if (!shard) return Fault(shard.error());
    posix_fadvise((*shard)->fd(), 0, 0, POSIX_FADV_SEQUENTIAL);  // it was opened for random access
    auto index = dataset_.ReadShardIndex(position, **shard);
    if (!index) return Fault(index.error());
    Count(*index);
    Read(row.file_size - row.index_offset);
    CheckShardContent(**shard, row, *index, labels_, options_.restore ? &restore_memory_ : nullptr, on_fault,
                      [this](uint64_t bytes) { Read(bytes); });
  }

  Result<void> FindUnlisted() {
    std::unordered_set<std::string_view> listed;
    for (const ShardRow& row : dataset_.index().rows) listed.insert(row.name);
    auto names = NamesIn(dataset_.path());
    if (!names) return PassOn(std::move(names));
    for (std::string& name : *names)
      if (ParseShardFileName(name) && !listed.contains(name)) summary_.unlisted.push_back(std::move(name));
    std::sort(summary_.unlisted.begin(), summary_.unlisted.end());
    return {};
  }

  void Count(const ShardIndex& index) {
    const std::lock_guard lock(mutex_);
    ++summary_.shards;
    summary_.entries += index.entries.size();
    paths_.Add(index);
  }

  void Read(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    summary_.bytes += bytes;
    progress_.bytes_done += bytes;
    on_progress_(progress_);
  }

  void Fault(const Error& fault) {
    const std::lock_guard lock(mutex_);
    if (fault.code == ErrorCode::kShortage) {
      failure_ = fault;
      failed_ = true;
      return;
    }
    ++summary_.faults;
    on_fault_(fault);
  }

  const Dataset dataset_;
  const VerifyOptions options_;
  const LabelMap labels_;
  const std::function<void(const Error&)>& on_fault_;
  const std::function<void(const VerifyProgress&)>& on_progress_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> failed_ = false;
  // A thread waits for the second while it holds some of the first, never the other way round.
  MemoryGate index_memory_{kVerifyIndexBytes};
  MemoryGate restore_memory_{kVerifyRestoreBytes};

  std::mutex mutex_;              // guards what follows, and the calls of the two functions
  std::optional<Error> failure_;  // what is no fault of the data set
  VerifySummary summary_;
  VerifyProgress progress_;
  PathConflicts paths_;
};

// What else keeps PCR_index.pb from being opened says nothing of its bytes.
bool IsFaultOfIndex(ErrorCode code) {
  return code == ErrorCode::kDamaged || code == ErrorCode::kLimit || code == ErrorCode::kUnsupported;
}

}  // namespace

Result<VerifySummary> Verify(const std::string& dataset, const VerifyOptions& options,
                             const std::function<void(const Error&)>& on_fault,
                             const std::function<void(const VerifyProgress&)>& on_progress) {
  auto opened = Dataset::Open(dataset);
  if (!opened && IsFaultOfIndex(opened.error().code)) {
    on_fault(opened.error());
    VerifySummary summary;
    summary.faults = 1;
    return summary;
  }
  if (!opened) return PassOn(std::move(opened));
  return Verification(std::move(*opened), options, on_fault, on_progress).Run();
}

}  // namespace pcrfs
