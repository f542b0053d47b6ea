// Writing one shard: what pack calls, shard after shard.
//
// Call order: Create (all images at once; writes metadata, scan groups, restore records and tails), AddOpaque for each
// opaque file in order, Finish (index, footer, then the id into the metadata; fsync, rename, fsync of the folder).
// Until Finish has returned, nothing lies under the shard's name. Dropped without Finish, nothing is left.
//
// The same input gives the same bytes. Memory: the index, a block of 128 KiB, and while Create runs 1 MiB and the
// largest fragment. Create copies nothing of the images but their facts, so the caller may drop them then; opaque files
// are streamed, whatever their size. One thread at a time per writer, any number of writers at once. Errors: kLimit
// (published part of 2^31 - 4096 bytes or more, file beyond 2^42), kInvalidArgument (the caller broke a rule of
// FORMAT.md: names, directories, fragments), kNoSpace, kPermission, kIo.
#ifndef PCRFS_FORMAT_SHARD_WRITER_H_
#define PCRFS_FORMAT_SHARD_WRITER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "format/dataset_index.h"
#include "format/entry.h"
#include "format/error.h"
#include "format/file.h"
#include "format/image_encoder.h"
#include "format/shard_index.h"

namespace pcrfs {

// Paths are raw bytes relative to the data set's root, without a leading or trailing '/'; "" is the root.
struct ShardDirectory {
  std::string path;
  Attributes attributes;
};

struct FileFacts {
  std::string directory;  // "" or one of the shard's directories
  std::string name;
  Attributes attributes;
};

struct ImageItem {
  FileFacts file;
  int32_t label = -1;  // position of the top-level folder in the label list; -1 in the root
  uint64_t source_size = 0;
  Sha256Digest source_sha256{};
  EncodedImage image;
};

struct ShardPlan {
  std::string folder;   // the data set
  uint64_t number = 0;  // the shard's name: PCR_<number>.pcr, or .files when there are no images
  Attributes root;      // of the data set's root
  // In any order, each once: the directory of each entry, all ancestors of each, and empty ones. Without the root.
  std::vector<ShardDirectory> directories;
};

class ShardWriter {
 public:
  [[nodiscard]] static Result<ShardWriter> Create(ShardPlan plan, const std::vector<ImageItem>& images);

  // Appends a file whole. The value is nothing, or why `content` could not be read to its end: then it was not added
  // and the shard may go on without it. An error means that the shard cannot be written.
  [[nodiscard]] Result<std::optional<Error>> AddOpaque(const FileFacts& file, const ByteSource& content);

  // The writer must not be used afterwards. Returns the shard's row for PCR_index.pb.
  [[nodiscard]] Result<ShardRow> Finish();

 private:
  ShardWriter(AtomicFile file, std::string name, ShardIndex index);

  AtomicFile file_;
  std::string name_;
  ShardIndex index_;
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_SHARD_WRITER_H_
