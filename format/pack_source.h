// Where the files of a pack come from: what the pipeline knows of SOURCE.
//
// A folder gives its files in any order to many threads. An archive is one stream: its files can be had in the order of
// the plan only, so whoever holds the stream reads a shard's files into memory (Read) before they are worked on.
//
// Calls of NextShard and Read come one at a time, Read for the shard that NextShard gave last; all else is thread-safe.
// Sizes are bytes. What the sources refer to must outlive them.
#ifndef PCRFS_FORMAT_PACK_SOURCE_H_
#define PCRFS_FORMAT_PACK_SOURCE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "format/bytes.h"
#include "format/entry.h"
#include "format/error.h"
#include "format/pack_plan.h"
#include "format/shard_partition.h"
#include "format/shard_reader.h"
#include "format/source_file.h"
#include "format/source_tree.h"

namespace pcrfs {

// Of a shard's item: its bytes, or why it has none; nothing for a folder, for what was not wanted, and for a file that
// is to be opened.
using HeldContent = std::optional<Result<Bytes>>;

class PackSource {
 public:
  virtual ~PackSource() = default;

  // The next shard that is to be made, nothing after the last.
  [[nodiscard]] virtual Result<std::optional<PlannedShard>> NextShard() = 0;

  // Whether Read is to be called for each shard, in order.
  [[nodiscard]] virtual bool in_order() const { return false; }
  // Whether the shards were known before the first was made. Otherwise a shard of an earlier pack that is not the one
  // that would be made now means that the source is another.
  [[nodiscard]] virtual bool planned() const { return true; }
  // The wanted files of the shard, one value an item; all of them when `wanted` is empty. A file that is too large to
  // be held is alone in its shard, is not read, and must be opened before the next call.
  [[nodiscard]] virtual Result<std::vector<HeldContent>> Read(const PlannedShard& shard,
                                                              const std::vector<bool>& wanted);

  // The file of an item.
  [[nodiscard]] virtual Result<std::unique_ptr<SourceFile>> Open(const SourceRecord& item) const = 0;

  // Whether the entry of a shard of an earlier pack is what packing `item` would give now; or the item is gone, and
  // then the shard holds the last there is of it.
  [[nodiscard]] virtual bool IsCurrent(const SourceRecord& item, const Entry& entry) const = 0;

  // A file that cannot be read is skipped; a disk that was pulled out must not become a data set of nothing.
  [[nodiscard]] virtual Result<void> CheckThere() const = 0;

  // Of all items that were given out.
  [[nodiscard]] virtual const LabelMap& labels() const = 0;
};

// A folder, of which a plan was made.
class FolderSource final : public PackSource {
 public:
  // `folder` is open, `path` is where it lies. Shards are numbered from `first_shard` on; the labels are the plan's, or
  // those of `labels`.
  FolderSource(int folder, std::string path, const PackPlan& plan, const ShardLimits& limits, uint64_t first_shard = 0,
               const std::vector<std::string>* labels = nullptr);

  [[nodiscard]] Result<std::optional<PlannedShard>> NextShard() override { return planned_.Next(); }
  [[nodiscard]] Result<std::unique_ptr<SourceFile>> Open(const SourceRecord& item) const override;
  [[nodiscard]] bool IsCurrent(const SourceRecord& item, const Entry& entry) const override;
  [[nodiscard]] Result<void> CheckThere() const override;
  [[nodiscard]] const LabelMap& labels() const override { return labels_; }

 private:
  const int folder_;
  const std::string path_;
  const LabelMap labels_;
  PlannedShards planned_;
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_PACK_SOURCE_H_
