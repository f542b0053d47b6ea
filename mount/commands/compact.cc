#include "format/compactor.h"

#include <string>

#include "mount/commands/commands.h"
#include "mount/console.h"

namespace pcrfs {

Result<int> Run(const CompactCommand& command) {
  const auto compacted = Compact(command.dataset, command.dry_run ? CompactMode::kOnlyTell : CompactMode::kDo);
  if (!compacted) return tl::unexpected(compacted.error());
  std::string told;
  if (compacted->shards_merged > 0)
    told = Counted(compacted->shards_before, "shard") + (command.dry_run ? " would become " : " became ") +
           std::to_string(compacted->shards_after) + ". ";
  if (compacted->files_deleted > 0)
    told += (command.dry_run ? "Would delete " : "Deleted ") + Counted(compacted->files_deleted, "file") +
            " that no mount needs once it is refreshed, " + HumanBytes(static_cast<double>(compacted->bytes_deleted)) +
            ".";
  if (told.empty()) told = "Nothing to compact.";
  if (auto printed = Print(told + "\n"); !printed) return PassOn(std::move(printed));
  return kExitDone;
}

}  // namespace pcrfs
