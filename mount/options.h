// The command line of pcrfs as plain values: what to do, with which settings, checked as far as text alone allows.
//
// ParseCommandLine is pure: it touches no file, prints nothing and ends no process, so tests call it. Nothing here
// refers to anything outside itself. Sizes are in bytes. One thread.
//
// A line without a subcommand, `pcrfs DATASET DIR -o OPTIONS`, means mount, since mount(8)'s helpers call it so; the
// names mount.pcrfs and mount.fuse.pcrfs (links in /sbin) mean mount, too.
#ifndef PCRFS_MOUNT_OPTIONS_H_
#define PCRFS_MOUNT_OPTIONS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "format/error.h"
#include "format/packer.h"
#include "format/verifier.h"
#include "fs/restored_images.h"
#include "fs/tree.h"

namespace pcrfs {

enum ExitStatus : int {
  kExitDone = 0,
  kExitFailed = 1,
  kExitUsage = 2,
  kExitDamaged = 3,  // verify found faults or differences; pack --strict found damage in SOURCE, or skipped something
};

enum class LogLevel { kDebug, kInfo, kWarn, kError };

struct PackCommand {
  std::string source, dataset;
  PackOptions options;
  bool append = false;  // to a data set that is there, with its own options
  bool given_record_images = false, given_record_bytes = false, given_order = false;
  bool strict = false;  // exit 3 when something was kept opaque for damage, or skipped
  std::string report;   // empty: none
  bool json_progress = false;
  bool dry_run = false;
};

struct MountCommand {
  std::string dataset, mount_point;
  bool foreground = false;
  bool quiet = false;     // say nothing when all is well, as mount(8) has it
  bool remount = false;   // of a mount that is there: an error if any option would change it
  bool fake = false;      // mount(8)'s -f to its helpers: check the command line, mount nothing
  std::string cache_dir;  // empty: the default, cache/catalog_builder.h
  bool catalog_reuse = true;
  std::string log_file;  // empty: stderr in the foreground, else syslog
  LogLevel log_level = LogLevel::kInfo;
  std::optional<Tree> tree;  // shown as the root instead of all trees
  std::optional<uid_t> uid;  // not set: of the process
  std::optional<gid_t> gid;
  mode_t umask = 0;
  bool allow_other = false;
  bool nonempty = false;
  bool noexec = false;
  unsigned max_threads = 256;
  uint64_t restore_memory = kDefaultRestoreMemory;  // as in MountView
};

struct UmountCommand {
  std::string mount_point;
};

struct ListCommand {
  bool json = false;
};

struct LogLevelCommand {
  std::string mount_point;
  std::optional<LogLevel> level;  // not set: print the current one
};

struct RemoveCommand {
  std::string dataset;
  std::vector<std::string> paths;
};

struct CompactCommand {
  std::string dataset;
  bool dry_run = false;
};

struct RefreshCommand {
  std::string mount_point;
};

struct InfoCommand {
  std::string dataset;
  bool json = false;
};

struct LsCommand {
  std::string dataset, path;
  std::optional<Tree> tree;  // not set: the highest level
  bool with_attributes = false;
};

struct CatCommand {
  std::string dataset, path;
  std::optional<Tree> tree;
};

struct ExtractCommand {
  std::string dataset, destination;
  std::optional<Tree> tree;
};

struct VerifyCommand {
  std::string dataset;
  std::string source;  // empty: only the data set itself
  VerifyOptions options;
};

struct ManifestCommand {
  std::string dataset;
};

using Command = std::variant<PackCommand, MountCommand, UmountCommand, ListCommand, LogLevelCommand, InfoCommand,
                             LsCommand, CatCommand, ExtractCommand, VerifyCommand, ManifestCommand, RefreshCommand,
                             RemoveCommand, CompactCommand>;

// Nothing to run: help and version (status 0, text for stdout) or a usage error (kExitUsage, text for stderr).
struct EarlyExit {
  int status = kExitDone;
  std::string text;  // ends in a line feed
};

// `arguments[0]` is the name the program was called by.
[[nodiscard]] tl::expected<Command, EarlyExit> ParseCommandLine(const std::vector<std::string>& arguments);

// "65536", "64KiB", "1GiB", "10MB": decimal digits and one of the units KiB MiB GiB kB MB GB, or none. Nothing for
// anything else, or beyond 64 bits.
[[nodiscard]] std::optional<uint64_t> ParseSize(std::string_view text);

// "debug", "info", "warn" or "error".
[[nodiscard]] std::optional<LogLevel> ParseLogLevel(std::string_view text);
[[nodiscard]] std::string_view LogLevelName(LogLevel level);

// One -o list, "ro,level=3,uid=1000", into `command`; "\," is a comma inside a value. What mount(8) and fstab add for
// their own use is accepted and does nothing; anything unknown is refused (kInvalidArgument, a sentence).
[[nodiscard]] Result<void> ApplyMountOptions(std::string_view list, MountCommand& command);

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_OPTIONS_H_
