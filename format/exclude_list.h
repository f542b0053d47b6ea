// Which files and folders of a source are left out by their names: `pack --exclude`.
//
// A glob without '/' is compared with the name of every file and folder, one that holds a '/' with the path from the
// source, so that a leading '/' only says that it is a path. One with '/' at its end means folders only. '*' and '?'
// stand for bytes other than '/', [...] is as in fnmatch(3), '\' quotes, and "**" between slashes stands for any number
// of folders, none included. What lies below an excluded folder is left out with it.
//
// Values; const methods may be called from many threads. Errors: kInvalidArgument for a glob that can match nothing.
#ifndef PCRFS_FORMAT_EXCLUDE_LIST_H_
#define PCRFS_FORMAT_EXCLUDE_LIST_H_

#include <string>
#include <string_view>
#include <vector>

#include "format/error.h"

namespace pcrfs {

class ExcludeList {
 public:
  ExcludeList() = default;
  // Order and repetitions do not matter.
  [[nodiscard]] static Result<ExcludeList> Of(std::vector<std::string> globs);

  // `path` relative to the source. Does not look at the folders above it.
  [[nodiscard]] bool Excludes(std::string_view path, bool is_folder) const;
  // Whether it or a folder above it is excluded.
  [[nodiscard]] bool ExcludesWithin(std::string_view path, bool is_folder) const;

  [[nodiscard]] bool empty() const { return globs_.empty(); }
  // Sorted, each once.
  [[nodiscard]] const std::vector<std::string>& globs() const { return globs_; }

  friend bool operator==(const ExcludeList& a, const ExcludeList& b) { return a.globs_ == b.globs_; }

 private:
  struct Pattern {
    std::vector<std::string> parts;  // globs for the path's last part, or for all of them
    bool whole_path = false;
    bool folders_only = false;
  };

  std::vector<std::string> globs_;
  std::vector<Pattern> patterns_;
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_EXCLUDE_LIST_H_
