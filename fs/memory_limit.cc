#include "fs/memory_limit.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

namespace pcrfs {
namespace {

// The names that the two versions give to the same things.
struct Version {
  std::string_view file_system;          // in mountinfo
  std::vector<std::string_view> limits;  // the smallest counts
  std::string_view usage;
  std::vector<std::string_view> reclaimable;  // lines of memory.stat
};

const Version& VersionOne() {
  static const Version version{
      "cgroup", {"memory.limit_in_bytes"}, "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};
  return version;
}

const Version& VersionTwo() {
  static const Version version{
      "cgroup2", {"memory.max", "memory.high"}, "memory.current", {"inactive_file", "active_file"}};
  return version;
}

std::optional<uint64_t> Number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

// Nothing for "max" and for a file that is not there.
std::optional<uint64_t> NumberIn(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return Number(line);
}

// The number behind `key` on a line of its own, as in "key 5" and "key:   5 kB".
uint64_t NumberAt(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t digits = line.find_first_not_of(": ", key.size());
    if (digits == key.size() || digits == std::string::npos) continue;
    return Number(std::string_view(line).substr(digits)).value_or(0);
  }
  return 0;
}

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> items;
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, separator);) items.push_back(item);
  return items;
}

bool Contains(const std::vector<std::string>& items, std::string_view item) {
  return std::ranges::find(items, item) != items.end();
}

// Where the memory controller of a version is mounted, and which group is at the mount's top (in a container, not "/").
struct Mount {
  std::string point, top;
};

std::optional<Mount> FindMount(const std::string& root, const Version& version) {
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t separator = line.find(" - ");
    if (separator == std::string::npos) continue;
    const std::vector<std::string> left = Split(line.substr(0, separator), ' ');
    const std::vector<std::string> right = Split(line.substr(separator + 3), ' ');
    if (left.size() < 5 || right.size() < 3 || right[0] != version.file_system) continue;
    if (version.file_system == "cgroup" && !Contains(Split(right[2], ','), "memory")) continue;
    return Mount{root + left[4], left[3]};
  }
  return std::nullopt;
}

// The group of this process, as /proc/self/cgroup names it.
std::optional<std::string> FindGroup(const std::string& root, const Version& version) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool fits =
        version.file_system == "cgroup2" ? line.starts_with("0::") : Contains(Split(controllers, ','), "memory");
    if (fits) return line.substr(second + 1);
  }
  return std::nullopt;
}

// What the group at `folder` still takes; nothing when it has no limit.
std::optional<uint64_t> Headroom(const std::string& folder, const Version& version) {
  std::optional<uint64_t> limit;
  for (const std::string_view name : version.limits)
    if (const auto number = NumberIn(folder + "/" + std::string(name)))
      limit = std::min(limit.value_or(UINT64_MAX), *number);
  if (!limit) return std::nullopt;
  const uint64_t usage = NumberIn(folder + "/" + std::string(version.usage)).value_or(0);
  uint64_t reclaimable = 0;
  for (const std::string_view line : version.reclaimable) reclaimable += NumberAt(folder + "/memory.stat", line);
  const uint64_t taken = usage - std::min(usage, reclaimable);
  return *limit - std::min(*limit, taken);
}

// The least of the groups from this process's up to the one that is mounted.
uint64_t GroupHeadroom(const std::string& root, const Version& version) {
  uint64_t least = UINT64_MAX;
  const auto mount = FindMount(root, version);
  auto group = FindGroup(root, version);
  if (!mount || !group) return least;
  // Seen from inside a container, what is above the mount's top is out of sight.
  if (mount->top != "/" && group->starts_with(mount->top)) group->erase(0, mount->top.size());
  for (std::string path = *group;; path.resize(path.rfind('/'))) {
    while (path.ends_with('/')) path.pop_back();
    if (const auto headroom = Headroom(mount->point + path, version)) least = std::min(least, *headroom);
    if (path.find('/') == std::string::npos) return least;
  }
}

}  // namespace

uint64_t AvailableMemory(const std::string& root) {
  const uint64_t machine = NumberAt(root + "/proc/meminfo", "MemAvailable") * 1024;
  return std::min({machine, GroupHeadroom(root, VersionOne()), GroupHeadroom(root, VersionTwo())});
}

}  // namespace pcrfs
