#include "mount/commands/commands.h"
#include "mount/console.h"
#include "mount/dataset_walk.h"

namespace pcrfs {

Result<int> Run(const CatCommand& command) {
  const auto dataset = Dataset::Open(command.dataset);
  if (!dataset) return tl::unexpected(dataset.error());
  const auto level = ChooseLevel(*dataset, command.level);
  if (!level) return tl::unexpected(level.error());
  const auto found = FindEntry(*dataset, command.path);
  if (!found) return tl::unexpected(found.error());
  Output output;
  auto streamed =
      StreamEntry(*dataset, *found->shard, found->entry, *level, [&](ByteSpan bytes) { return output.Write(bytes); });
  if (!streamed) return WithContext(Quoted(command.path), std::move(streamed).error());
  if (auto flushed = output.Flush(); !flushed) return PassOn(std::move(flushed));
  return kExitDone;
}

}  // namespace pcrfs
