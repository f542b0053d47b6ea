#include "fs/dataset_shards.h"

#include <memory>
#include <mutex>
#include <utility>

#include "cache/catalog_builder.h"

namespace pcrfs {

namespace {

class ShardOpener {
 public:
  ShardOpener(Dataset dataset, std::vector<ShardStamp> stamps)
      : dataset_(std::move(dataset)), stamps_(std::move(stamps)) {}

  Result<std::unique_ptr<ByteSource>> Open(size_t position) {
    auto shard = dataset_.OpenShard(position);
    if (!shard) return PassOn(std::move(shard));
    const ShardStamp stamp = StampOf(dataset_.index().rows[position], (*shard)->status());
    if (!IsKnown(position, stamp)) {
      // Another file; it may still be the same shard, copied back or restored.
      if (const auto index = dataset_.ReadShardIndex(position, **shard); !index)
        return tl::unexpected<Error>(index.error());
      Accept(position, stamp);
    }
    return std::unique_ptr<ByteSource>(*std::move(shard));
  }

 private:
  bool IsKnown(size_t position, const ShardStamp& stamp) {
    const std::lock_guard lock(mutex_);
    return stamps_[position] == stamp;
  }
  void Accept(size_t position, const ShardStamp& stamp) {
    const std::lock_guard lock(mutex_);
    stamps_[position] = stamp;
  }

  const Dataset dataset_;
  std::mutex mutex_;
  std::vector<ShardStamp> stamps_;
};

}  // namespace

ShardSet::Opener OpenerOf(Dataset dataset, std::vector<ShardStamp> stamps) {
  return [opener = std::make_shared<ShardOpener>(std::move(dataset), std::move(stamps))](size_t position) {
    return opener->Open(position);
  };
}

std::vector<ShardFacts> FactsOf(const Dataset& dataset) {
  std::vector<ShardFacts> facts;
  for (const ShardRow& row : dataset.index().rows) {
    ShardFacts shard{row.name, row.file_size, {}};
    uint64_t end = 0;
    for (const uint64_t size : row.part_sizes) shard.section_ends.push_back(end += size);
    facts.push_back(std::move(shard));
  }
  return facts;
}

}  // namespace pcrfs
