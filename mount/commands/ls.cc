#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <string>

#include "mount/commands/commands.h"
#include "mount/console.h"
#include "mount/dataset_walk.h"
#include "mount/timespec.h"

namespace pcrfs {
namespace {

// "drwxr-xr-x", as the mount shows it apart from write permission, which the source had.
std::string ModeText(const ListedItem& item) {
  std::string text = item.is_directory ? "d" : "-";
  for (int shift = 6; shift >= 0; shift -= 3)
    for (int bit = 2; bit >= 0; --bit) text += ((item.attributes.mode >> (shift + bit)) & 1) != 0 ? "xwr"[bit] : '-';
  return text;
}

std::string TimeText(int64_t mtime_ns) {
  const time_t seconds = ToTimespec(mtime_ns).tv_sec;
  struct tm local {};
  std::array<char, 64> text{};
  if (localtime_r(&seconds, &local) == nullptr) return std::to_string(seconds);
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local)};
}

std::string Line(const ListedItem& item, bool with_attributes, size_t size_width, bool terminal) {
  std::string line;
  if (with_attributes) {
    const std::string size = std::to_string(item.size);
    line = ModeText(item) + " " + std::string(size_width - size.size(), ' ') + size + " " +
           TimeText(item.attributes.mtime_ns) + " ";
  }
  return line + ShownName(item.name, terminal) + (with_attributes && item.is_directory ? "/\n" : "\n");
}

}  // namespace

Result<int> Run(const LsCommand& command) {
  const auto dataset = Dataset::Open(command.dataset);
  if (!dataset) return tl::unexpected(dataset.error());
  const auto tree = ChooseTree(*dataset, command.tree);
  if (!tree) return tl::unexpected(tree.error());
  const auto items = ListPath(*dataset, command.path, *tree);
  if (!items) return tl::unexpected(items.error());

  size_t size_width = 0;
  for (const ListedItem& item : *items) size_width = std::max(size_width, std::to_string(item.size).size());
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  Output output;
  for (const ListedItem& item : *items)
    if (auto written = output.Write(Line(item, command.with_attributes, size_width, terminal)); !written)
      return PassOn(std::move(written));
  if (auto flushed = output.Flush(); !flushed) return PassOn(std::move(flushed));
  return kExitDone;
}

}  // namespace pcrfs
