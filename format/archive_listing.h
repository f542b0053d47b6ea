// The plan of packing an archive that can be read twice: its members as the records of a tree, in the archive's order.
//
// As tar -x would have it, the last of several members of one path counts. Where a path is a file and a folder, the
// folder counts. Links to files of the archive are files with their target's bytes, right behind their target. A folder
// that has no member of its own has mode 0755 and the archive's time. What is not packed goes to `on_skipped`.
//
// Memory: 64 MiB whatever the number of members; the rest lies in temporary files. One thread.
#ifndef PCRFS_FORMAT_ARCHIVE_LISTING_H_
#define PCRFS_FORMAT_ARCHIVE_LISTING_H_

#include <cstdint>

#include "format/archive_walk.h"
#include "format/error.h"
#include "format/pack_listing.h"
#include "format/source_tree.h"

namespace pcrfs {

// Walks the whole archive, then gives out the records, SourceRecord::member set. Errors: those of the walk, of
// temporary files, and whatever the sink returns.
[[nodiscard]] Result<ListingTotals> ListArchive(ArchiveWalk& walk, int64_t archive_mtime_ns,
                                                const ListingOptions& options, const OnSkipped& on_skipped,
                                                const RecordSink& sink);

// Of folders that no member of the archive stands for.
[[nodiscard]] inline Attributes DefaultFolderAttributes(int64_t mtime_ns) { return {0755, mtime_ns}; }

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_ARCHIVE_LISTING_H_
