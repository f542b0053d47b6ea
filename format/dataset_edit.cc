#include "format/dataset_edit.h"

#include <sys/stat.h>

#include <utility>

#include "format/dataset_folder.h"
#include "format/pack_plan.h"

namespace pcrfs {
namespace {

Result<void> CheckFinished(const std::string& folder) {
  for (const auto& [name, what] : {std::pair{kPackPlanName, "a pack"}, std::pair{kAppendPlanName, "an append"}}) {
    struct stat status;
    if (stat((folder + '/' + std::string(name)).c_str(), &status) == 0)
      return Fail(ErrorCode::kInvalidArgument, std::string(what) + " to " + Quoted(folder) +
                                                   " was interrupted; repeat it first, so that it is finished");
  }
  return {};
}

}  // namespace

Result<DatasetEdit> DatasetEdit::Begin(const std::string& path) {
  // Before the lock, so that nothing is made where there is no data set.
  auto there = Dataset::Open(path);
  if (!there) return PassOn(std::move(there));
  auto lock = PackLock::Acquire(there->path());
  if (!lock) return PassOn(std::move(lock));
  if (auto finished = CheckFinished(there->path()); !finished) return PassOn(std::move(finished));
  auto dataset = Dataset::Open(there->path());
  if (!dataset) return PassOn(std::move(dataset));
  const auto number = FirstFreeShardNumber(dataset->path(), dataset->index());
  if (!number) return tl::unexpected(number.error());
  return DatasetEdit(*std::move(lock), *std::move(dataset), *number);
}

DatasetEdit::DatasetEdit(PackLock lock, Dataset dataset, uint64_t next_number)
    : lock_(std::move(lock)),
      dataset_(std::move(dataset)),
      labels_(dataset_.index().labels),
      next_number_(next_number),
      unpublished_in_(dataset_.path()) {}

DatasetEdit::~DatasetEdit() {
  if (unpublished_in_.empty()) return;
  std::vector<std::string> names;
  for (const ShardRow& row : written_) names.push_back(row.name);
  (void)RemoveFiles(unpublished_in_, names);
}

Result<void> DatasetEdit::Write(ShardPlan plan, const std::vector<EntryInShard>& entries) {
  plan.folder = dataset_.path();
  plan.number = next_number_;
  auto row = CopyToShard(std::move(plan), entries, labels_);
  if (!row) return PassOn(std::move(row));
  ++next_number_;
  written_.push_back(*std::move(row));
  return {};
}

Result<void> DatasetEdit::Publish(std::vector<ShardRow> kept) {
  DatasetIndex index = dataset_.index();
  index.rows = std::move(kept);
  index.rows.insert(index.rows.end(), written_.begin(), written_.end());
  if (auto held = lock_.CheckHeld(); !held) return held;
  // From here on it is not known which of the two a failure leaves; shards without a row do no harm.
  unpublished_in_.clear();
  if (const auto published = PublishDatasetIndex(dataset_.path(), index); !published)
    return tl::unexpected(published.error());
  return {};
}

}  // namespace pcrfs
