// Reads of entries from their shards, and what becomes of a read that fails: it is tried once more, from the shard as
// it now lies in the data set; if that fails too, its place is remembered (fault_memory.h), and asked of the store
// again a second later.
//
// So a shard that was repaired, copied back or mounted again is read as soon as it is whole, without a remount, and one
// that was replaced while it was open is read from what is open as long as that is right.
//
// Ownership: owns the shard set. Thread safety: all methods from any number of threads. Errors: what the store gives,
// kDamaged and kStale (another shard lies in this one's place).
#ifndef PCRFS_FS_STORE_READER_H_
#define PCRFS_FS_STORE_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "format/bytes.h"
#include "format/entry.h"
#include "format/error.h"
#include "format/level.h"
#include "fs/fault_memory.h"
#include "fs/level_view.h"
#include "fs/shard_set.h"

namespace pcrfs {

struct StoreFault {
  Error error;
  bool is_new = false;    // to be told; see FaultMemory
  bool of_shard = false;  // not of one place in it
};

class StoreReader {
 public:
  explicit StoreReader(std::unique_ptr<ShardSet> shards) : shards_(std::move(shards)), memory_(shards_->try_again()) {}

  // A part of an entry as a level shows it; see ReadAtLevel.
  struct Part {
    uint32_t shard = 0;  // its position
    const EntryLayout& layout;
    Level level;
    int highest = 0;
    CrcWindow crcs;
    uint64_t offset = 0;
  };

  // Fills `out`, waiting for the store.
  [[nodiscard]] tl::expected<void, StoreFault> Read(const Part& part, MutableByteSpan out);
  // Whatever reads from one shard and checks what it reads; called up to twice, with different sources.
  using Attempt = std::function<tl::expected<void, BlockFault>(const ByteSource&)>;
  // The same for any other way of reading the shard at `position`; with a level, its read-ahead is set going.
  [[nodiscard]] tl::expected<void, StoreFault> Read(uint32_t position, std::optional<Level> level,
                                                    const Attempt& attempt);
  // Fills `out` where that needs no waiting; false when it does, and on any error: Read tells.
  [[nodiscard]] bool ReadAtHand(const Part& part, MutableByteSpan out);

  [[nodiscard]] const ShardSet& shards() const { return *shards_; }
  void StepBack() { shards_->StepBack(); }

 private:
  using Shard = std::shared_ptr<const ByteSource>;

  struct Failure {
    BlockFault fault;
    bool known = false;  // the store was not asked
  };

  [[nodiscard]] tl::expected<void, Failure> Try(uint32_t position, const ByteSource& shard, const Attempt& attempt);
  [[nodiscard]] tl::expected<void, Failure> TryAgain(uint32_t position, const Shard& shard, const BlockFault& fault,
                                                     const Attempt& attempt);

  std::unique_ptr<ShardSet> shards_;
  FaultMemory memory_;
};

}  // namespace pcrfs

#endif  // PCRFS_FS_STORE_READER_H_
