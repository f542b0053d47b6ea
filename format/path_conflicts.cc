#include "format/path_conflicts.h"

#include <algorithm>
#include <map>
#include <utility>

namespace pcrfs {
namespace {

uint64_t HashOf(std::string_view path) { return std::hash<std::string_view>{}(path); }

}  // namespace

void PathConflicts::Add(const ShardIndex& index) {
  for (const Entry& entry : index.entries) files_.push_back(HashOf(EntryPath(index, entry)));
  for (const std::string& directory : index.directories) folders_.insert(HashOf(directory));
}

// Hashes of files that another path has, too.
std::unordered_set<uint64_t> PathConflicts::Suspects() {
  std::sort(files_.begin(), files_.end());
  std::unordered_set<uint64_t> suspects;
  for (size_t i = 0; i < files_.size(); ++i)
    if ((i > 0 && files_[i] == files_[i - 1]) || folders_.contains(files_[i])) suspects.insert(files_[i]);
  return suspects;
}

void PathConflicts::Find(const Dataset& dataset, const std::function<void(const Error&)>& on_conflict) {
  const std::unordered_set<uint64_t> suspects = Suspects();
  if (suspects.empty()) return;
  std::map<std::string, std::string> files, folders;  // path to the first shard that has it
  for (size_t i = 0; i < dataset.shard_count(); ++i) {
    auto shard = dataset.OpenShard(i);
    auto index = shard ? dataset.ReadShardIndex(i, **shard) : PassOn(std::move(shard));
    if (!index) continue;
    const std::string& name = dataset.index().rows[i].name;
    for (const Entry& entry : index->entries) {
      const std::string path = EntryPath(*index, entry);
      if (!suspects.contains(HashOf(path))) continue;
      const auto [first, is_first] = files.emplace(path, name);
      if (!is_first)
        on_conflict({ErrorCode::kDamaged, Quoted(path) + " is in two shards, " + first->second + " and " + name});
    }
    for (const std::string& directory : index->directories)
      if (suspects.contains(HashOf(directory))) folders.emplace(directory, name);
  }
  for (const auto& [path, shard] : files)
    if (const auto folder = folders.find(path); folder != folders.end())
      on_conflict(
          {ErrorCode::kDamaged, Quoted(path) + " is a file in " + shard + " and a folder in " + folder->second});
}

}  // namespace pcrfs
