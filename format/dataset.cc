#include "format/dataset.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "format/pack_plan.h"
#include "format/shard_reader.h"

namespace pcrfs {
namespace {

Result<std::string> AbsolutePath(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> resolved(realpath(path.c_str(), nullptr), &std::free);
  if (resolved == nullptr) return SystemFail("data set " + Quoted(path), errno);
  struct stat status;
  if (stat(resolved.get(), &status) != 0) return SystemFail("data set " + Quoted(path), errno);
  if (!S_ISDIR(status.st_mode)) return Fail(ErrorCode::kNotDirectory, "data set " + Quoted(path) + " is not a folder");
  return std::string(resolved.get());
}

// A folder, FIFO or device in the index's place is as bad as wrong bytes in it.
tl::unexpected<Error> UnreadableIndex(Error error) {
  if (error.code == ErrorCode::kIsDirectory || error.code == ErrorCode::kInvalidArgument)
    error.code = ErrorCode::kDamaged;
  return tl::unexpected<Error>(std::move(error));
}

tl::unexpected<Error> NoIndex(const std::string& folder) {
  const std::string plan = folder + "/" + std::string(kPackPlanName);
  if (struct stat ignored; stat(plan.c_str(), &ignored) == 0) {
    return Fail(
        ErrorCode::kNotFound,
        "data set " + Quoted(folder) + " is not finished: its pack was interrupted. Repeat the same pack to finish it");
  }
  return Fail(ErrorCode::kNotFound, Quoted(folder) + " is no data set: it holds no " + std::string(kDatasetIndexName));
}

}  // namespace

Dataset::Dataset(std::string path, DatasetIndex index) : path_(std::move(path)), index_(std::move(index)) {}

Result<Dataset> Dataset::Open(const std::string& path) {
  auto folder = AbsolutePath(path);
  if (!folder) return PassOn(std::move(folder));
  auto bytes = ReadWholeFile(*folder + "/" + std::string(kDatasetIndexName), kMaxDatasetIndexBytes);
  if (!bytes && bytes.error().code == ErrorCode::kNotFound) return NoIndex(*folder);
  if (!bytes) return UnreadableIndex(std::move(bytes).error());
  auto index = DecodeDatasetIndex(*bytes);
  if (!index) return WithContext("data set " + Quoted(*folder), std::move(index).error());
  return Dataset(std::move(*folder), std::move(*index));
}

std::string Dataset::ShardPath(size_t position) const { return path_ + "/" + index_.rows[position].name; }

Result<std::unique_ptr<FileSource>> Dataset::OpenShard(size_t position) const {
  auto file = FileSource::Open(ShardPath(position), FileSource::Access::kRandom);
  const ShardRow& row = index_.rows[position];
  if (!file && file.error().code == ErrorCode::kNotFound) {
    return Fail(
        ErrorCode::kNotFound,
        "shard " + Quoted(ShardPath(position)) +
            " is missing from its data set; copy it back from where the data set came from, or, if 'pcrfs compact' "
            "deleted it, refresh the mount");
  }
  if (!file) return WithContext("shard " + row.name, std::move(file).error());
  if ((*file)->size() != row.file_size) {
    return Fail(ErrorCode::kStale,
                "shard " + Quoted(ShardPath(position)) + " is not the one that PCR_index.pb lists: expected " +
                    std::to_string(row.file_size) + " bytes, found " + std::to_string((*file)->size()));
  }
  return file;
}

Result<ShardIndex> Dataset::ReadShardIndex(size_t position, const ByteSource& shard) const {
  return pcrfs::ReadShardIndex(shard, index_.rows[position]);
}

}  // namespace pcrfs
