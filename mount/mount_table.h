// The kernel's table of mounts, as this process sees it: /proc/self/mountinfo.
//
// Free functions; thread-safe, nothing is kept, no mounted file system is asked. Nothing is found, too, when /proc
// cannot be read.
#ifndef PCRFS_MOUNT_MOUNT_TABLE_H_
#define PCRFS_MOUNT_MOUNT_TABLE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pcrfs {

inline constexpr std::string_view kMountType = "fuse.pcrfs";

struct MountedThere {
  uint64_t id = 0;     // of this mount, among those there are now
  std::string device;  // "major:minor"; the same for all mounts of one file system
  std::string root;    // what of the file system is shown there; "/" unless it is a bind mount of a part
  std::string path;    // absolute
  std::string source;  // of ours: the data set's path
  std::string type;    // of ours: kMountType
  uid_t user = 0;      // of ours: who mounted it
  gid_t group = 0;

  friend bool operator==(const MountedThere&, const MountedThere&) = default;
};

// All mounts in a text like /proc/self/mountinfo, in its order; odd lines are left out.
[[nodiscard]] std::vector<MountedThere> ReadMounts(std::string_view mountinfo);
// Those there are now.
[[nodiscard]] std::vector<MountedThere> ReadMounts();

// The topmost mount at exactly `path` (absolute, as ResolveMountPoint in mount_point.h gives it).
[[nodiscard]] std::optional<MountedThere> FindMount(std::string_view mountinfo, std::string_view path);
[[nodiscard]] std::optional<MountedThere> FindMount(const std::string& path);

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_MOUNT_TABLE_H_
