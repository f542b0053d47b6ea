// What became of the files of a shard, worked out again where nobody remembers: shards do not store why a file is
// opaque or an image not restorable.
//
// Encoding is deterministic, so the same file under the same options gives the same reason. Thread-safe functions;
// memory: the bytes of one entry, and what is claimed from `memory` for encoding them. Results own their memory.
#ifndef PCRFS_FORMAT_KEPT_SHARD_REPORT_H_
#define PCRFS_FORMAT_KEPT_SHARD_REPORT_H_

#include <vector>

#include "format/error.h"
#include "format/memory_gate.h"
#include "format/pack_pipeline.h"
#include "format/pack_report.h"
#include "format/pack_source.h"
#include "format/shard_reader.h"

namespace pcrfs {

// Which items of `planned` ReportKeptShard needs the contents of.
[[nodiscard]] std::vector<bool> NeededForReport(const PlannedShard& planned, const LoneShard& shard);

// Tells `report` of each file of a shard of `job.dataset` what it was told when the shard was written. Why an image
// cannot be restored is known only while its source is still there; otherwise the reason says so. `held`: what is held
// of the items of `planned`, as far as it is needed; the others are opened.
[[nodiscard]] Result<void> ReportKeptShard(const PackJob& job, const PlannedShard& planned,
                                           const std::vector<HeldContent>& held, const LoneShard& shard,
                                           MemoryGate& memory, PackReport& report);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_KEPT_SHARD_REPORT_H_
