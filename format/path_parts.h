// Parts of paths as the format has them: names with '/' between, relative, without one at either end; "" is the root.
//
// Pure functions; what they return points into what they were given.
#ifndef PCRFS_FORMAT_PATH_PARTS_H_
#define PCRFS_FORMAT_PATH_PARTS_H_

#include <string_view>

namespace pcrfs {

// The folder that `path` lies in; of a name in the root, and of the root, "".
[[nodiscard]] inline std::string_view ParentOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

[[nodiscard]] inline std::string_view NameOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_PATH_PARTS_H_
