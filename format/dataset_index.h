// PCR_index.pb: the list of a data set's shards (FORMAT.md; the published DatasetOffsetsIndex with our
// fields behind it).
//
// A data set is what its index lists: a shard without a row is no part of it. Rows are in order of shard number.
// Pure functions, thread-safe; results own their memory (file of at most 256 MiB, 2^20 rows and labels).
// Errors: kDamaged, kLimit, kUnsupported; of encoding, kInvalidArgument where the decoder would refuse the result.
#ifndef PCRFS_FORMAT_DATASET_INDEX_H_
#define PCRFS_FORMAT_DATASET_INDEX_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/bytes.h"
#include "format/error.h"
#include "format/shard_index.h"

namespace pcrfs {

inline constexpr std::string_view kDatasetIndexName = "PCR_index.pb";
inline constexpr uint64_t kMaxDatasetIndexBytes = uint64_t{256} << 20;
inline constexpr uint64_t kMaxRows = uint64_t{1} << 20;
inline constexpr uint64_t kMaxLabels = uint64_t{1} << 20;
inline constexpr uint64_t kShardNumberLimit = uint64_t{1} << 32;  // numbers stay below

struct ShardRow {
  std::string name;                  // PCR_<n>.pcr or PCR_<n>.files
  std::vector<uint64_t> part_sizes;  // bytes of the metadata and of groups 1..10
  uint64_t index_offset = 0;         // where section D lies in the shard, so that one read opens it
  uint64_t index_length = 0;
  uint32_t index_crc = 0;
  uint64_t file_size = 0;
  ShardId id{};

  friend bool operator==(const ShardRow&, const ShardRow&) = default;
};

struct DatasetIndex {
  std::vector<ShardRow> rows;
  std::vector<std::string> labels;  // top-level folders; position = label
  std::string pack_options;         // "name=value\n" lines, sorted
  uint64_t paths_hash = 0;          // of the first pack's paths, FORMAT.md
  uint64_t appends = 0;

  friend bool operator==(const DatasetIndex&, const DatasetIndex&) = default;
};

[[nodiscard]] Result<Bytes> EncodeDatasetIndex(const DatasetIndex& index);
[[nodiscard]] Result<DatasetIndex> DecodeDatasetIndex(ByteSpan bytes);

// "PCR_<n>.pcr" or, for a shard without images, "PCR_<n>.files".
[[nodiscard]] std::string ShardFileName(uint64_t number, bool has_images);
struct ShardName {
  uint64_t number;
  bool has_images;
};
// Nothing unless `name` is exactly such a name (no leading zeros, a number below 2^32).
[[nodiscard]] std::optional<ShardName> ParseShardFileName(std::string_view name);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_DATASET_INDEX_H_
