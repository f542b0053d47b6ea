// The states of a data set that one mount has shown: the current one, and the ones it replaced lately.
//
// The kernel knows a file by a node id and asks for its bytes by that alone, long after the name it was found by is
// gone. So a node id must mean one file for as long as the mount lives, while numbers of nodes (fs/ino.h) shift when
// shards are removed or compacted. A node id is therefore an inode number and, in its upper 16 bits, an epoch: the
// refresh since which that node number has meant what it means now, 0 where it never meant anything else. Two states
// agree on the nodes of the shards that both begin with, and there on the epochs. So whatever the kernel has cached
// under a node id, pages, attributes or names below it, is of the file that the id means; what a refresh has to make it
// forget are only names in folders that both states have. Inode numbers shown to users are those of a fresh mount.
//
// What is open when a refresh takes its file away is served on from the replaced state, of which the last kKept are
// kept; after that it is stale. (Compacting deletes shards: then what was not open there cannot be read any more.) A
// listing that is under way while files move to other nodes may lack some of them or have them twice; the next is right.
//
// Ownership: shares the file systems with the requests that they serve. Thread safety: all methods from any number of
// threads, Replace one at a time. Errors: kLimit after 65,535 refreshes that shifted nodes; those of the catalog.
#ifndef PCRFS_MOUNT_GENERATIONS_H_
#define PCRFS_MOUNT_GENERATIONS_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "format/error.h"
#include "fs/file_system.h"
#include "fs/ino.h"

namespace pcrfs {

// One of the states. Immutable.
class Generation {
 public:
  [[nodiscard]] const FileSystem& files() const { return *files_; }
  [[nodiscard]] uint64_t NodeId(Ino ino) const { return ino.number() | uint64_t{EpochOf(ino.node())} << kEpochShift; }

 private:
  friend class Generations;
  static constexpr int kEpochShift = 48;                  // a data set has less than 2^38 nodes
  using Epochs = std::vector<std::pair<Node, uint16_t>>;  // from that node on, ascending; the first from 0 on

  Generation(std::shared_ptr<const FileSystem> files, Epochs epochs)
      : files_(std::move(files)), epochs_(std::move(epochs)) {}
  [[nodiscard]] uint16_t EpochOf(Node node) const;

  std::shared_ptr<const FileSystem> files_;
  Epochs epochs_;
};

class Generations {
 public:
  static constexpr size_t kKept = 2;  // replaced ones

  explicit Generations(std::shared_ptr<const FileSystem> first);

  [[nodiscard]] std::shared_ptr<const Generation> Current() const;

  struct Place {
    std::shared_ptr<const Generation> generation;
    Ino ino;
  };
  // What a node id means; nothing when that is not known any more or never was.
  [[nodiscard]] std::optional<Place> Find(uint64_t node_id) const;

  struct Change {
    std::shared_ptr<const Generation> before, now;
    Node same = 1;  // up to this node both are the same, but for what is below their folders
  };
  // Requests that come from now on are answered by `files`; those that are being served end as they began.
  [[nodiscard]] Result<Change> Replace(std::shared_ptr<const FileSystem> files);

 private:
  using States = std::vector<std::shared_ptr<const Generation>>;  // the current one first

  mutable std::mutex mutex_;
  std::shared_ptr<const States> states_;
  Node highest_;  // that ever meant something
  uint16_t last_epoch_ = 0;
};

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_GENERATIONS_H_
