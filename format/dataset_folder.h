// The folder of a data set as those see it who write there: pack, append, remove, compact. (Readers: dataset.h.)
//
// Free functions without state; what two writers do at once is kept apart by PackLock. Errors: kInvalidArgument
// (folders that contain one another), kLimit (no shard number is free), and those of the system.
#ifndef PCRFS_FORMAT_DATASET_FOLDER_H_
#define PCRFS_FORMAT_DATASET_FOLDER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "format/dataset_index.h"
#include "format/error.h"

namespace pcrfs {

// The plan of an append that is under way, in the form of pack_plan.h. PCR_index.pb lies beside it.
inline constexpr std::string_view kAppendPlanName = "append.plan";

// Absolute and free of links; the last parts need not exist.
[[nodiscard]] Result<std::string> RealPath(const std::string& path);

// Both as RealPath gives them.
[[nodiscard]] Result<void> CheckApart(const std::string& source, const std::string& dataset);

// Of SOURCE (PackInput) and the data set that is to be made of it, as RealPath gives them, after a look at whether that
// can be.
struct PackPaths {
  std::string source, dataset;
};
[[nodiscard]] Result<PackPaths> FindPackPaths(const std::string& source, const std::string& dataset);

[[nodiscard]] Result<std::vector<std::string>> NamesIn(const std::string& folder);

// Whether a file of that name is what a killed writer left half done.
[[nodiscard]] bool IsTemporaryName(std::string_view name);

// Those that are there.
[[nodiscard]] Result<void> RemoveFiles(const std::string& folder, const std::vector<std::string>& names);

// A number above those of all rows, and of all shards that lie in the folder without a row: a mount that is up may
// still read them.
[[nodiscard]] Result<uint64_t> FirstFreeShardNumber(const std::string& folder, const DatasetIndex& index);

// Puts PCR_index.pb in the place of what is there, by one rename; what the shards are is decided then. Returns its
// size.
[[nodiscard]] Result<uint64_t> PublishDatasetIndex(const std::string& folder, const DatasetIndex& index);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_DATASET_FOLDER_H_
