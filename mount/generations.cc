#include "mount/generations.h"

#include <algorithm>

namespace pcrfs {
namespace {

constexpr uint64_t kInoMask = (uint64_t{1} << 48) - 1;

Node LastNode(const FileSystem& files) { return files.catalog().totals().nodes; }

// The last node of the shards that both begin with. Ids are hashes of indexes, and nodes are numbered from indexes.
Result<Node> LastCommonNode(const Catalog& a, const Catalog& b) {
  const auto same = [](const ShardStamp& x, const ShardStamp& y) { return x.id == y.id; };
  const auto differs = std::mismatch(a.shards().begin(), a.shards().end(), b.shards().begin(), b.shards().end(), same);
  const auto common = static_cast<size_t>(differs.first - a.shards().begin());
  return common == 0 ? Result<Node>(kRootNode) : a.LastNodeOf(common - 1);
}

}  // namespace

uint16_t Generation::EpochOf(Node node) const {
  const auto after = std::upper_bound(epochs_.begin(), epochs_.end(), node,
                                      [](Node wanted, const auto& range) { return wanted < range.first; });
  return (after - 1)->second;
}

Generations::Generations(std::shared_ptr<const FileSystem> first) : highest_(LastNode(*first)) {
  std::shared_ptr<const Generation> only(new Generation(std::move(first), {{0, 0}}));
  states_ = std::make_shared<const States>(States{std::move(only)});
}

std::shared_ptr<const Generation> Generations::Current() const {
  const std::lock_guard lock(mutex_);
  return states_->front();
}

std::optional<Generations::Place> Generations::Find(uint64_t node_id) const {
  std::shared_ptr<const States> states;
  {
    const std::lock_guard lock(mutex_);
    states = states_;
  }
  const Ino ino(node_id & kInoMask);
  const auto epoch = static_cast<uint16_t>(node_id >> Generation::kEpochShift);
  for (const auto& generation : *states)
    if (ino.node() <= LastNode(generation->files()) && generation->EpochOf(ino.node()) == epoch)
      return Place{generation, ino};
  return std::nullopt;
}

Result<Generations::Change> Generations::Replace(std::shared_ptr<const FileSystem> files) {
  const auto before = Current();
  const auto same = LastCommonNode(before->files().catalog(), files->catalog());
  if (!same) return tl::unexpected(same.error());
  Generation::Epochs epochs = before->epochs_;
  while (epochs.back().first > *same) epochs.pop_back();
  if (*same < highest_) {
    if (last_epoch_ == UINT16_MAX)
      return Fail(ErrorCode::kLimit, "this mount was refreshed too often to be refreshed again; mount anew");
    epochs.emplace_back(*same + 1, ++last_epoch_);
  }
  highest_ = std::max(highest_, *same);
  if (epochs.back().second != 0) epochs.emplace_back(highest_ + 1, uint16_t{0});
  highest_ = std::max(highest_, LastNode(*files));
  const std::shared_ptr<const Generation> now(new Generation(std::move(files), std::move(epochs)));
  States states{now};
  // One that the new state holds all nodes of will not be asked.
  const bool needed = *same < LastNode(before->files());
  before->files().StepBack();
  const std::lock_guard lock(mutex_);
  for (const auto& state : *states_)
    if (states.size() <= kKept && (needed || state != before)) states.push_back(state);
  states_ = std::make_shared<const States>(std::move(states));
  return Change{before, now, *same};
}

}  // namespace pcrfs
