#include "format/verifier.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "format/dataset_index.h"
#include "format/shard_reader.h"
#include "format/worker_threads.h"

namespace pcrfs {
namespace {

uint64_t HashOf(std::string_view path) { return std::hash<std::string_view>{}(path); }

// Finds paths that cannot all be shown: files that two shards hold, files that are folders elsewhere. Keeps a hash for
// each path, and looks at the paths themselves only where hashes are equal.
class PathHashes {
 public:
  void Add(const ShardIndex& index) {
    for (const Entry& entry : index.entries) files_.push_back(HashOf(EntryPath(index, entry)));
    for (const std::string& directory : index.directories) folders_.insert(HashOf(directory));
  }

  // Hashes of files that another path has, too.
  [[nodiscard]] std::unordered_set<uint64_t> Suspects() {
    std::sort(files_.begin(), files_.end());
    std::unordered_set<uint64_t> suspects;
    for (size_t i = 0; i < files_.size(); ++i)
      if ((i > 0 && files_[i] == files_[i - 1]) || folders_.contains(files_[i])) suspects.insert(files_[i]);
    return suspects;
  }

 private:
  std::vector<uint64_t> files_;
  std::unordered_set<uint64_t> folders_;
};

class Verification {
 public:
  Verification(Dataset dataset, const std::function<void(const Error&)>& on_fault,
               const std::function<void(const VerifyProgress&)>& on_progress)
      : dataset_(std::move(dataset)), labels_(dataset_.index().labels), on_fault_(on_fault), on_progress_(on_progress) {
    for (const ShardRow& row : dataset_.index().rows) progress_.bytes_total += row.file_size;
  }

  Result<VerifySummary> Run(unsigned jobs) {
    RunOnThreads(jobs, [this] {
      for (size_t i = next_++; i < dataset_.shard_count(); i = next_++) CheckShard(i);
    });
    ComparePaths();
    if (auto found = FindUnlisted(); !found) return PassOn(std::move(found));
    return std::move(summary_);
  }

 private:
  void CheckShard(size_t position) {
    const auto on_fault = [this](const Error& fault) { Fault(fault); };
    auto shard = dataset_.OpenShard(position);
    if (!shard) return Fault(shard.error());
    posix_fadvise((*shard)->fd(), 0, 0, POSIX_FADV_SEQUENTIAL);  // it was opened for random access
    auto index = dataset_.ReadShardIndex(position, **shard);
    if (!index) return Fault(index.error());
    Count(*index);
    const ShardRow& row = dataset_.index().rows[position];
    Read(row.file_size - row.index_offset);
    CheckShardContent(**shard, row, *index, labels_, on_fault, [this](uint64_t bytes) { Read(bytes); });
  }

  // Second look, at the few paths whose hashes are equal.
  void ComparePaths() {
    const std::unordered_set<uint64_t> suspects = paths_.Suspects();
    if (suspects.empty()) return;
    std::unordered_map<std::string, std::string> files, folders;  // path to the first shard that has it
    std::vector<std::pair<std::string, std::string>> twice;
    for (size_t i = 0; i < dataset_.shard_count(); ++i) {
      auto shard = dataset_.OpenShard(i);
      auto index = shard ? dataset_.ReadShardIndex(i, **shard) : PassOn(std::move(shard));
      if (!index) continue;  // reported before
      const std::string& name = dataset_.index().rows[i].name;
      for (const Entry& entry : index->entries) {
        const std::string path = EntryPath(*index, entry);
        if (!suspects.contains(HashOf(path))) continue;
        const auto [first, is_first] = files.emplace(path, name);
        if (!is_first)
          Fault({ErrorCode::kDamaged, Quoted(path) + " is in two shards, " + first->second + " and " + name});
      }
      for (const std::string& directory : index->directories)
        if (suspects.contains(HashOf(directory))) folders.emplace(directory, name);
    }
    for (const auto& [path, shard] : files)
      if (const auto folder = folders.find(path); folder != folders.end())
        Fault({ErrorCode::kDamaged, Quoted(path) + " is a file in " + shard + " and a folder in " + folder->second});
  }

  Result<void> FindUnlisted() {
    std::unordered_set<std::string_view> listed;
    for (const ShardRow& row : dataset_.index().rows) listed.insert(row.name);
    std::error_code error;
    for (std::filesystem::directory_iterator entry(dataset_.path(), error), end; !error && entry != end;
         entry.increment(error)) {
      std::string name = entry->path().filename().string();
      if (ParseShardFileName(name) && !listed.contains(name)) summary_.unlisted.push_back(std::move(name));
    }
    if (error) return SystemFail("listing " + Quoted(dataset_.path()), error.value());
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
    ++summary_.faults;
    on_fault_(fault);
  }

  const Dataset dataset_;
  const LabelMap labels_;
  const std::function<void(const Error&)>& on_fault_;
  const std::function<void(const VerifyProgress&)>& on_progress_;
  std::atomic<size_t> next_ = 0;

  std::mutex mutex_;  // guards what follows, and the calls of the two functions
  VerifySummary summary_;
  VerifyProgress progress_;
  PathHashes paths_;
};

// What else keeps PCR_index.pb from being opened says nothing of its bytes.
bool IsFaultOfIndex(ErrorCode code) {
  return code == ErrorCode::kDamaged || code == ErrorCode::kLimit || code == ErrorCode::kUnsupported;
}

}  // namespace

Result<VerifySummary> Verify(const std::string& dataset, unsigned jobs,
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
  return Verification(std::move(*opened), on_fault, on_progress).Run(jobs);
}

}  // namespace pcrfs
