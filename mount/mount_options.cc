// The -o list of `pcrfs mount`.
#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/parse_number.h"
#include "mount/options.h"

namespace pcrfs {
namespace {

// What mount(8), fstab and systemd say to one another, what is always so here (ro, nosuid, nodev), and what means
// nothing on a file system that never changes.
constexpr std::string_view kIgnored[] = {"ro",         "rw",       "defaults",    "suid",     "nosuid",
                                         "dev",        "nodev",    "exec",        "auto",     "noauto",
                                         "user",       "nouser",   "users",       "nousers",  "group",
                                         "nogroup",    "owner",    "noowner",     "_netdev",  "nofail",
                                         "atime",      "noatime",  "silent",      "diratime", "loud",
                                         "nodiratime", "relatime", "norelatime",  "lazytime", "sync",
                                         "nolazytime", "async",    "strictatime", "dirsync",  "nostrictatime",
                                         "iversion",   "mand",     "noiversion",  "nomand",   "default_permissions"};
constexpr std::string_view kIgnoredPrefixes[] = {"x-", "X-", "comment=", "user=", "helper=", "uhelper="};

bool IsIgnored(std::string_view item) {
  return std::find(std::begin(kIgnored), std::end(kIgnored), item) != std::end(kIgnored) ||
         std::any_of(std::begin(kIgnoredPrefixes), std::end(kIgnoredPrefixes),
                     [&](std::string_view prefix) { return item.substr(0, prefix.size()) == prefix; });
}

tl::unexpected<Error> Misfit(std::string_view item, const char* expected) {
  return Fail(ErrorCode::kInvalidArgument, "mount option " + Quoted(item) + ": expected " + expected);
}

// What mount(8) finds in the kernel's table of mounts and says again at a remount.
bool IsOfTheTable(std::string_view item) { return item.starts_with("user_id=") || item.starts_with("group_id="); }

// Of the two, whether the first was said last.
bool LastIs(const std::vector<std::string>& items, std::string_view one, std::string_view other) {
  const auto last =
      std::find_if(items.rbegin(), items.rend(), [&](std::string_view item) { return item == one || item == other; });
  return last != items.rend() && *last == one;
}

Result<void> ApplyFlag(std::string_view item, MountCommand& command) {
  if (item == "allow_other") {
    command.allow_other = true;
  } else if (item == "nonempty") {
    command.nonempty = true;
  } else if (item == "noexec") {
    command.noexec = true;
  } else if (item == "remount") {
    command.remount = true;
  } else if (item == "allow_root") {
    // libfuse checks it request by request, but what the kernel has cached it hands out without asking.
    return Fail(ErrorCode::kInvalidArgument,
                "mount option 'allow_root' cannot be kept for a mount that the kernel caches; use allow_other, with "
                "uid=, gid= and umask= to say who may read");
  } else {
    return Fail(ErrorCode::kInvalidArgument,
                "unknown mount option " + Quoted(item) + "; 'pcrfs mount --help' lists those there are");
  }
  return {};
}

Result<void> ApplyNumber(std::string_view item, std::string_view name, std::string_view value, MountCommand& command) {
  // -1 as an id means "leave as it is" to the kernel.
  constexpr uint32_t kMaxId = 0xFFFFFFFE;
  if (name == "level" && value == "original") {
    command.tree = Tree::Original();
  } else if (name == "level") {
    const auto number = ParseNumber<int>(value, 1, Level::kMaximum);
    if (!number) return Misfit(item, "a level from 1 to 31, or 'original'");
    command.tree = Tree::FromNumber(*number);
  } else if (name == "restore_memory") {
    const auto size = ParseSize(value);
    if (!size || *size == 0) return Misfit(item, "a size such as 256MiB");
    command.restore_memory = *size;
  } else if (name == "uid") {
    command.uid = ParseNumber<uid_t>(value, 0, kMaxId);
    if (!command.uid) return Misfit(item, "the number of a user");
  } else if (name == "gid") {
    command.gid = ParseNumber<gid_t>(value, 0, kMaxId);
    if (!command.gid) return Misfit(item, "the number of a group");
  } else if (name == "umask") {
    const auto bits = ParseNumber<mode_t>(value, 0, 0777, 8);
    if (!bits) return Misfit(item, "octal permission bits, at most 777");
    command.umask = *bits;
  } else if (name == "max_threads") {
    const auto threads = ParseNumber<unsigned>(value, 1, 4096);
    if (!threads) return Misfit(item, "a number of threads from 1 to 4096");
    command.max_threads = *threads;
  } else {
    return ApplyFlag(item, command);
  }
  return {};
}

Result<void> ApplyItem(std::string_view item, MountCommand& command) {
  if (item.empty() || IsIgnored(item)) return {};
  const size_t equals = item.find('=');
  if (equals == std::string_view::npos) return ApplyFlag(item, command);
  const std::string_view name = item.substr(0, equals), value = item.substr(equals + 1);
  if (name == "cache_dir" || name == "log_file") {
    if (value.empty()) return Misfit(item, "a path");
    (name == "cache_dir" ? command.cache_dir : command.log_file) = value;
  } else if (name == "log_level") {
    const auto level = ParseLogLevel(value);
    if (!level) return Misfit(item, "debug, info, warn or error");
    command.log_level = *level;
  } else {
    return ApplyNumber(item, name, value, command);
  }
  return {};
}

}  // namespace

Result<void> ApplyMountOptions(std::string_view list, MountCommand& command) {
  std::vector<std::string> items;
  std::string item;
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i + 1 < list.size() && list[i] == '\\') {
      item += list[++i];
    } else if (i < list.size() && list[i] != ',') {
      item += list[i];
    } else {
      items.push_back(std::move(item));
      item.clear();
    }
  }
  const bool remount = std::find(items.begin(), items.end(), "remount") != items.end();
  if (remount && LastIs(items, "rw", "ro"))
    return Fail(ErrorCode::kInvalidArgument,
                "mount option 'rw': a mount is read-only, and that cannot be changed by a remount; say ro");
  for (const std::string& each : items)
    if (!(remount && IsOfTheTable(each)))
      if (auto applied = ApplyItem(each, command); !applied) return applied;
  return {};
}

}  // namespace pcrfs
