#include "format/dataset_paths.h"

#include <utility>

#include "format/bytes.h"
#include "format/shard_index.h"

namespace pcrfs {
namespace {

using Kind = DatasetPath::Kind;

class Collector {
 public:
  explicit Collector(SortedSpool& spool) : spool_(spool) {}

  Result<void> Add(const ShardIndex& index) {
    for (const Entry& entry : index.entries) {
      value_.U8(static_cast<uint8_t>(Kind::kFile));
      value_.U64(entry.source_size);
      value_.U64(static_cast<uint64_t>(entry.attributes.mtime_ns));
      if (auto added = Put(EntryPath(index, entry)); !added) return added;
    }
    for (const std::string& directory : index.directories) {
      value_.U8(static_cast<uint8_t>(Kind::kFolderAhead));
      if (auto added = Put(directory); !added) return added;
      value_.U8(static_cast<uint8_t>(Kind::kFolder));
      if (auto added = Put(directory + '/'); !added) return added;
    }
    return {};
  }

 private:
  Result<void> Put(const std::string& key) {
    auto added = spool_.Add(AsBytes(key), value_.bytes());
    value_.Clear();
    return added;
  }

  SortedSpool& spool_;
  ByteWriter value_;
};

}  // namespace

Result<DatasetPaths> DatasetPaths::Read(const Dataset& dataset, const std::string& spool) {
  SortedSpool paths(spool);
  Collector collector(paths);
  for (size_t i = 0; i < dataset.shard_count(); ++i) {
    const auto shard = dataset.OpenShard(i);
    if (!shard) return tl::unexpected(shard.error());
    const auto index = dataset.ReadShardIndex(i, **shard);
    if (!index) return tl::unexpected(index.error());
    if (auto added = collector.Add(*index); !added) return PassOn(std::move(added));
  }
  return DatasetPaths(std::move(paths));
}

Result<std::optional<DatasetPath>> DatasetPaths::Next() {
  while (true) {
    auto record = spool_.Next();
    if (!record) return PassOn(std::move(record));
    if (!*record) return std::nullopt;
    DatasetPath path;
    path.key = AsText((*record)->key);
    ByteReader value((*record)->value);
    path.kind = static_cast<Kind>(value.U8());
    if (path.kind == Kind::kFile) {
      path.size = value.U64();
      path.mtime_ns = static_cast<int64_t>(value.U64());
    }
    const bool again = last_ && path.kind != Kind::kFile && last_->kind == path.kind && last_->key == path.key;
    if (again) continue;
    last_ = path;
    return path;
  }
}

}  // namespace pcrfs
