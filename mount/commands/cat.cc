#include "fs/restored_images.h"
#include "mount/commands/commands.h"
#include "mount/console.h"
#include "mount/dataset_walk.h"

namespace pcrfs {

Result<int> Run(const CatCommand& command) {
  const auto dataset = Dataset::Open(command.dataset);
  if (!dataset) return tl::unexpected(dataset.error());
  const auto tree = ChooseTree(*dataset, command.tree);
  if (!tree) return tl::unexpected(tree.error());
  const auto found = FindEntry(*dataset, command.path);
  if (!found) return tl::unexpected(found.error());
  Output output;
  MemoryGate gate(kDefaultRestoreMemory);
  auto streamed = StreamEntry(*dataset, {*found->shard, found->entry}, *tree, gate,
                              [&](ByteSpan bytes) { return output.Write(bytes); });
  if (!streamed) return WithContext(Quoted(command.path), std::move(streamed).error());
  if (auto flushed = output.Flush(); !flushed) return PassOn(std::move(flushed));
  return kExitDone;
}

}  // namespace pcrfs
