// Listing the folder that is to be packed: every file and folder below it, in the byte order of full paths.
//
// A folder's path counts with '/' at its end, so a folder stands right before what it holds. Symbolic links are
// followed; hard links are just files; names are raw bytes. What cannot be packed (dangling links, links back to a
// folder above, sockets, FIFOs, devices, folders that cannot be listed, paths over the format's limits) goes to
// `on_skipped` and the listing goes on. Whether a file can be read shows only when it is read.
//
// Owns one file descriptor. Memory grows with the entries of the folders on the way down to the current one, not with
// the tree. One thread at a time. Sizes are bytes. Errors: Open fails when SOURCE itself cannot be listed.
#ifndef PCRFS_FORMAT_SOURCE_TREE_H_
#define PCRFS_FORMAT_SOURCE_TREE_H_

#include <sys/stat.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "format/entry.h"
#include "format/error.h"
#include "format/file.h"
#include "format/shard_index.h"
#include "format/skipped.h"

namespace pcrfs {

// Largest source file that is packed: its shard, index included, must itself keep within the limit for files.
inline constexpr uint64_t kMaxSourceBytes = kMaxFileBytes - kMaxIndexBytes;

enum class SourceKind : uint8_t {
  kFolder,       // holds at least one record that follows; SOURCE itself is the first record, with an empty path
  kEmptyFolder,  // nothing in it can be packed, or it is just empty
  kFile,
};

struct SourceRecord {
  SourceKind kind = SourceKind::kFile;
  std::string path;   // relative to SOURCE, without '/' at either end
  uint64_t size = 0;  // of a file
  Attributes attributes;

  // Items are what is distributed over shards: files and empty folders.
  [[nodiscard]] bool is_item() const { return kind != SourceKind::kFolder; }

  friend bool operator==(const SourceRecord&, const SourceRecord&) = default;
};

// Which file or folder, whatever its name: device and inode number.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

[[nodiscard]] Attributes AttributesOf(const struct stat& status);
// `path` relative to SOURCE, raw bytes; the detail does not name it.
using OnSkipped = std::function<void(const std::string& path, const Skipped& why)>;

class SourceTree {
 public:
  // `exclude` is a folder that is left out wherever it turns up: the data set that is being written.
  [[nodiscard]] static Result<SourceTree> Open(const std::string& source, std::optional<FileIdentity> exclude,
                                               OnSkipped on_skipped);

  // The next record, nothing after the last.
  [[nodiscard]] std::optional<SourceRecord> Next();

 private:
  struct Child {
    std::string key;  // the name, with '/' behind it for a folder: what the order goes by
    uint64_t size = 0;
    Attributes attributes;
  };
  struct Folder {
    std::string path;
    Attributes attributes;
    FileIdentity identity;
    std::vector<Child> children;
    size_t next_child = 0;
    bool announced = false;  // its record was given out
  };

  SourceTree(UniqueFd root, std::optional<FileIdentity> exclude, OnSkipped on_skipped);

  tl::expected<void, Skipped> Enter(const std::string& path);
  Result<std::vector<Child>> ListChildren(int fd, const std::string& path) const;
  std::optional<Child> Inspect(int fd, const std::string& path, const std::string& name) const;
  void Announce(SourceRecord item);
  void Leave();

  UniqueFd root_;
  std::optional<FileIdentity> exclude_;
  OnSkipped on_skipped_;
  std::vector<Folder> above_;       // from SOURCE down to the folder that is being listed
  std::deque<SourceRecord> ready_;  // to be given out: an item, after the folders above it
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_SOURCE_TREE_H_
