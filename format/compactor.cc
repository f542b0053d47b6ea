#include "format/compactor.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_set>
#include <utility>

#include "format/dataset_edit.h"
#include "format/dataset_folder.h"
#include "format/pack_listing.h"
#include "format/pack_options.h"
#include "format/shard_layout.h"
#include "format/shard_partition.h"

namespace pcrfs {
namespace {

// What a shard takes of the limits of one.
struct ShardWeight {
  uint64_t items = 0, bytes = 0, directories = 0, directory_bytes = 0, published = 0, file = 0;

  ShardWeight operator+(const ShardWeight& o) const {
    return {items + o.items,         bytes + o.bytes, directories + o.directories, directory_bytes + o.directory_bytes,
            published + o.published, file + o.file};
  }
};

ShardWeight WeightOf(const ShardIndex& index, const ShardRow& row) {
  ShardWeight weight;
  std::vector<bool> is_empty(index.directories.size() + 1, true);
  for (const Entry& entry : index.entries) {
    weight.bytes += entry.source_size;
    is_empty[entry.directory] = false;
  }
  // Each folder below another follows that; one that none follows is a leaf.
  for (size_t d = 0; d < index.directories.size(); ++d) {
    const std::string& path = index.directories[d];
    weight.directory_bytes += path.size();
    const auto child = std::lower_bound(index.directories.begin(), index.directories.end(), path + '/');
    const bool is_leaf = child == index.directories.end() || !child->starts_with(path + '/');
    if (is_leaf && is_empty[d + 1]) ++weight.items;
  }
  weight.items += index.entries.size();
  weight.directories = index.directories.size();
  weight.published = PublishedEnd(index);
  weight.file = row.file_size;
  return weight;
}

class Compaction {
 public:
  Compaction(DatasetEdit& edit, const PackOptions& options)
      : edit_(edit), options_(options), limits_{.items = options.record_images, .bytes = options.record_bytes} {}

  // Which shards become one, by their positions.
  Result<void> Plan() {
    std::vector<size_t> group;
    ShardWeight sum;
    for (size_t i = 0; i < dataset().shard_count(); ++i) {
      const auto loaded = Load(i);
      if (!loaded) return tl::unexpected(loaded.error());
      if (i == 0) root_ = loaded->index.directory_attributes[0];
      const ShardWeight weight = WeightOf(loaded->index, dataset().index().rows[i]);
      if (!Fits(weight + weight)) continue;
      if (!group.empty() && !Fits(sum + weight)) {
        TakeGroup(std::exchange(group, {}));
        sum = {};
      }
      group.push_back(i);
      sum = sum + weight;
    }
    TakeGroup(std::move(group));
    return {};
  }

  [[nodiscard]] CompactSummary summary() const {
    CompactSummary summary;
    summary.shards_before = dataset().shard_count();
    for (const auto& group : groups_) summary.shards_merged += group.size();
    summary.shards_after = summary.shards_before - summary.shards_merged + groups_.size();
    return summary;
  }

  Result<void> Run() {
    if (groups_.empty()) return {};
    std::unordered_set<size_t> merged;
    for (const std::vector<size_t>& group : groups_) {
      merged.insert(group.begin(), group.end());
      if (auto written = MergeGroup(group); !written) return written;
    }
    std::vector<ShardRow> kept;
    for (size_t i = 0; i < dataset().shard_count(); ++i)
      if (!merged.contains(i)) kept.push_back(dataset().index().rows[i]);
    return edit_.Publish(std::move(kept));
  }

 private:
  struct Loaded {
    std::unique_ptr<FileSource> shard;
    ShardIndex index;
  };

  [[nodiscard]] const Dataset& dataset() const { return edit_.dataset(); }

  Result<Loaded> Load(size_t position) const {
    auto shard = dataset().OpenShard(position);
    if (!shard) return PassOn(std::move(shard));
    auto index = dataset().ReadShardIndex(position, **shard);
    if (!index) return PassOn(std::move(index));
    return Loaded{*std::move(shard), *std::move(index)};
  }

  [[nodiscard]] bool Fits(const ShardWeight& weight) const {
    return weight.items <= limits_.items && weight.bytes <= limits_.bytes &&
           weight.directories <= limits_.directories && weight.directory_bytes <= limits_.directory_bytes &&
           weight.published < kPublishedEndLimit && weight.file < kMaxFileBytes - kMaxIndexBytes;
  }

  void TakeGroup(std::vector<size_t> group) {
    if (group.size() > 1) groups_.push_back(std::move(group));
  }

  Result<void> MergeGroup(const std::vector<size_t>& group) {
    std::vector<Loaded> loaded;
    for (const size_t position : group) {
      auto one = Load(position);
      if (!one) return PassOn(std::move(one));
      loaded.push_back(*std::move(one));
    }
    ShardPlan plan;
    plan.root = root_;
    std::map<std::string, Attributes> directories;  // those of the first shard count
    std::vector<std::pair<PackKey, EntryInShard>> sorted;
    for (const Loaded& one : loaded) {
      for (size_t d = 0; d < one.index.directories.size(); ++d)
        directories.emplace(one.index.directories[d], one.index.directory_attributes[d + 1]);
      for (const Entry& entry : one.index.entries) {
        SourceRecord item;
        item.path = EntryPath(one.index, entry);
        sorted.emplace_back(PackKey(options_.order, item), EntryInShard{one.shard.get(), &one.index, &entry});
      }
    }
    for (auto& [path, attributes] : directories) plan.directories.push_back({path, attributes});
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<EntryInShard> entries;
    for (size_t i = 0; i < sorted.size(); ++i) {
      if (i > 0 && sorted[i].first == sorted[i - 1].first)
        return Fail(ErrorCode::kDamaged, Quoted(EntryPath(*sorted[i].second.index, *sorted[i].second.entry)) +
                                             " is held by two shards, " + Quoted(sorted[i - 1].second.shard->name()) +
                                             " and " + Quoted(sorted[i].second.shard->name()));
      entries.push_back(sorted[i].second);
    }
    return edit_.Write(std::move(plan), entries);
  }

  DatasetEdit& edit_;
  const PackOptions& options_;
  const ShardLimits limits_;
  Attributes root_;
  std::vector<std::vector<size_t>> groups_;
};

// Shards that `index` does not list, and what killed writers left.
Result<void> FindLeftovers(const std::string& folder, const DatasetIndex& index, std::vector<std::string>& leftovers,
                           CompactSummary& summary) {
  auto names = NamesIn(folder);
  if (!names) return PassOn(std::move(names));
  std::unordered_set<std::string_view> listed;
  for (const ShardRow& row : index.rows) listed.insert(row.name);
  for (std::string& name : *names) {
    if (!IsTemporaryName(name) && (!ParseShardFileName(name) || listed.contains(name))) continue;
    struct stat status;
    if (stat((folder + '/' + name).c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    ++summary.files_deleted;
    summary.bytes_deleted += static_cast<uint64_t>(status.st_size);
    leftovers.push_back(std::move(name));
  }
  return {};
}

}  // namespace

Result<CompactSummary> Compact(const std::string& path, CompactMode mode) {
  auto edit = DatasetEdit::Begin(path);
  if (!edit) return PassOn(std::move(edit));
  const auto options = ParsePackOptions(edit->dataset().index().pack_options);
  if (!options) return WithContext("data set " + Quoted(path), options.error());
  Compaction compaction(*edit, *options);
  if (auto planned = compaction.Plan(); !planned) return PassOn(std::move(planned));
  CompactSummary summary = compaction.summary();
  if (mode == CompactMode::kDo)
    if (auto done = compaction.Run(); !done) return PassOn(std::move(done));
  auto now = Dataset::Open(edit->dataset().path());
  if (!now) return PassOn(std::move(now));
  std::vector<std::string> leftovers;
  if (auto found = FindLeftovers(now->path(), now->index(), leftovers, summary); !found)
    return PassOn(std::move(found));
  if (mode == CompactMode::kOnlyTell) return summary;
  if (auto removed = RemoveFiles(now->path(), leftovers); !removed) return PassOn(std::move(removed));
  return summary;
}

}  // namespace pcrfs
