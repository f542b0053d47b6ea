#include "format/dataset_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "format/file.h"
#include "format/pack_input.h"
#include "format/pack_lock.h"
#include "format/pack_plan.h"

namespace pcrfs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporarySuffix = ".tmp";

bool IsWithin(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder == "/" ? folder : folder + '/');
}

bool IsOwnName(std::string_view name) {
  return name == kDatasetIndexName || name == kPackPlanName || name == kAppendPlanName || name == kPackLockName ||
         ParseShardFileName(name);
}

// Inside a data set, another would be taken for files that do not belong there, and deleted with it.
Result<void> CheckInNoDataset(const std::string& dataset) {
  for (fs::path above = fs::path(dataset).parent_path();; above = above.parent_path()) {
    struct stat status;
    if (stat((above / kDatasetIndexName).c_str(), &status) == 0)
      return Fail(ErrorCode::kInvalidArgument,
                  Quoted(dataset) + " would lie inside the data set " + Quoted(above.string()));
    if (above == above.parent_path()) return {};
  }
}

}  // namespace

Result<std::string> RealPath(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) return SystemFail("resolving " + Quoted(path), error.value());
  std::string text = real.string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

Result<void> CheckApart(const std::string& source, const std::string& dataset) {
  if (!IsWithin(source, dataset) && !IsWithin(dataset, source)) return {};
  return Fail(ErrorCode::kInvalidArgument, "the source folder " + Quoted(source) + " and the data set " +
                                               Quoted(dataset) + " must not contain one another");
}

Result<PackPaths> FindPackPaths(const std::string& source, const std::string& dataset) {
  if (source.empty()) return Fail(ErrorCode::kInvalidArgument, "the path of the source is empty");
  if (dataset.empty()) return Fail(ErrorCode::kInvalidArgument, "the path of the data set is empty");
  auto real_source = source == kStandardInput ? Result<std::string>(source) : RealPath(source);
  if (!real_source) return PassOn(std::move(real_source));
  auto real_dataset = RealPath(dataset);
  if (!real_dataset) return PassOn(std::move(real_dataset));
  if (source != kStandardInput)
    if (auto apart = CheckApart(*real_source, *real_dataset); !apart) return PassOn(std::move(apart));
  if (auto outside = CheckInNoDataset(*real_dataset); !outside) return PassOn(std::move(outside));
  return PackPaths{*std::move(real_source), *std::move(real_dataset)};
}

Result<std::vector<std::string>> NamesIn(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator(); entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error) return SystemFail("listing " + Quoted(folder), error.value());
  return names;
}

bool IsTemporaryName(std::string_view name) {
  return name.ends_with(kTemporarySuffix) && IsOwnName(name.substr(0, name.size() - kTemporarySuffix.size()));
}

Result<void> RemoveFiles(const std::string& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::string path = folder + '/' + name;
    if (unlink(path.c_str()) != 0 && errno != ENOENT) return SystemFail("removing " + Quoted(path), errno);
  }
  return {};
}

Result<uint64_t> FirstFreeShardNumber(const std::string& folder, const DatasetIndex& index) {
  auto names = NamesIn(folder);
  if (!names) return PassOn(std::move(names));
  for (const ShardRow& row : index.rows) names->push_back(row.name);
  uint64_t free = 0;
  for (const std::string& name : *names)
    if (const auto shard = ParseShardFileName(name)) free = std::max(free, shard->number + 1);
  if (free + kMaxRows <= kShardNumberLimit) return free;
  return Fail(ErrorCode::kLimit, Quoted(folder) + " has no shard numbers left below 2^32; pack it anew");
}

Result<uint64_t> PublishDatasetIndex(const std::string& folder, const DatasetIndex& index) {
  auto bytes = EncodeDatasetIndex(index);
  if (!bytes) return PassOn(std::move(bytes));
  auto file = AtomicFile::Create(folder + '/' + std::string(kDatasetIndexName));
  if (!file) return PassOn(std::move(file));
  if (auto written = file->Write(*bytes); !written) return PassOn(std::move(written));
  if (auto committed = file->Commit(); !committed) return PassOn(std::move(committed));
  return bytes->size();
}

}  // namespace pcrfs
