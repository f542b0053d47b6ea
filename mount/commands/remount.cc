#include <fstream>
#include <iterator>
#include <string>
#include <variant>
#include <vector>

#include "mount/commands/commands.h"
#include "mount/control_client.h"
#include "mount/mount_point.h"

namespace pcrfs {
namespace {

constexpr const char* kTakeDown = "a mount cannot be changed while it is there; take it down and mount it anew";

// What a daemon was started with, as far as that can be seen from here.
MountCommand StartedWith(const MountDescription& live) {
  if (!IsOfOurPidNamespace(live)) return {};
  std::ifstream in("/proc/" + std::to_string(live.pid) + "/cmdline", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::string> words;
  for (size_t begin = 0, end = 0; (end = text.find('\0', begin)) != std::string::npos; begin = end + 1)
    words.push_back(text.substr(begin, end - begin));
  if (words.empty()) return {};
  const auto command = ParseCommandLine(words);
  const auto* mount = command ? std::get_if<MountCommand>(&*command) : nullptr;
  return mount == nullptr ? MountCommand() : *mount;
}

// What is not given stays as it is.
bool Changes(const MountCommand& given, const MountCommand& live) {
  const MountCommand unset;
  const auto changed = [&](auto member) { return given.*member != unset.*member && given.*member != live.*member; };
  return changed(&MountCommand::tree) || changed(&MountCommand::uid) || changed(&MountCommand::gid) ||
         changed(&MountCommand::umask) || changed(&MountCommand::allow_other) || changed(&MountCommand::noexec) ||
         changed(&MountCommand::max_threads) || changed(&MountCommand::restore_memory) ||
         changed(&MountCommand::cache_dir) || changed(&MountCommand::log_file) || changed(&MountCommand::log_level);
}

}  // namespace

Result<int> Remount(const MountCommand& command, const MountCommand& given) {
  const auto mount = FindOurMount(command.mount_point);
  if (!mount) return tl::unexpected(mount.error());
  const auto live = DescribeMount(*mount);
  if (!live) return tl::unexpected(live.error());
  if (mount->source != command.dataset)
    return Fail(ErrorCode::kInvalidArgument, "the mount on " + Quoted(mount->path) + " shows " + Quoted(mount->source) +
                                                 ", not " + Quoted(command.dataset) + "; " + kTakeDown);
  if (Changes(given, StartedWith(*live)))
    return Fail(ErrorCode::kInvalidArgument,
                "the mount on " + Quoted(mount->path) + " was made with other options; " + kTakeDown);
  return kExitDone;
}

}  // namespace pcrfs
