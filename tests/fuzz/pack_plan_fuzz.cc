// pack.plan with a closing CRC made to fit, and the shards that are drawn from it.
#include <cstdlib>
#include <memory>
#include <unordered_set>

#include "format/checksum.h"
#include "format/pack_plan.h"
#include "format/shard_partition.h"

namespace pcrfs {
namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

// What the packer relies on: each folder once, and every folder above each item there.
void CheckShard(const PlannedShard& shard, const ShardLimits& limits) {
  std::unordered_set<std::string> directories;
  for (const ShardDirectory& directory : shard.directories) Require(directories.insert(directory.path).second);
  Require(shard.items.size() <= limits.items);
  uint64_t bytes = 0;
  for (const SourceRecord& item : shard.items) {
    bytes += item.size;
    for (size_t slash = item.path.find('/'); slash != std::string::npos; slash = item.path.find('/', slash + 1))
      Require(directories.contains(item.path.substr(0, slash)));
  }
  Require(bytes == shard.bytes && (bytes <= limits.bytes || shard.items.size() == 1));
}

void CheckPlan(Bytes bytes) {
  const uint32_t crc = Crc32(bytes);
  for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<uint8_t>(crc >> shift));
  const auto plan = PackPlan::Open(std::make_unique<MemorySource>("plan", std::move(bytes)));
  if (!plan) return;
  const ShardLimits limits = {.items = 3, .bytes = 1000, .directories = 8, .directory_bytes = 64};
  PlannedShards shards(plan->Records(), limits);
  uint64_t items = 0;
  while (auto shard = shards.Next()) {
    if (!*shard) {
      Require(items == plan->summary().items);
      return;
    }
    items += (*shard)->items.size();
    CheckShard(**shard, limits);
  }
}

}  // namespace
}  // namespace pcrfs

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pcrfs::CheckPlan(pcrfs::Bytes(data, data + size));
  return 0;
}
