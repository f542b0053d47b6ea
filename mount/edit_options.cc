#include "mount/edit_options.h"

#include <CLI/CLI.hpp>

namespace pcrfs {
namespace {

constexpr char kRefreshFooter[] =
    R"(For root and the user who runs the mount's daemon; SIGHUP to a daemon in the background does the same. When the data set
cannot be opened, the mount shows on what it showed. What is open when its file is removed can be read to its end, until
the third refresh after that, or until 'pcrfs compact' has deleted its shard.)";

constexpr char kRemoveFooter[] =
    R"(All paths must be there, or nothing is removed. As with rm, removing files leaves their folder, and a folder goes with
all that is below it. Only shards that hold something of it are written anew, without converting anything; labels keep
their numbers. The shards that were replaced stay, for mounts that are up: 'pcrfs refresh' shows those the change, then
'pcrfs compact' frees the space.)";

constexpr char kCompactFooter[] =
    R"(Shards that are at most half full, by the data set's --record-images and --record-bytes, are merged where they fit
together, without converting anything. Then shards that do not belong to the data set any more are deleted, and what
interrupted commands left. Refresh mounts that are up before: they read such shards until then.)";

}  // namespace

void Define(CLI::App& app, RefreshCommand& command) {
  app.add_option("MOUNTPOINT", command.mount_point, "Where a data set is mounted")->required()->type_name("");
  app.footer(kRefreshFooter);
}

void Define(CLI::App& app, RemoveCommand& command) {
  app.add_option("DATASET", command.dataset, "Folder of a packed data set")->required()->type_name("");
  app.add_option("PATH", command.paths, "Files and folders, by their paths in the data set, without scanK")
      ->required()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("");
  app.footer(kRemoveFooter);
}

void Define(CLI::App& app, CompactCommand& command) {
  app.add_option("DATASET", command.dataset, "Folder of a packed data set")->required()->type_name("");
  app.add_flag("--dry-run", command.dry_run, "Tell what would be merged and deleted, and do nothing");
  app.footer(kCompactFooter);
}

}  // namespace pcrfs
