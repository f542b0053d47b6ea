// Shards and data sets as somebody with bad intentions would make them: any names, counts and structure, under
// checksums that are all right. What ShardWriter and the encoders of format/ refuse to write, this writes.
//
// Plain values. Only what is asked for is wrong: sizes, offsets, CRCs, ids, labels and footers fit the rest.
#ifndef PCRFS_TESTS_SUPPORT_HOSTILE_SHARD_H_
#define PCRFS_TESTS_SUPPORT_HOSTILE_SHARD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "format/bytes.h"
#include "format/dataset_index.h"
#include "format/entry.h"

namespace pcrfs::testing {

struct HostileEntry {
  uint64_t directory = 0;    // 0 = root, k = k-th of the shard's directories
  std::string name;          // any bytes
  std::vector<Bytes> parts;  // an image's ten fragments, or the one content of an opaque file
  Bytes tail = {};
  bool kept = false;
  Attributes attributes = {0644, 1};
};

struct HostileShard {
  uint64_t number = 0;
  std::vector<std::string> directories;  // any paths, in any order
  std::vector<HostileEntry> images, opaque;
  // Called with the encoded index before checksums are taken of it.
  std::function<void(Bytes& index)> change_index;
};

struct AssembledShard {
  ShardRow row;
  Bytes bytes;
};

// `labels` are those that WriteHostileDataset takes, too.
[[nodiscard]] AssembledShard Assemble(const HostileShard& shard, const std::vector<std::string>& labels);

// The top-level folders of these shards that are valid names, byte-sorted, as pack would list them.
[[nodiscard]] std::vector<std::string> LabelsOf(const std::vector<HostileShard>& shards);

// PCR_index.pb with these rows, whatever they say.
[[nodiscard]] Bytes AssembleDatasetIndex(const std::vector<ShardRow>& rows, const std::vector<std::string>& labels);

// All of it in `folder`, which must exist.
void WriteHostileDataset(const std::string& folder, const std::vector<HostileShard>& shards);

}  // namespace pcrfs::testing

#endif  // PCRFS_TESTS_SUPPORT_HOSTILE_SHARD_H_
