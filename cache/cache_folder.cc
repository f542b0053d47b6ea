#include "cache/cache_folder.h"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

namespace pcrfs {
namespace {

// Those that linux/magic.h does not name.
constexpr long kCifsMagic = 0xFF534D42, kLustreMagic = 0x0BD00BD0, kGpfsMagic = 0x47504653, kBeegfsMagic = 0x19830326,
               kGfs2Magic = 0x01161970, kPvfs2Magic = 0x20030528, kPanfsMagic = 0xAAD7AAEA, kFuseMagic = 0x65735546;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// The XDG rule: a path that is not absolute is to be ignored.
std::string HomeCache() {
  const std::string xdg = Environment("XDG_CACHE_HOME"), home = Environment("HOME");
  if (xdg.starts_with('/')) return xdg + "/pcrfs";
  if (home.starts_with('/')) return home + "/.cache/pcrfs";
  return {};
}

// With what helps, where this user can do it.
std::optional<std::string> WhyNotOwn(const struct stat& status) {
  if (status.st_uid != 0 && status.st_uid != geteuid())
    return "it belongs to user " + std::to_string(status.st_uid) + ", who is neither this user nor root";
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) == 0) return std::nullopt;
  const bool is_ours = status.st_uid == geteuid() || geteuid() == 0;
  return std::string("others than its owner can write to it") +
         (is_ours ? " ('chmod go-w' takes that right away)" : "");
}

// Of the folder itself or, where it is still to be made, of what it will be made in.
bool LiesOnNetwork(std::filesystem::path path) {
  struct statfs status;
  while (statfs(path.c_str(), &status) != 0) {
    if (errno != ENOENT || path == path.parent_path()) return false;
    path = path.parent_path();
  }
  return IsNetworkFileSystem(static_cast<long>(status.f_type));
}

// A final '/' would have lstat(2) follow a link.
Result<std::string> Made(const std::string& named) {
  std::error_code error;
  std::string path = std::filesystem::absolute(named, error).lexically_normal();
  if (error) return SystemFail("finding the cache folder " + Quoted(named), error.value());
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (auto made = MakeOwnFolder(path); !made) return PassOn(std::move(made));
  return path;
}

}  // namespace

bool IsNetworkFileSystem(long type) {
  static constexpr std::array<long, 16> kTypes = {NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC, SMB2_SUPER_MAGIC, kCifsMagic,
                                                  CODA_SUPER_MAGIC, AFS_SUPER_MAGIC, AFS_FS_MAGIC,     V9FS_MAGIC,
                                                  CEPH_SUPER_MAGIC, kLustreMagic,    kGpfsMagic,       kBeegfsMagic,
                                                  kGfs2Magic,       kPvfs2Magic,     kPanfsMagic,      kFuseMagic};
  // f_type is 32 bits wide on some machines and sign-extended on others.
  const auto same = [type](long known) { return static_cast<uint32_t>(known) == static_cast<uint32_t>(type); };
  return std::any_of(kTypes.begin(), kTypes.end(), same);
}

bool IsOwn(const struct stat& status) { return !WhyNotOwn(status); }

Result<void> CheckOwnFolder(const std::string& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0) return SystemFail("looking at the cache folder " + Quoted(path), errno);
  if (S_ISLNK(status.st_mode))
    return Fail(ErrorCode::kPermission,
                "the cache folder " + Quoted(path) + " is a symbolic link; name what it points to");
  if (!S_ISDIR(status.st_mode))
    return Fail(ErrorCode::kNotDirectory, "the cache folder " + Quoted(path) + " is no folder");
  if (const auto why = WhyNotOwn(status))
    return Fail(ErrorCode::kPermission, "the cache folder " + Quoted(path) + " is not used: " + *why);
  return {};
}

Result<std::unique_ptr<FileSource>> OpenOwnFile(const std::string& path) {
  auto file = FileSource::Open(path, FileSource::Access::kSequential);
  if (!file) return file;
  if (const auto why = WhyNotOwn((*file)->status()))
    return Fail(ErrorCode::kPermission, Quoted(path) + " is not used: " + *why);
  return file;
}

Result<void> MakeOwnFolder(const std::string& path) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);  // mkdir below tells what is wrong
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    const int why = errno;
    // On a read-only file system even a folder that is there gives EROFS on some systems.
    struct stat status;
    if (lstat(path.c_str(), &status) != 0) return SystemFail("making the cache folder " + Quoted(path), why);
  }
  return CheckOwnFolder(path);
}

std::string NamedCacheFolder(const std::string& option) {
  return option.empty() ? Environment("PCRFS_CACHE_DIR") : option;
}

Result<std::string> CacheFolder(const std::string& option) {
  if (const std::string named = NamedCacheFolder(option); !named.empty()) return Made(named);
  const std::string usual = geteuid() == 0 ? "/var/cache/pcrfs" : HomeCache();
  if (!usual.empty() && !LiesOnNetwork(usual))
    if (auto made = Made(usual); made) return made;
  return Made("/var/tmp/pcrfs-" + std::to_string(geteuid()));
}

}  // namespace pcrfs
