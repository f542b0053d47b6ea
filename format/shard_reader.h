// Opening a shard and checking it, byte by byte: what a data set, a continued pack and verify build on.
//
// Functions without state, thread-safe as the ByteSource is. Results own their memory. Messages do not name the shard
// where the caller knows it better: they name the source (its path). Errors: kDamaged, kStale (a whole shard, but not
// the one that the row describes), kUnsupported, kLimit, and those of reading.
#ifndef PCRFS_FORMAT_SHARD_READER_H_
#define PCRFS_FORMAT_SHARD_READER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "format/dataset_index.h"
#include "format/error.h"
#include "format/file.h"
#include "format/memory_gate.h"
#include "format/shard_index.h"

namespace pcrfs {

// The index of the shard that `row` lists, by exactly one read of index and footer. Checked: the file's size, the
// footer, CRC and id of the index, all rules of the index itself, and each against the row.
[[nodiscard]] Result<ShardIndex> ReadShardIndex(const ByteSource& shard, const ShardRow& row);

// A shard without its row, as a continued pack finds it. `file_name` is its base name; the row is what Finish returned
// when the shard was written.
struct LoneShard {
  ShardRow row;
  ShardIndex index;
};
[[nodiscard]] Result<LoneShard> ReadLoneShard(const ByteSource& shard, std::string_view file_name);

// Labels by top-level folder: the label list of PCR_index.pb or of a plan, turned round.
class LabelMap {
 public:
  explicit LabelMap(const std::vector<std::string>& labels);
  virtual ~LabelMap() = default;
  LabelMap(const LabelMap&) = default;
  LabelMap& operator=(const LabelMap&) = default;
  // The label of the images in that directory (relative path, "" = the root): -1 in the root; nothing when its
  // top-level folder is not in the list.
  [[nodiscard]] virtual std::optional<int32_t> Of(std::string_view directory) const;

 private:
  std::unordered_map<std::string, int32_t> positions_;
};

// Reads metadata, scan groups and blobs once, from front to back, and checks them against the index: labels, level
// count, version and id of the metadata, its CRC, the framing of each scan group, every block's CRC, SOI at the start
// of each image, restore records, and SHA-256 of opaque and kept files. A fault does not stop it; each is one sentence
// with entry, offset, expected and found. `on_read` is told how many bytes were just read. Memory: about 1 MiB, and 200
// bytes for each kept image. Where `restoring` is there, each sound image with a restore record is then restored and
// compared with its source's SHA-256; it and what restoring it takes are claimed there, and `on_read` does not count
// these bytes again.
void CheckShardContent(const ByteSource& shard, const ShardRow& row, const ShardIndex& index, const LabelMap& labels,
                       MemoryGate* restoring, const std::function<void(const Error&)>& on_fault,
                       const std::function<void(uint64_t bytes)>& on_read);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_SHARD_READER_H_
