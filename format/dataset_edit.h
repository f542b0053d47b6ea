// A change of a data set that is there: some of its shards are replaced by new ones, under new numbers, by one rename
// of PCR_index.pb. Until that the data set is the old one, after it the new one, whenever the process is killed;
// replaced shards stay in the folder, without a row, for mounts that still show them.
//
// Ownership: holds the data set's lock; new shards of an edit that was not published are removed with it. One thread.
// Errors: kBusy (another writer), kInvalidArgument (an unfinished pack or append), those of Dataset and of writing.
#ifndef PCRFS_FORMAT_DATASET_EDIT_H_
#define PCRFS_FORMAT_DATASET_EDIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "format/dataset.h"
#include "format/error.h"
#include "format/pack_lock.h"
#include "format/shard_copier.h"

namespace pcrfs {

class DatasetEdit {
 public:
  [[nodiscard]] static Result<DatasetEdit> Begin(const std::string& dataset);
  ~DatasetEdit();
  DatasetEdit(DatasetEdit&&) noexcept = default;
  DatasetEdit& operator=(DatasetEdit&&) = delete;

  [[nodiscard]] const Dataset& dataset() const { return dataset_; }
  // Writes a shard under the next free number; folder and number of `plan` are filled in.
  [[nodiscard]] Result<void> Write(ShardPlan plan, const std::vector<EntryInShard>& entries);
  [[nodiscard]] const std::vector<ShardRow>& written() const { return written_; }
  // The data set of the rows that are kept, and of what was written.
  [[nodiscard]] Result<void> Publish(std::vector<ShardRow> kept);

 private:
  DatasetEdit(PackLock lock, Dataset dataset, uint64_t next_number);

  PackLock lock_;
  Dataset dataset_;
  LabelMap labels_;
  uint64_t next_number_;
  std::vector<ShardRow> written_;
  std::string unpublished_in_;  // the folder
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_DATASET_EDIT_H_
