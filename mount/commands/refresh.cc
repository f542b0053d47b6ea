#include <chrono>
#include <string>

#include "mount/commands/commands.h"
#include "mount/console.h"
#include "mount/control_client.h"
#include "mount/mount_point.h"

namespace pcrfs {
namespace {

// The indexes of a data set's new shards are read meanwhile.
constexpr std::chrono::hours kRefreshPatience{24};

}  // namespace

Result<int> Run(const RefreshCommand& command) {
  const auto mount = FindOurMount(command.mount_point);
  if (!mount) return tl::unexpected(mount.error());
  // One that does not answer at all is told apart from one that takes its time.
  if (const auto serving = DescribeMount(*mount); !serving) return tl::unexpected(serving.error());
  const auto sentence = RefreshMount(*mount, kRefreshPatience);
  if (!sentence) return tl::unexpected(sentence.error());
  if (auto printed = Print("pcrfs: " + *sentence + "\n"); !printed) return PassOn(std::move(printed));
  return kExitDone;
}

}  // namespace pcrfs
