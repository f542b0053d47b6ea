// The command line of the commands that change a data set which is there, or show a mount that it changed: refresh,
// remove and compact. A part of options.cc.
#ifndef PCRFS_MOUNT_EDIT_OPTIONS_H_
#define PCRFS_MOUNT_EDIT_OPTIONS_H_

#include "mount/options.h"

namespace CLI {
class App;
}

namespace pcrfs {

void Define(CLI::App& app, RefreshCommand& command);
void Define(CLI::App& app, RemoveCommand& command);
void Define(CLI::App& app, CompactCommand& command);

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_EDIT_OPTIONS_H_
