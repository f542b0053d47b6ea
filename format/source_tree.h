// Listing the folder that is to be packed: every file and folder below it, in the byte order of full paths.
//
// A folder's path counts with '/' at its end, so a folder stands right before what it holds. Symbolic links are
// followed; hard links are just files; names are raw bytes. What cannot be packed (dangling links, links back to a
// folder above, sockets, FIFOs, devices, folders that cannot be listed, paths over the format's limits) goes to
// `on_skipped` and the listing goes on. Whether a file can be read shows only when it is read.
//
// Owns one file descriptor. Memory does not grow with the tree nor with its folders: of each folder on the way down to
// the current one, 1 MiB of names are held, and more in a temporary file. One thread at a time. Sizes are bytes.
// Errors: Open fails when SOURCE itself cannot be listed, Next when a temporary file is needed and cannot be had.
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
#include "format/exclude_list.h"
#include "format/file.h"
#include "format/shard_index.h"
#include "format/skipped.h"
#include "format/sorted_spool.h"

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
  uint64_t member = 0;  // of an archive's file: which of its members has the bytes, from 1

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

// An error when `folder`, the source folder opened under the name `path`, is not there any more or answers no more:
// what then fails in it says nothing of single files.
[[nodiscard]] Result<void> CheckSourceThere(int folder, const std::string& path);

// `path` relative to SOURCE, raw bytes; the detail does not name it.
using OnSkipped = std::function<void(const std::string& path, const Skipped& why)>;

struct ListingOptions {
  std::optional<FileIdentity> leave_out = {};  // a folder, wherever it turns up: the data set that is being written
  ExcludeList exclude = {};
  std::function<void(uint64_t size)> on_file = {};  // called as each file is found, long before its record comes
  std::string spool = {};           // path beside which temporary files are made; empty: in $TMPDIR or /tmp
  size_t memory = size_t{1} << 20;  // for each folder; a shuffled list takes 32 times as much
};

class SourceTree {
 public:
  [[nodiscard]] static Result<SourceTree> Open(const std::string& source, ListingOptions options, OnSkipped on_skipped);

  // The next record, nothing after the last.
  [[nodiscard]] Result<std::optional<SourceRecord>> Next();

  // Files and folders left out so far because options.exclude says so, not counting what is below such folders.
  [[nodiscard]] uint64_t excluded() const { return excluded_; }

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
    SortedSpool children;
    std::string last_key = {};  // of the child that was given out last
    bool announced = false;     // its record was given out
  };

  SourceTree(UniqueFd root, std::string source, ListingOptions options, OnSkipped on_skipped);

  // Why the folder cannot be packed; an error ends the listing.
  Result<std::optional<Skipped>> Enter(const std::string& path);
  // The value is why the folder cannot be listed, or nothing.
  Result<std::optional<Skipped>> ListChildren(int fd, const std::string& path, SortedSpool& children);
  Result<std::optional<Child>> Inspect(int fd, const std::string& path, const std::string& name);
  // What is to be reported of a path of SOURCE that cannot be read, unless more than that path is at fault.
  [[nodiscard]] Result<Skipped> Unreadable(std::string_view what, int error) const;
  Result<std::optional<Child>> NextChild(Folder& folder);
  void Announce(SourceRecord item);
  void Leave();

  UniqueFd root_;
  std::string source_;
  ListingOptions options_;
  OnSkipped on_skipped_;
  uint64_t excluded_ = 0;
  std::vector<Folder> above_;       // from SOURCE down to the folder that is being listed
  std::deque<SourceRecord> ready_;  // to be given out: an item, after the folders above it
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_SOURCE_TREE_H_
