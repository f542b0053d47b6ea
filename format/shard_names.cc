#include "format/shard_names.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "format/path_parts.h"

namespace pcrfs {
namespace {

// A name and where it lies: 0 = the root, k = k-th directory counted from 1.
using Place = std::pair<uint32_t, std::string_view>;

tl::unexpected<Error> Refuse(std::string_view path, std::string_view rule) {
  return Fail(ErrorCode::kDamaged, "the path " + Quoted(path) + " " + std::string(rule));
}

bool IsValidPath(std::string_view path) {
  while (true) {
    const size_t slash = path.find('/');
    if (!IsValidName(path.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

// Directory number by path, the root included.
std::unordered_map<std::string_view, uint32_t> NumberDirectories(const std::vector<std::string>& directories) {
  std::unordered_map<std::string_view, uint32_t> numbers;
  numbers.reserve(directories.size() + 1);
  numbers.emplace(std::string_view(), 0);
  for (const std::string& path : directories) numbers.emplace(path, static_cast<uint32_t>(numbers.size()));
  return numbers;
}

std::string FullPath(const std::vector<std::string>& directories, Place place) {
  if (place.first == 0) return std::string(place.second);
  return directories[place.first - 1] + "/" + std::string(place.second);
}

}  // namespace

bool IsValidName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

Result<void> CheckDirectories(const std::vector<std::string>& directories) {
  for (size_t i = 0; i < directories.size(); ++i) {
    const std::string& path = directories[i];
    if (path.size() > kMaxPathBytes) {
      return Fail(ErrorCode::kLimit, "a directory's path has " + std::to_string(path.size()) +
                                         " bytes, more than the limit of " + std::to_string(kMaxPathBytes));
    }
    if (!IsValidPath(path)) return Refuse(path, "is absolute, climbs, or has a part that is no name");
    if (i > 0 && directories[i - 1] >= path) return Refuse(path, "is not in byte order, or listed twice");
  }
  const auto numbers = NumberDirectories(directories);
  for (const std::string& path : directories) {
    if (!numbers.contains(ParentOf(path))) return Refuse(path, "is listed without its parent");
  }
  return {};
}

Result<void> CheckEntryNames(const std::vector<std::string>& directories, const std::vector<Entry>& entries) {
  std::vector<Place> places;
  places.reserve(directories.size() + entries.size());
  for (const Entry& entry : entries) {
    if (entry.directory > directories.size()) {
      return Fail(ErrorCode::kDamaged, Quoted(entry.name) + " lies in directory " + std::to_string(entry.directory) +
                                           " of " + std::to_string(directories.size()));
    }
    if (!IsValidName(entry.name)) {
      return Fail(ErrorCode::kDamaged, "an entry is called " + Quoted(entry.name) + ", which no file can be");
    }
    const size_t parent_size = entry.directory == 0 ? 0 : directories[entry.directory - 1].size() + 1;
    if (parent_size + entry.name.size() > kMaxPathBytes) {
      return Fail(ErrorCode::kLimit, "the path of " + Quoted(entry.name) + " is longer than the limit of " +
                                         std::to_string(kMaxPathBytes) + " bytes");
    }
    places.emplace_back(entry.directory, entry.name);
  }
  const auto numbers = NumberDirectories(directories);
  for (const std::string& path : directories) places.emplace_back(numbers.at(ParentOf(path)), NameOf(path));

  std::sort(places.begin(), places.end());
  const auto twice = std::adjacent_find(places.begin(), places.end());
  if (twice != places.end()) return Refuse(FullPath(directories, *twice), "occurs twice, as a file or as a directory");
  return {};
}

}  // namespace pcrfs
