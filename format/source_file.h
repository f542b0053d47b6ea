// One file of SOURCE while it is packed: read whole, or not believed. A file whose size or mtime is another after
// reading than before was being written meanwhile, and what was read may be a mixture.
//
// Owns its descriptor. The ByteSource is for one reader from front to back. Sizes are bytes. Errors: those of opening
// and reading, kStale when the file changed, kLimit when it is larger than the format holds; messages name the path.
#ifndef PCRFS_FORMAT_SOURCE_FILE_H_
#define PCRFS_FORMAT_SOURCE_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "format/bytes.h"
#include "format/entry.h"
#include "format/error.h"
#include "format/file.h"

namespace pcrfs {

class SourceFile : public ByteSource {
 public:
  // `path` relative to the open folder SOURCE. The read that reaches the end also looks whether the file is still the
  // one that was opened, and ends there.
  [[nodiscard]] static Result<std::unique_ptr<SourceFile>> Open(int source, const std::string& path);

  [[nodiscard]] virtual Attributes attributes() const = 0;
  [[nodiscard]] Result<Bytes> ReadWhole() const;
  // Whether the first bytes are those of a JPEG.
  [[nodiscard]] Result<bool> StartsLikeJpeg() const;
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_SOURCE_FILE_H_
