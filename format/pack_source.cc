#include "format/pack_source.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

namespace pcrfs {

Result<std::vector<HeldContent>> PackSource::Read(const PlannedShard& shard, const std::vector<bool>& /*wanted*/) {
  return std::vector<HeldContent>(shard.items.size());
}

FolderSource::FolderSource(int folder, std::string path, const PackPlan& plan, const ShardLimits& limits,
                           uint64_t first_shard, const std::vector<std::string>* labels)
    : folder_(folder),
      path_(std::move(path)),
      labels_(labels != nullptr ? *labels : plan.summary().labels),
      planned_(plan.Records(), limits, first_shard) {}

Result<std::unique_ptr<SourceFile>> FolderSource::Open(const SourceRecord& item) const {
  return SourceFile::Open(folder_, item.path);
}

bool FolderSource::IsCurrent(const SourceRecord& item, const Entry& entry) const {
  struct stat status;
  if (fstatat(folder_, item.path.c_str(), &status, 0) != 0) return true;
  return S_ISREG(status.st_mode) && static_cast<uint64_t>(status.st_size) == entry.source_size &&
         AttributesOf(status) == entry.attributes;
}

Result<void> FolderSource::CheckThere() const { return CheckSourceThere(folder_, path_); }

}  // namespace pcrfs
