// The shards of a mounted data set, open for reading, and the policy of what is read ahead.
//
// Shards are opened at first use, advised RANDOM and kept open (so one that is unlinked still reads); descriptors are
// bounded by RLIMIT_NOFILE. The first time level k of a shard is touched, a helper thread asks the kernel for the
// missing part of the shard's prefix up to group k, lowest group first, in steps of 128 KiB; the reader of that first
// image does not wait for it.
//
// Ownership: owns descriptors and the helper thread. Thread safety: all methods from any number of threads.
// Errors: kIo, kStale (a shard was replaced by another file or shrunk since the catalog was built), kNotFound.
#ifndef PCRFS_FS_SHARD_SET_H_
#define PCRFS_FS_SHARD_SET_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "format/error.h"
#include "format/file.h"
#include "format/level.h"

namespace pcrfs {

struct ShardFacts {
  std::string name;                    // file name, for messages
  uint64_t file_size = 0;              // what it must still be
  std::vector<uint64_t> section_ends;  // [0] metadata, [g] group g: prefix of level g ends there
};

class ShardSet {
 public:
  using Opener = std::function<Result<std::unique_ptr<ByteSource>>(size_t position)>;

  ShardSet(std::vector<ShardFacts> facts, Opener opener);
  ~ShardSet();

  // The shard, opened when it was not yet, with its read-ahead at `level` set going. The source stays valid while the
  // pointer is held.
  [[nodiscard]] Result<std::shared_ptr<const ByteSource>> Use(size_t position, Level level);

  [[nodiscard]] const ShardFacts& facts(size_t position) const { return facts_[position]; }
  [[nodiscard]] size_t size() const { return facts_.size(); }

 private:
  struct Impl;
  std::vector<ShardFacts> facts_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pcrfs

#endif  // PCRFS_FS_SHARD_SET_H_
