#include "format/kept_shard.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "format/dataset_index.h"
#include "format/file.h"

namespace pcrfs {
namespace {

bool HasDirectoriesOf(const PlannedShard& planned, const ShardIndex& index) {
  std::vector<const ShardDirectory*> sorted;
  for (const ShardDirectory& directory : planned.directories) sorted.push_back(&directory);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->path < b->path; });
  if (index.directories.size() != sorted.size() || index.directory_attributes.size() != sorted.size() + 1) return false;
  if (index.directory_attributes[0] != planned.root) return false;
  for (size_t i = 0; i < sorted.size(); ++i)
    if (index.directories[i] != sorted[i]->path || index.directory_attributes[i + 1] != sorted[i]->attributes)
      return false;
  return true;
}

using EntriesByPath = std::unordered_map<std::string, const Entry*>;

EntriesByPath EntriesOf(const ShardIndex& index) {
  EntriesByPath entries;
  for (const Entry& entry : index.entries) entries.emplace(EntryPath(index, entry), &entry);
  return entries;
}

bool HasPathsOf(const PlannedShard& planned, const EntriesByPath& entries) {
  size_t files = 0;
  for (const SourceRecord& item : planned.items) {
    if (item.kind != SourceKind::kFile) continue;
    if (!entries.contains(item.path)) return false;
    ++files;
  }
  return files == entries.size();
}

bool IsWhole(const ByteSource& file, const LoneShard& shard, const LabelMap& labels) {
  bool whole = true;
  CheckShardContent(
      file, shard.row, shard.index, labels, nullptr, [&](const Error&) { whole = false; }, [](uint64_t) {});
  return whole;
}

bool IsCurrent(const PlannedShard& planned, const EntriesByPath& entries, const PackSource& source) {
  return std::all_of(planned.items.begin(), planned.items.end(), [&](const SourceRecord& item) {
    return item.kind != SourceKind::kFile || source.IsCurrent(item, *entries.at(item.path));
  });
}

}  // namespace

Result<std::optional<LoneShard>> FindKeptShard(const std::string& dataset, const PlannedShard& planned,
                                               const PackSource& source, std::string* other) {
  for (const bool has_images : {true, false}) {
    const std::string name = ShardFileName(planned.number, has_images);
    auto file = FileSource::Open(dataset + '/' + name, FileSource::Access::kSequential);
    if (!file && file.error().code == ErrorCode::kShortage) return PassOn(std::move(file));
    if (!file) continue;
    auto shard = ReadLoneShard(**file, name);
    if (!shard) continue;
    const EntriesByPath entries = EntriesOf(shard->index);
    const bool same_paths = HasDirectoriesOf(planned, shard->index) && HasPathsOf(planned, entries);
    // Last, since it may read what can be read only once.
    if (same_paths && !IsWhole(**file, *shard, source.labels())) continue;
    if (same_paths && IsCurrent(planned, entries, source)) return std::move(*shard);
    if (other != nullptr) *other = name;
  }
  return std::nullopt;
}

Result<void> RemoveShard(const std::string& dataset, uint64_t number, std::string_view kept) {
  for (const bool has_images : {true, false}) {
    const std::string name = ShardFileName(number, has_images);
    if (name == kept) continue;
    const std::string path = dataset + '/' + name;
    if (unlink(path.c_str()) != 0 && errno != ENOENT) return SystemFail("removing " + Quoted(path), errno);
  }
  return {};
}

}  // namespace pcrfs
