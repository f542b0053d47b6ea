#include "format/remover.h"

#include <string>

#include "mount/commands/commands.h"
#include "mount/console.h"

namespace pcrfs {

Result<int> Run(const RemoveCommand& command) {
  const auto removed = Remove(command.dataset, command.paths);
  if (!removed) return tl::unexpected(removed.error());
  const std::string told =
      "Removed " + Counted(removed->files, "file") + "; " + Counted(removed->shards_replaced, "shard") +
      " written anew as " + std::to_string(removed->shards_written) + ". The old ones, " +
      HumanBytes(static_cast<double>(removed->replaced_bytes)) +
      ", stay for mounts that are up: 'pcrfs refresh MOUNTPOINT' shows those the change, then 'pcrfs compact' deletes "
      "them.\n";
  if (auto printed = Print(told); !printed) return PassOn(std::move(printed));
  return kExitDone;
}

}  // namespace pcrfs
