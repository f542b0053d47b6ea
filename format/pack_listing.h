// The records of SOURCE in the order in which they are packed.
//
// By path: as SourceTree gives them. Shuffled: sorted, in a temporary file when there are many; then each item is
// preceded by those folders above it that were not above the item before. Either way memory does not grow with the
// number of files. One thread. Errors: SOURCE cannot be listed, no room for a temporary file, and whatever the sink
// returns.
#ifndef PCRFS_FORMAT_PACK_LISTING_H_
#define PCRFS_FORMAT_PACK_LISTING_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

#include "format/bytes.h"
#include "format/checksum.h"
#include "format/error.h"
#include "format/pack_options.h"
#include "format/source_tree.h"

namespace pcrfs {

// What items are ordered by: the bytes of the path, an empty folder's with '/' at its end; shuffled, SHA-256 of the
// seed and the path, and the path only where those are equal.
class PackKey {
 public:
  PackKey(const PackOrder& order, const SourceRecord& item);

  friend auto operator<=>(const PackKey&, const PackKey&) = default;

  // Compared bytewise, these are in the order of their keys.
  void AppendTo(ByteWriter& out) const;

 private:
  Sha256Digest digest_{};  // all zero by path
  std::string path_;
};

using RecordSink = std::function<Result<void>(const SourceRecord&)>;

struct ListingTotals {
  uint64_t folders = 0;   // listed, the root not counted
  uint64_t excluded = 0;  // files and folders
};

// Asked in path order whether a record is wanted.
using RecordFilter = std::function<Result<bool>(const SourceRecord&)>;

[[nodiscard]] Result<ListingTotals> ListInPackOrder(const std::string& source, ListingOptions options,
                                                    const PackOrder& order, const OnSkipped& on_skipped,
                                                    const RecordSink& sink, const RecordFilter& is_wanted = {});

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_PACK_LISTING_H_
