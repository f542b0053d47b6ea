#include "mount/mount_table.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "format/parse_number.h"

namespace pcrfs {
namespace {

std::vector<std::string_view> SplitAt(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// mountinfo writes blanks, line feeds and backslashes of paths as \ooo.
std::string Unescape(std::string_view field) {
  const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string out;
  for (size_t i = 0; i < field.size(); ++i) {
    if (field[i] == '\\' && i + 3 < field.size() && is_octal(field[i + 1]) && is_octal(field[i + 2]) &&
        is_octal(field[i + 3])) {
      out += static_cast<char>((field[i + 1] - '0') * 64 + (field[i + 2] - '0') * 8 + (field[i + 3] - '0'));
      i += 3;
    } else {
      out += field[i];
    }
  }
  return out;
}

// 36 35 98:0 /root /mount/point options tags... - type source super-options
std::optional<MountedThere> ReadLine(std::string_view line) {
  const auto fields = SplitAt(line, ' ');
  const auto dash = std::find(fields.begin(), fields.end(), "-");
  if (fields.size() < 6 || fields.end() - dash < 3) return std::nullopt;
  const auto id = ParseNumber<uint64_t>(fields[0]);
  if (!id) return std::nullopt;
  MountedThere mount{
      *id, std::string(fields[2]), Unescape(fields[3]), Unescape(fields[4]), Unescape(dash[2]), std::string(dash[1]), 0,
      0};
  if (mount.type != kMountType || fields.end() - dash < 4) return mount;
  const auto number_of = [](std::string_view item, std::string_view name) {
    return item.substr(0, name.size()) == name ? ParseNumber<uint32_t>(item.substr(name.size())) : std::nullopt;
  };
  for (std::string_view item : SplitAt(dash[3], ',')) {
    if (const auto user = number_of(item, "user_id=")) mount.user = *user;
    if (const auto group = number_of(item, "group_id=")) mount.group = *group;
  }
  return mount;
}

std::string ReadText(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::optional<MountedThere> LastAt(std::vector<MountedThere> mounts, std::string_view path) {
  const auto at = std::find_if(mounts.rbegin(), mounts.rend(), [&](const auto& mount) { return mount.path == path; });
  return at == mounts.rend() ? std::nullopt : std::optional(std::move(*at));
}

}  // namespace

std::vector<MountedThere> ReadMounts(std::string_view mountinfo) {
  std::vector<MountedThere> mounts;
  for (std::string_view line : SplitAt(mountinfo, '\n'))
    if (auto mount = ReadLine(line)) mounts.push_back(*std::move(mount));
  return mounts;
}

std::vector<MountedThere> ReadMounts() { return ReadMounts(ReadText("/proc/self/mountinfo")); }

std::optional<MountedThere> FindMount(std::string_view mountinfo, std::string_view path) {
  return LastAt(ReadMounts(mountinfo), path);
}

std::optional<MountedThere> FindMount(const std::string& path) { return LastAt(ReadMounts(), path); }

}  // namespace pcrfs
