// What an append would pack: the files and empty folders of SOURCE whose paths the data set does not have.
//
// SOURCE and data set are walked side by side in path order, so memory does not grow with the number of their files.
// What differs otherwise is told, and left as it is packed: files that changed (in size or mtime, as stored) or are
// gone in SOURCE; and what cannot be added, since one of both has a file where the other has a folder, is skipped.
//
// One thread. Errors: SOURCE cannot be listed, those of reading the data set's indexes, and whatever the sink returns.
#ifndef PCRFS_FORMAT_APPEND_LISTING_H_
#define PCRFS_FORMAT_APPEND_LISTING_H_

#include <functional>
#include <string>

#include "format/dataset.h"
#include "format/error.h"
#include "format/pack_listing.h"
#include "format/pack_options.h"
#include "format/source_tree.h"

namespace pcrfs {

struct AppendListing {
  std::string source;      // folder
  ListingOptions options;  // of that
  PackOrder order;
  std::function<void(const std::string& path, const Skipped& why)> on_skipped;
  std::function<void(const std::string& path, const std::string& detail)> on_changed;
  std::function<void(const std::string& path)> on_gone;
};

// New items in the order of the pack options, each after the folders above it as a plan has them; SOURCE itself first.
[[nodiscard]] Result<ListingTotals> ListNewItems(const Dataset& dataset, const AppendListing& listing,
                                                 const RecordSink& sink);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_APPEND_LISTING_H_
