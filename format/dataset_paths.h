// All paths of a data set in the order in which SourceTree gives those of a folder: byte-sorted, a folder's path with
// '/' at its end. So a data set and its source are compared by walking both once.
//
// Read reads the indexes of all shards, one in memory at a time; the paths go through a SortedSpool, so memory does not
// grow with their number. One thread. Errors: those of Dataset and SortedSpool.
#ifndef PCRFS_FORMAT_DATASET_PATHS_H_
#define PCRFS_FORMAT_DATASET_PATHS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "format/dataset.h"
#include "format/error.h"
#include "format/sorted_spool.h"

namespace pcrfs {

struct DatasetPath {
  enum class Kind : uint8_t {
    kFile,
    kFolder,
    kFolderAhead,  // a folder's path without '/', where a file of its name would stand
  };
  std::string key;  // path; of kFolder with '/' behind it
  Kind kind = Kind::kFile;
  uint64_t size = 0;  // of a file's source, in bytes
  int64_t mtime_ns = 0;
};

class DatasetPaths {
 public:
  // `spool` names the folder for a temporary file, as SortedSpool has it.
  [[nodiscard]] static Result<DatasetPaths> Read(const Dataset& dataset, const std::string& spool);

  // The next path, nothing after the last. A folder that several shards list comes once; a path that two shards hold,
  // which is damage, as often as they do.
  [[nodiscard]] Result<std::optional<DatasetPath>> Next();

 private:
  explicit DatasetPaths(SortedSpool spool) : spool_(std::move(spool)) {}

  SortedSpool spool_;
  std::optional<DatasetPath> last_;
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_DATASET_PATHS_H_
