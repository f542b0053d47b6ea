// Entries of shards that are there, put into a new shard as they are stored: fragments, restore records, tails and
// opaque files are copied and checked against their checksums on the way; nothing is transcoded.
//
// Thread-safe functions. Memory: the images of the new shard, and a block of 128 KiB. Errors: kDamaged (a checksum does
// not hold, an image in no labelled folder), and those of ShardWriter and of reading.
#ifndef PCRFS_FORMAT_SHARD_COPIER_H_
#define PCRFS_FORMAT_SHARD_COPIER_H_

#include <memory>
#include <vector>

#include "format/error.h"
#include "format/file.h"
#include "format/shard_index.h"
#include "format/shard_reader.h"
#include "format/shard_writer.h"

namespace pcrfs {

// An entry and the shard that holds it, all of which outlive this.
struct EntryInShard {
  const ByteSource* shard = nullptr;
  const ShardIndex* index = nullptr;
  const Entry* entry = nullptr;
};

// Writes the shard of `plan` with the images among `entries` and then the opaque files, each in that order.
[[nodiscard]] Result<ShardRow> CopyToShard(ShardPlan plan, const std::vector<EntryInShard>& entries,
                                           const LabelMap& labels);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_SHARD_COPIER_H_
