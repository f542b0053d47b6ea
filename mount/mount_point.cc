#include "mount/mount_point.h"

#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

#include "format/checksum.h"
#include "format/parse_number.h"
#include "mount/console.h"
#include "mount/control_client.h"

namespace pcrfs {
namespace {

// A server that is gone makes statfs fail so; stat may still be answered from the kernel's cache.
bool IsDead(const std::string& path) {
  struct statfs ignored {};
  return statfs(path.c_str(), &ignored) != 0 && (errno == ENOTCONN || errno == ECONNABORTED);
}

Result<void> CheckFolder(const std::string& path, bool nonempty) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()), closedir);
  if (folder == nullptr && errno == ENOTDIR)
    return Fail(ErrorCode::kNotDirectory, "the mount point " + Quoted(path) + " is not a folder");
  if (folder == nullptr) return SystemFail("cannot open the mount point " + Quoted(path), errno);
  if (nonempty) return {};
  while (const dirent* entry = readdir(folder.get()))
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
      return Fail(ErrorCode::kExists, "the mount point " + Quoted(path) +
                                          " is not empty; take an empty folder, or -o nonempty to hide what is there");
  return {};
}

// libfuse opens it as the user who mounts, also where fusermount3 is to do the rest.
Result<void> CheckDevice() {
  const UniqueFd fd(open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (fd.valid()) return {};
  if (errno == EACCES)
    return SystemFail(
        "cannot open /dev/fuse (this user needs the right to read and write it; its usual mode is 0666, as 'chmod 666 "
        "/dev/fuse' sets it)",
        errno);
  return SystemFail(
      "cannot open /dev/fuse (load the kernel module with 'modprobe fuse'; give a container the device, as with "
      "--device /dev/fuse)",
      errno);
}

std::string InUse(const std::string& path, const std::string& by_force) {
  return "cannot unmount " + Quoted(path) + ": it is in use; 'fuser -vm' says by whom, and '" + by_force +
         "' hides it at once";
}

// Waits for it. Its status, as waitpid(2) gives it; what it says goes into `output`.
Result<int> RunHelper(std::vector<char*> words, int output) {
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (output >= 0) posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return SystemFail("cannot run " + std::string(words[0]), failed);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

Result<void> TakeDownByHelper(const std::string& path, bool lazy) {
  const auto mount = FindMount(path);
  if (mount && mount->type == kMountType && mount->user != geteuid())
    return Fail(ErrorCode::kPermission, "the mount on " + Quoted(path) + " is user " + std::to_string(mount->user) +
                                            "'s, and only that user and root may take it down");
  std::string program = "fusermount3", unmount = "-u", when_unused = "-z", rest = "--", where = path;
  std::vector<char*> words = {program.data(), unmount.data()};
  if (lazy) words.push_back(when_unused.data());
  words.insert(words.end(), {rest.data(), where.data()});
  const UniqueFd said(memfd_create("pcrfs-stderr", MFD_CLOEXEC));
  const auto status = RunHelper(std::move(words), said.get());
  if (!status) return WithContext("cannot unmount " + Quoted(path) + " (Debian package fuse3)", status.error());
  if (WIFEXITED(*status) && WEXITSTATUS(*status) == 0) return {};
  const std::string why = LastLine(said.get());
  if (why.find(std::strerror(EBUSY)) != std::string::npos)
    return Fail(ErrorCode::kBusy, InUse(path, "fusermount3 -u -z"));
  return Fail(ErrorCode::kPermission,
              "cannot unmount " + Quoted(path) + ": " + (why.empty() ? "fusermount3 refused, without a word" : why));
}

// The lock is a name among the machine's abstract sockets: it needs no folder that all users may write to, works on
// mount points of any file system and ends with its process. Two paths of one CRC wait for one another and no more.
Result<UniqueFd> LockMountPoint(const std::string& path) {
  UniqueFd lock(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!lock.valid()) return SystemFail("cannot make a socket", errno);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "pcrfs-mount-" + CrcText(Crc32(AsBytes(path)));
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);  // behind a NUL: abstract
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  for (int tries = 0; tries < 1000; ++tries) {
    if (bind(lock.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0) return lock;
    if (errno != EADDRINUSE) return SystemFail("cannot lock the mount point " + Quoted(path), errno);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return Fail(ErrorCode::kBusy, "another pcrfs has been busy mounting on " + Quoted(path) + " for ten seconds");
}

// A mount of ours that is there already: one that is dead is taken away, and any other is in the way.
Result<void> ClearOurs(const MountedThere& mount, bool nonempty) {
  switch (DescribeMounts({mount})[0].health) {
    case MountHealth::kDead:
      return TakeDown(mount.path, true);
    case MountHealth::kHidden:  // so it is not what the path leads to
      return {};
    case MountHealth::kNotAnswering:
      return Fail(ErrorCode::kBusy, Quoted(mount.source) + " is already mounted on " + Quoted(mount.path) +
                                        ", and its daemon does not answer; take it down with 'umount -l' first");
    case MountHealth::kServing:
    case MountHealth::kNoAccess:
    case MountHealth::kUnknown:
      break;
  }
  if (nonempty) return {};
  const bool may_take_down = geteuid() == 0 || mount.user == geteuid();
  return Fail(ErrorCode::kExists, Quoted(mount.source) + " is already mounted on " + Quoted(mount.path) +
                                      (may_take_down ? "; take it down with 'pcrfs umount' first"
                                                     : ", by user " + std::to_string(mount.user)));
}

Result<void> CheckMountPoint(const std::string& path, bool nonempty) {
  const auto mounted = FindMount(path);
  if (mounted && mounted->type == kMountType) {
    if (auto cleared = ClearOurs(*mounted, nonempty); !cleared) return cleared;
  } else if (mounted && IsDead(path)) {
    return Fail(ErrorCode::kBusy, "the server of what is mounted on " + Quoted(path) +
                                      " is gone; take that down with 'umount -l' and try again");
  }
  if (auto folder = CheckFolder(path, nonempty); !folder) return folder;
  return CheckDevice();
}

}  // namespace

int PassedDescriptor(std::string_view path) {
  constexpr std::string_view kFolder = "/dev/fd/";
  if (path.substr(0, kFolder.size()) != kFolder) return -1;
  return ParseNumber<int>(path.substr(kFolder.size()), 0).value_or(-1);
}

bool IsPassedDescriptor(std::string_view path) { return PassedDescriptor(path) >= 0; }

Result<std::string> ResolveMountPoint(const std::string& path) {
  if (IsPassedDescriptor(path)) {
    // Anything else would be served as if the kernel were at its other end.
    constexpr unsigned kMisc = 10, kFuse = 229;
    struct stat device {};
    if (fstat(PassedDescriptor(path), &device) != 0)
      return SystemFail("cannot use the mount point " + Quoted(path), errno);
    if (S_ISCHR(device.st_mode) && device.st_rdev == makedev(kMisc, kFuse)) return path;
    return Fail(ErrorCode::kInvalidArgument, Quoted(path) + " is not /dev/fuse, opened and mounted");
  }
  char resolved[PATH_MAX];
  if (realpath(path.c_str(), resolved) != nullptr) return std::string(resolved);
  if (errno == ENOENT) return Fail(ErrorCode::kNotFound, "there is no folder " + Quoted(path));
  if (errno != ENOTCONN && errno != ECONNABORTED)
    return SystemFail("cannot find the mount point " + Quoted(path), errno);
  // The daemon of a mount there is dead: resolve all but the last part.
  std::string trimmed = path;
  while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
  const size_t slash = trimmed.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : trimmed.substr(0, slash + 1);
  if (realpath(parent.c_str(), resolved) == nullptr)
    return SystemFail("cannot find the mount point " + Quoted(path), errno);
  const std::string folder = resolved;
  return (folder == "/" ? "" : folder) + "/" + trimmed.substr(slash == std::string::npos ? 0 : slash + 1);
}

Result<MountedThere> FindOurMount(const std::string& path) {
  const auto resolved = ResolveMountPoint(path);
  if (!resolved) return tl::unexpected(resolved.error());
  auto mount = FindMount(*resolved);
  if (!mount) return Fail(ErrorCode::kNotFound, "nothing is mounted on " + Quoted(*resolved));
  if (mount->type != kMountType)
    return Fail(ErrorCode::kInvalidArgument,
                Quoted(*resolved) + " is no mount of pcrfs but of type " + Quoted(mount->type));
  return *std::move(mount);
}

Result<UniqueFd> PrepareMountPoint(const std::string& path, bool nonempty) {
  if (IsPassedDescriptor(path)) return UniqueFd();
  auto lock = LockMountPoint(path);
  if (!lock) return lock;
  if (auto fit = CheckMountPoint(path, nonempty); !fit) return PassOn(std::move(fit));
  return lock;
}

Result<void> TakeDown(const std::string& path, bool lazy) {
  if (umount2(path.c_str(), UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0) return {};
  if (errno == EPERM) return TakeDownByHelper(path, lazy);
  if (errno == EBUSY) return Fail(ErrorCode::kBusy, InUse(path, "umount -l"));
  return SystemFail("cannot unmount " + Quoted(path), errno);
}

}  // namespace pcrfs
