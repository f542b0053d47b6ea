#include "format/shard_partition.h"

#include <string_view>
#include <utility>

#include "format/path_parts.h"

namespace pcrfs {
namespace {

bool IsBelow(std::string_view path, std::string_view folder) {
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

}  // namespace

ShardPartition::Step ShardPartition::Place(const SourceRecord& item) {
  const std::string_view deepest =
      item.kind == SourceKind::kEmptyFolder ? std::string_view(item.path) : ParentOf(item.path);
  Step step;
  uint64_t new_bytes = 0;
  const auto count_new = [&] {
    step.new_directories = 0, new_bytes = 0;
    // The set holds with each folder all those above it.
    for (std::string_view path = deepest; !path.empty() && !directories_.contains(std::string(path));
         path = ParentOf(path))
      ++step.new_directories, new_bytes += path.size();
  };
  count_new();
  step.starts_shard = items_ == 0 || IsFull(item, step.new_directories, new_bytes);
  if (step.starts_shard) {
    CloseShard();
    count_new();
  }
  ++items_;
  bytes_ += item.size;
  directory_bytes_ += new_bytes;
  std::string_view path = deepest;
  for (size_t i = 0; i < step.new_directories; ++i, path = ParentOf(path)) directories_.emplace(path);
  return step;
}

void ShardPartition::CloseShard() {
  items_ = bytes_ = directory_bytes_ = 0;
  directories_.clear();
}

bool ShardPartition::IsFull(const SourceRecord& item, size_t new_directories, uint64_t new_bytes) const {
  return items_ >= limits_.items || bytes_ + item.size > limits_.bytes ||
         directories_.size() + new_directories > limits_.directories ||
         directory_bytes_ + new_bytes > limits_.directory_bytes;
}

Result<std::optional<PlannedShard>> PlannedShards::Next() {
  while (!at_end_) {
    auto item = NextItem();
    if (!item) return PassOn(std::move(item));
    const bool was_empty = shard_.items.empty();
    if (!*item) {
      at_end_ = true;
      // A source without items still has one shard, for the root's attributes.
      if (was_empty && shard_.number > first_) return std::nullopt;
      return std::move(shard_);
    }
    const ShardPartition::Step step = partition_.Place(**item);
    if (!step.starts_shard || was_empty) {
      Put(std::move(**item), step.new_directories);
      continue;
    }
    PlannedShard whole = std::exchange(shard_, PlannedShard{shard_.number + 1, *root_, {}, {}, 0});
    Put(std::move(**item), step.new_directories);
    return whole;
  }
  return std::nullopt;
}

// The next record that is an item, with above_ brought up to it.
Result<std::optional<SourceRecord>> PlannedShards::NextItem() {
  while (true) {
    auto record = records_.Next();
    if (!record) return PassOn(std::move(record));
    if (!root_) {
      if (!*record || !(*record)->path.empty())
        return Fail(ErrorCode::kDamaged, "the plan does not begin with the source folder");
      root_ = shard_.root = (*record)->attributes;
      continue;
    }
    if (!*record) return std::nullopt;
    const std::string& path = (*record)->path;
    while (!above_.empty() && !IsBelow(path, above_.back().path)) above_.pop_back();
    if (path.empty() || ParentOf(path) != (above_.empty() ? std::string_view() : above_.back().path))
      return Fail(ErrorCode::kDamaged, "the plan lists " + Quoted(path) + " without the folder that holds it");
    if ((*record)->is_item()) return record;
    above_.push_back({path, (*record)->attributes});
  }
}

void PlannedShards::Put(SourceRecord item, size_t new_directories) {
  if (item.kind == SourceKind::kEmptyFolder && new_directories > 0) {
    shard_.directories.push_back({item.path, item.attributes});
    --new_directories;
  }
  for (size_t i = above_.size() - new_directories; i < above_.size(); ++i) shard_.directories.push_back(above_[i]);
  shard_.bytes += item.size;
  shard_.items.push_back(std::move(item));
}

Result<uint64_t> CountShards(PackPlan::Cursor records, const ShardLimits& limits) {
  ShardPartition partition(limits);
  uint64_t shards = 0;
  while (true) {
    auto record = records.Next();
    if (!record) return PassOn(std::move(record));
    if (!*record) return shards;
    if ((*record)->is_item()) shards += partition.Place(**record).starts_shard ? 1U : 0U;
  }
}

}  // namespace pcrfs
