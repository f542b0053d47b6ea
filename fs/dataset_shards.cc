#include "fs/dataset_shards.h"

#include <memory>
#include <utility>

#include "cache/catalog_builder.h"

namespace pcrfs {

ShardSet::Opener OpenerOf(Dataset dataset, std::vector<ShardStamp> stamps) {
  struct Owned {
    Dataset dataset;
    std::vector<ShardStamp> stamps;
  };
  const auto owned = std::make_shared<const Owned>(Owned{std::move(dataset), std::move(stamps)});
  return [owned](size_t position) -> Result<std::unique_ptr<ByteSource>> {
    auto shard = owned->dataset.OpenShard(position);
    if (!shard) return PassOn(std::move(shard));
    if (StampOf(owned->dataset.index().rows[position], (*shard)->status()) != owned->stamps[position])
      return Fail(ErrorCode::kStale,
                  "shard " + Quoted((*shard)->name()) + " was changed since the data set was mounted");
    return std::unique_ptr<ByteSource>(*std::move(shard));
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
