#include "format/exclude_list.h"

#include <fnmatch.h>

#include <algorithm>
#include <span>
#include <utility>

namespace pcrfs {
namespace {

constexpr std::string_view kAnyFolders = "**";

std::vector<std::string> SplitAtSlashes(std::string_view text) {
  std::vector<std::string> parts;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find('/', start), text.size());
    parts.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

bool MatchesPart(const std::string& glob, const std::string& part) {
  return fnmatch(glob.c_str(), part.c_str(), 0) == 0;
}

// Takes a step for each pair of a glob and a part at most, whatever number of "**" there is: `reached[i]` says whether
// the globs so far can have matched the first i parts.
bool MatchesPath(std::span<const std::string> globs, std::span<const std::string> parts) {
  std::vector<bool> reached(parts.size() + 1, false);
  reached[0] = true;
  for (const std::string& glob : globs) {
    std::vector<bool> next(parts.size() + 1, false);
    for (size_t i = 0; i <= parts.size(); ++i) {
      if (glob == kAnyFolders)
        next[i] = reached[i] || (i > 0 && next[i - 1]);
      else
        next[i] = i > 0 && reached[i - 1] && MatchesPart(glob, parts[i - 1]);
    }
    reached = std::move(next);
  }
  return reached.back();
}

}  // namespace

Result<ExcludeList> ExcludeList::Of(std::vector<std::string> globs) {
  std::sort(globs.begin(), globs.end());
  globs.erase(std::unique(globs.begin(), globs.end()), globs.end());
  ExcludeList list;
  for (const std::string& glob : globs) {
    const auto refuse = [&](const std::string& why) {
      return Fail(ErrorCode::kInvalidArgument, "the glob " + Quoted(glob) + " excludes nothing: " + why);
    };
    Pattern pattern;
    std::string_view text = glob;
    if (text.find('\0') != std::string_view::npos) return refuse("no name holds a NUL");
    pattern.folders_only = text.ends_with('/');
    while (text.ends_with('/')) text.remove_suffix(1);
    pattern.whole_path = text.find('/') != std::string_view::npos;
    while (text.starts_with('/')) text.remove_prefix(1);
    pattern.parts = SplitAtSlashes(text);
    for (const std::string& part : pattern.parts)
      if (part.empty() || part == "." || part == "..") return refuse("paths are names with '/' between");
    list.patterns_.push_back(std::move(pattern));
  }
  list.globs_ = std::move(globs);
  return list;
}

bool ExcludeList::Excludes(std::string_view path, bool is_folder) const {
  if (patterns_.empty()) return false;
  const std::vector<std::string> parts = SplitAtSlashes(path);
  return std::ranges::any_of(patterns_, [&](const Pattern& pattern) {
    if (pattern.folders_only && !is_folder) return false;
    return pattern.whole_path ? MatchesPath(pattern.parts, parts) : MatchesPart(pattern.parts.front(), parts.back());
  });
}

bool ExcludeList::ExcludesWithin(std::string_view path, bool is_folder) const {
  if (patterns_.empty()) return false;
  for (size_t slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/', slash + 1))
    if (Excludes(path.substr(0, slash), true)) return true;
  return Excludes(path, is_folder);
}

}  // namespace pcrfs
