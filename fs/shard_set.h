// The shards of a mounted data set, open for reading, and the policy of what is read ahead.
//
// Shards are opened at first use and kept open (so one that is unlinked still reads); when there are more of them than
// descriptors (RLIMIT_NOFILE), those not used lately are closed; so are, when the system has no descriptor left, those
// that nobody reads, and for two seconds a use waits for readers to give one back. When level k of a shard is first
// touched, a helper thread asks the kernel for the shard's prefix up to group k, lowest group first, as long as the
// prefixes in use (touched in the last 30 s) fit the memory that is available (memory_limit.h); beyond that exactly the
// fragments are read, and the prefix is asked for again a little later. The reader of the first image does not wait for
// it.
//
// Ownership: owns descriptors and the helper thread. Thread safety: all methods from any number of threads.
// Errors: what the opener gives, with kShortage for want of descriptors, and kStale (another size than the catalog was
// built from).
#ifndef PCRFS_FS_SHARD_SET_H_
#define PCRFS_FS_SHARD_SET_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "format/error.h"
#include "format/file.h"
#include "format/level.h"

namespace pcrfs {

struct ShardFacts {
  std::string name;                    // file name, for messages
  uint64_t file_size = 0;              // what it must still be
  std::vector<uint64_t> section_ends;  // [0] metadata, [g] group g: the prefix of level g ends there
};

struct ShardSetOptions {
  // Shards kept open. 0 = half of what RLIMIT_NOFILE allows, after raising it to its hard limit; the other half is for
  // the sets that StepBack was called for, two of them.
  size_t max_open = 0;
  // Bytes of memory that prefixes may take now; asked at most once a second, by the helper thread.
  std::function<uint64_t()> memory_for_prefixes;
  // What failed, and what the memory did not allow, is tried again after this long.
  std::chrono::milliseconds try_again{1000};
};

// Raises the soft limit of descriptors to the hard one, as no privilege is needed for it.
void RaiseDescriptorLimit();

class ShardSet {
 public:
  using Opener = std::function<Result<std::unique_ptr<ByteSource>>(size_t position)>;

  ShardSet(std::vector<ShardFacts> facts, Opener opener, ShardSetOptions options);
  ~ShardSet();
  ShardSet(const ShardSet&) = delete;
  ShardSet& operator=(const ShardSet&) = delete;

  // The shard, opened when it was not yet; with a level, its read-ahead for that level is set going. The source stays
  // valid while the pointer is held.
  [[nodiscard]] Result<std::shared_ptr<const ByteSource>> Use(size_t position, std::optional<Level> level);
  // The same of a shard that is open; null when it is not. Never waits for the store.
  [[nodiscard]] std::shared_ptr<const ByteSource> UseOpen(size_t position, std::optional<Level> level);

  // For a shard that failed to be read: one opened anew, as long as it is not in use before Replace. Null when that was
  // tried less than a second ago; the error of that time when it failed; the one in use when it is not `failed` any
  // more.
  [[nodiscard]] Result<std::shared_ptr<const ByteSource>> OpenAgain(size_t position,
                                                                    const std::shared_ptr<const ByteSource>& failed);
  // `fresh` is used from now on, if `failed` is still in use.
  void Replace(size_t position, const std::shared_ptr<const ByteSource>& failed,
               const std::shared_ptr<const ByteSource>& fresh);

  // Half as many shards are kept open from now on: another set is asked for most files.
  void StepBack();

  // Returns when all read-ahead that was set going is done. For tests.
  void WaitForReadAhead();

  [[nodiscard]] const ShardFacts& facts(size_t position) const { return facts_[position]; }
  [[nodiscard]] size_t size() const { return facts_.size(); }
  [[nodiscard]] std::chrono::milliseconds try_again() const { return try_again_; }

 private:
  [[nodiscard]] Result<std::shared_ptr<const ByteSource>> Open(size_t position);
  [[nodiscard]] Result<std::shared_ptr<const ByteSource>> OpenOnce(size_t position) const;
  void ReadAhead(size_t position, Level level, int level_before, const std::shared_ptr<const ByteSource>& source);
  [[nodiscard]] uint64_t PrefixBegin(size_t position) const;
  [[nodiscard]] uint64_t PrefixEnd(size_t position, Level level) const;

  struct Impl;
  std::vector<ShardFacts> facts_;
  std::chrono::milliseconds try_again_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pcrfs

#endif  // PCRFS_FS_SHARD_SET_H_
