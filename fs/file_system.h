// The file system as a library: what a mount of a data set shows, without a kernel or FUSE in sight.
//
// Names, inode numbers, attributes, listings and bytes of all trees (fs/tree.h), computed from the catalog and the
// shards. Nothing that can be seen changes after Open: no inode table, no open files, no state a look-up must have
// created first. Every number a kernel or an NFS client hands in is checked, and unknown ones are kStale.
//
// Ownership: owns catalog, shard set and restored images. Thread safety: all const methods from any number of threads.
// Blocking: Read may wait for the store and for a restore; nothing else does. Errors: kNotFound, kNotDirectory,
// kIsDirectory, kInvalidArgument, kLimit (a name too long), kStale, kIo, kDamaged; errno_map.h turns them into errno.
#ifndef PCRFS_FS_FILE_SYSTEM_H_
#define PCRFS_FS_FILE_SYSTEM_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/catalog.h"
#include "format/dataset.h"
#include "format/error.h"
#include "format/level.h"
#include "fs/ino.h"
#include "fs/level_view.h"
#include "fs/restored_images.h"
#include "fs/shard_set.h"
#include "fs/store_reader.h"
#include "fs/tree.h"

namespace pcrfs {

struct MountView {
  // Set: the mount's root is that tree itself. Not set: scan1 .. scanL, `original` and `current`.
  std::optional<Tree> root_tree;
  uid_t uid = 0;  // owner shown for everything
  gid_t gid = 0;
  mode_t umask = 0;                                 // bits taken away from every mode
  uint64_t restore_memory = kDefaultRestoreMemory;  // bytes, for `original`: restored_images.h
};

enum class FileType : uint8_t { kDirectory, kRegular, kSymlink };

struct Stat {
  Ino ino;
  uint32_t generation =
      0;  // of what the number means: by the shard that holds it, which it moves from when numbers shift
  FileType type = FileType::kDirectory;
  mode_t permissions = 0;  // 0777 part, umask taken away
  uint64_t size = 0;       // exact, before the first byte is read; 0 for directories
  uint64_t blocks = 0;     // of 512 bytes, rounded up
  uint32_t block_size = 128 << 10;
  int64_t mtime_ns = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};

// What one tree holds; none of the three is ever 0.
struct StatFs {
  uint64_t block_size = 0, blocks = 0, files = 0;
};

struct DirEntry {
  Ino ino;
  FileType type = FileType::kDirectory;
  std::string_view name;  // valid during the callback
  uint64_t offset = 0;    // pass as `after` to go on behind this entry; the same for ever
};

// Told of each bad place on disk, once until it has been read again: a block of a shard that does not match its
// checksum, or, whatever is read of it, a shard that cannot be opened or read, was cut or was replaced. Of the catalog,
// once of the first damage and once of the first failure to read it, since the next mount builds it anew; then `shard`
// is not there. From any thread, possibly several at once. While 10,000 places are bad it stays silent of more but the
// first of each shard.
using FaultObserver = std::function<void(const Error&, std::optional<uint32_t> shard)>;

class FileSystem {
 public:
  // `catalog` is the one of `dataset`. kInvalidArgument when the data set has no such tree.
  [[nodiscard]] static Result<std::unique_ptr<FileSystem>> Open(Dataset dataset, std::unique_ptr<Catalog> catalog,
                                                                MountView view, FaultObserver on_fault);
  FileSystem(std::unique_ptr<Catalog> catalog, std::unique_ptr<ShardSet> shards, MountView view,
             FaultObserver on_fault);
  ~FileSystem();
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;

  // `name` may be "." (of anything) and ".." (of a directory): an NFS server asks for them.
  [[nodiscard]] Result<Stat> Lookup(Ino parent, std::string_view name) const;
  [[nodiscard]] Result<Stat> GetAttr(Ino ino) const;
  [[nodiscard]] Result<std::string> ReadLink(Ino ino) const;
  // "." and ".." first, then the children in the order of their nodes; from the start with after = 0; until `visit`
  // returns false. `visit` may call GetAttr.
  [[nodiscard]] Result<void> ReadDir(Ino ino, uint64_t after, const std::function<bool(const DirEntry&)>& visit) const;
  // Fills `out` from `offset` and returns how many bytes that gave: fewer than asked only at the end of the file.
  // Every byte was checked against its checksum, or is of a source whose SHA-256 was.
  [[nodiscard]] Result<size_t> Read(Ino ino, uint64_t offset, MutableByteSpan out) const;
  // The same where nothing needs to be waited for; nothing when the store or a restore would have to be, or on any
  // error: Read tells.
  [[nodiscard]] std::optional<size_t> ReadAtHand(Ino ino, uint64_t offset, MutableByteSpan out) const;
  // Of the tree that `ino` lies in; for the root of several levels, of the highest.
  [[nodiscard]] Result<StatFs> GetStatFs(Ino ino) const;

  // Keeps fewer shards open from now on, since another state of the data set is asked for most files.
  void StepBack() const;

  // The trees that are shown; and the number of a node of the catalog in one of them.
  [[nodiscard]] std::vector<Tree> Trees() const;
  [[nodiscard]] Ino InoOf(uint64_t node, Tree tree) const;
  [[nodiscard]] int levels() const { return catalog_->totals().levels; }
  [[nodiscard]] const Catalog& catalog() const { return *catalog_; }

 private:
  struct Place;

  [[nodiscard]] Result<Place> Locate(Ino ino) const;
  // The node's description; Locate has seen that there is one.
  [[nodiscard]] Result<void> Describe(const Place& place, NodeInfo& info) const;
  [[nodiscard]] Stat StatOf(const NodeInfo& info, Tree tree) const;
  [[nodiscard]] Result<Stat> StatOfTrees() const;
  [[nodiscard]] Result<Stat> StatOfCurrent() const;
  [[nodiscard]] Result<Stat> LookupTree(std::string_view name) const;
  [[nodiscard]] Result<void> ListTrees(uint64_t after, const std::function<bool(const DirEntry&)>& visit) const;
  [[nodiscard]] Result<void> ListNode(const NodeInfo& info, Tree tree, uint64_t after,
                                      const std::function<bool(const DirEntry&)>& visit) const;
  enum class Waiting : bool { kNever, kMay };
  [[nodiscard]] Result<size_t> ReadFile(Ino ino, uint64_t offset, MutableByteSpan out, Waiting waiting) const;
  [[nodiscard]] Result<void> ReadNode(const NodeInfo& info, Level level, uint64_t offset, MutableByteSpan out,
                                      Waiting waiting) const;
  [[nodiscard]] Result<void> ReadRestored(const NodeInfo& info, uint64_t offset, MutableByteSpan out,
                                          Waiting waiting) const;
  // From the thread's own memory. All CRCs of an image's blocks, or those that a read needs.
  [[nodiscard]] Result<CrcWindow> Crcs(const NodeInfo& info, const CrcRange& needed) const;
  [[nodiscard]] Level highest() const;
  // Tells the observer of damage in the catalog and sets it aside, once, and passes every error on.
  [[nodiscard]] tl::unexpected<Error> CatalogFault(Error error) const;
  [[nodiscard]] tl::unexpected<Error> ShardFault(const NodeInfo& info, Level level, StoreFault fault) const;

  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<StoreReader> store_;
  MountView view_;
  FaultObserver on_fault_;
  mutable std::atomic<bool> told_damaged_{false}, told_unreadable_{false};  // of the catalog
  std::unique_ptr<RestoredImages> restored_;
};

}  // namespace pcrfs

#endif  // PCRFS_FS_FILE_SYSTEM_H_
