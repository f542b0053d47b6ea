// Where catalogs are kept: a local folder of this user's own, always safe to delete.
//
// Thread safety: free functions; they read the environment, so nobody may change it at the same time. Errors:
// kPermission (owned by someone else, writable by others, a symbolic link, cannot be made), kIo.
#ifndef PCRFS_CACHE_CACHE_FOLDER_H_
#define PCRFS_CACHE_CACHE_FOLDER_H_

#include <sys/stat.h>

#include <memory>
#include <string>

#include "format/error.h"
#include "format/file.h"

namespace pcrfs {

// `option` when not empty, else $PCRFS_CACHE_DIR, else /var/cache/pcrfs for root, else $XDG_CACHE_HOME/pcrfs, else
// $HOME/.cache/pcrfs; in place of the last three, where that is on a network file system or cannot be had,
// /var/tmp/pcrfs-UID. Made when missing, with mode 0700, and checked by CheckOwnFolder. Absolute.
[[nodiscard]] Result<std::string> CacheFolder(const std::string& option);

// The first two of these; empty when neither is given.
[[nodiscard]] std::string NamedCacheFolder(const std::string& option);

// Owned by us or root, and writable by nobody else.
[[nodiscard]] bool IsOwn(const struct stat& status);

// A folder that only we or root can write to, and no symbolic link.
[[nodiscard]] Result<void> CheckOwnFolder(const std::string& path);

// Makes `path` with mode 0700 unless it is there, and checks it.
[[nodiscard]] Result<void> MakeOwnFolder(const std::string& path);

// A file that only we or root can write to, to be read from front to back.
[[nodiscard]] Result<std::unique_ptr<FileSource>> OpenOwnFile(const std::string& path);

// The kinds of file systems (statfs(2) f_type) that are served over a network, where LMDB's mapping and locks are not
// to be trusted.
[[nodiscard]] bool IsNetworkFileSystem(long type);

}  // namespace pcrfs

#endif  // PCRFS_CACHE_CACHE_FOLDER_H_
