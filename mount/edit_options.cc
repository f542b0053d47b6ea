#include "mount/edit_options.h"

#include <CLI/CLI.hpp>

namespace pcrfs {
namespace {

constexpr char kRefreshFooter[] =
    R"(For root and the user who runs the mount's daemon; SIGHUP to a daemon in the background does the same. When the data set
cannot be opened, the mount shows on what it showed. What is open when its file is removed can be read to its end, until
the third refresh after that, or until 'pcrfs compact' has deleted its shard.)";

}  // namespace

void Define(CLI::App& app, RefreshCommand& command) {
  app.add_option("MOUNTPOINT", command.mount_point, "Where a data set is mounted")->required()->type_name("");
  app.footer(kRefreshFooter);
}

}  // namespace pcrfs
