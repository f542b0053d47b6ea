// The records of SOURCE in the order in which they are packed.
//
// By path: streamed, as SourceTree gives them. Shuffled: all records are held in memory and sorted, about 200 bytes a
// file and the paths; then each item is preceded by those folders above it that were not above the item before.
// One thread. Errors: SOURCE cannot be listed, and whatever the sink returns.
#ifndef PCRFS_FORMAT_PACK_LISTING_H_
#define PCRFS_FORMAT_PACK_LISTING_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

#include "format/checksum.h"
#include "format/error.h"
#include "format/packer.h"
#include "format/source_tree.h"

namespace pcrfs {

// What items are ordered by: the bytes of the path, an empty folder's with '/' at its end; shuffled, SHA-256 of the
// seed and the path, and the path only where those are equal.
class PackKey {
 public:
  PackKey(const PackOrder& order, const SourceRecord& item);

  friend auto operator<=>(const PackKey&, const PackKey&) = default;

 private:
  Sha256Digest digest_{};  // all zero by path
  std::string path_;
};

using RecordSink = std::function<Result<void>(const SourceRecord&)>;

// Returns the number of folders listed, the root not counted.
[[nodiscard]] Result<uint64_t> ListInPackOrder(const std::string& source, FileIdentity dataset, const PackOrder& order,
                                               const OnSkipped& on_skipped, const RecordSink& sink);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_PACK_LISTING_H_
