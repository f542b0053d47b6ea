// A data set opened for reading: its list of shards, and each shard's index on demand.
//
// Owns the list of shards (about 200 bytes a shard); shards are opened, read and closed by the caller.
// const methods may be called from many threads. Errors name the shard: kNotFound for a missing one, kDamaged,
// kStale when a shard is not the one that PCR_index.pb lists, kUnsupported.
#ifndef PCRFS_FORMAT_DATASET_H_
#define PCRFS_FORMAT_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "format/dataset_index.h"
#include "format/error.h"
#include "format/file.h"
#include "format/level.h"
#include "format/shard_index.h"

namespace pcrfs {

class Dataset {
 public:
  // `path` is a folder. Without PCR_index.pb it is refused, with the advice to repeat the pack where pack.plan lies.
  [[nodiscard]] static Result<Dataset> Open(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }  // absolute
  [[nodiscard]] const DatasetIndex& index() const { return index_; }
  [[nodiscard]] size_t shard_count() const { return index_.rows.size(); }
  // How many levels are shown: 10 in data sets of ours, also in empty ones.
  [[nodiscard]] int levels() const { return kShardLevels; }

  // The path of shard number `position` (in row order) and the shard itself, opened for random access; its size is
  // checked against the row.
  [[nodiscard]] std::string ShardPath(size_t position) const;
  [[nodiscard]] Result<std::unique_ptr<FileSource>> OpenShard(size_t position) const;
  // The shard's index by exactly one read, checked against the row's CRC and id and against the file's size, and its
  // footer's claims against the row's.
  [[nodiscard]] Result<ShardIndex> ReadShardIndex(size_t position, const ByteSource& shard) const;

 private:
  Dataset(std::string path, DatasetIndex index);

  std::string path_;
  DatasetIndex index_;
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_DATASET_H_
