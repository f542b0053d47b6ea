#include "format/remover.h"

#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "format/dataset_edit.h"

namespace pcrfs {
namespace {

struct Wanted {
  bool must_be_folder = false;
  bool found = false;
};

// Which paths are to go.
class Targets {
 public:
  Result<void> Add(const std::string& given) {
    std::string path;
    for (std::string_view rest = given; !rest.empty();) {
      const std::string_view part = rest.substr(0, rest.find('/'));
      rest.remove_prefix(std::min(part.size() + 1, rest.size()));
      if (part.empty() || part == ".") continue;
      if (part == "..") return Fail(ErrorCode::kInvalidArgument, "the path " + Quoted(given) + " has \"..\" in it");
      path += (path.empty() ? "" : "/") + std::string(part);
    }
    if (path.empty())
      return Fail(ErrorCode::kInvalidArgument,
                  "the path " + Quoted(given) + " means the whole data set; delete its folder instead");
    Wanted& wanted = paths_[path];
    wanted.must_be_folder = wanted.must_be_folder || given.back() == '/';
    return {};
  }

  // Marks what is found of them, and tells for each directory of the index (0 = root) whether it goes.
  Result<std::vector<bool>> FoldersThatGo(const ShardIndex& index) {
    std::vector<bool> go{false};
    for (const std::string& path : index.directories) go.push_back(Takes(path));
    return go;
  }
  Result<bool> TakesFile(const std::string& path) {
    const auto found = paths_.find(path);
    if (found == paths_.end()) return false;
    if (found->second.must_be_folder)
      return Fail(ErrorCode::kNotDirectory, Quoted(path) + " is a file, and no folder; nothing was removed");
    found->second.found = true;
    return true;
  }

  [[nodiscard]] Result<void> CheckFound() const {
    std::string missing;
    uint64_t count = 0;
    for (const auto& [path, wanted] : paths_)
      if (!wanted.found && ++count <= 5) missing += (missing.empty() ? "" : ", ") + Quoted(path);
    if (count == 0) return {};
    if (count > 5) missing += " and " + std::to_string(count - 5) + " more";
    return Fail(ErrorCode::kNotFound,
                "not in the data set: " + missing + "; nothing was removed (paths are as 'pcrfs ls' shows them)");
  }

 private:
  // A folder, by itself or with one above it.
  bool Takes(const std::string& path) {
    bool takes = false;
    for (size_t slash = path.find('/');; slash = path.find('/', slash + 1)) {
      const auto found = paths_.find(path.substr(0, slash));
      if (found != paths_.end()) takes = found->second.found = true;
      if (slash == std::string::npos) return takes;
    }
  }

  std::map<std::string, Wanted> paths_;
};

// A shard's index, and what of it goes.
struct Victim {
  std::unique_ptr<FileSource> shard;
  ShardIndex index;
  std::vector<bool> folder_goes;
  std::vector<bool> entry_goes;
  bool concerned = false;
  uint64_t files = 0;
};

Result<Victim> Look(const Dataset& dataset, size_t position, Targets& targets) {
  auto shard = dataset.OpenShard(position);
  if (!shard) return PassOn(std::move(shard));
  auto index = dataset.ReadShardIndex(position, **shard);
  if (!index) return PassOn(std::move(index));
  auto folders = targets.FoldersThatGo(*index);
  if (!folders) return PassOn(std::move(folders));
  Victim victim{*std::move(shard), *std::move(index), *std::move(folders), {}, false, 0};
  for (const bool goes : victim.folder_goes) victim.concerned = victim.concerned || goes;
  for (const Entry& entry : victim.index.entries) {
    const auto itself = targets.TakesFile(EntryPath(victim.index, entry));
    if (!itself) return tl::unexpected(itself.error());
    const bool goes = *itself || victim.folder_goes[entry.directory];
    victim.entry_goes.push_back(goes);
    victim.concerned = victim.concerned || goes;
    victim.files += goes ? 1U : 0U;
  }
  return victim;
}

// Without what goes. A folder stays when all its files go, as with rm.
Result<void> WriteRest(DatasetEdit& edit, const Victim& victim, bool is_last_hope) {
  const ShardIndex& index = victim.index;
  ShardPlan plan;
  plan.root = index.directory_attributes[0];
  for (size_t d = 0; d < index.directories.size(); ++d)
    if (!victim.folder_goes[d + 1])
      plan.directories.push_back({index.directories[d], index.directory_attributes[d + 1]});
  std::vector<EntryInShard> entries;
  for (size_t i = 0; i < index.entries.size(); ++i)
    if (!victim.entry_goes[i]) entries.push_back({victim.shard.get(), &index, &index.entries[i]});
  if (entries.empty() && plan.directories.empty() && !is_last_hope) return {};
  return edit.Write(std::move(plan), entries);
}

}  // namespace

Result<RemoveSummary> Remove(const std::string& path, const std::vector<std::string>& paths) {
  Targets targets;
  if (paths.empty()) return Fail(ErrorCode::kInvalidArgument, "no path was given");
  for (const std::string& given : paths)
    if (auto added = targets.Add(given); !added) return PassOn(std::move(added));
  auto edit = DatasetEdit::Begin(path);
  if (!edit) return PassOn(std::move(edit));
  const Dataset& dataset = edit->dataset();
  RemoveSummary summary;
  std::vector<size_t> concerned;
  std::vector<ShardRow> kept;
  for (size_t i = 0; i < dataset.shard_count(); ++i) {
    const auto victim = Look(dataset, i, targets);
    if (!victim) return tl::unexpected(victim.error());
    const ShardRow& row = dataset.index().rows[i];
    if (!victim->concerned) {
      kept.push_back(row);
      continue;
    }
    concerned.push_back(i);
    summary.files += victim->files;
    ++summary.shards_replaced;
    summary.replaced_bytes += row.file_size;
  }
  if (auto found = targets.CheckFound(); !found) return PassOn(std::move(found));
  for (const size_t i : concerned) {
    const auto victim = Look(dataset, i, targets);
    if (!victim) return tl::unexpected(victim.error());
    // A data set has at least one shard, for the attributes of its root.
    const bool is_last_hope = i == concerned.back() && kept.empty() && edit->written().empty();
    if (auto written = WriteRest(*edit, *victim, is_last_hope); !written) return PassOn(std::move(written));
  }
  for (const ShardRow& row : edit->written()) {
    ++summary.shards_written;
    summary.written_bytes += row.file_size;
  }
  if (auto published = edit->Publish(std::move(kept)); !published) return PassOn(std::move(published));
  return summary;
}

}  // namespace pcrfs
