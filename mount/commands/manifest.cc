#include <string>
#include <string_view>
#include <utility>

#include "format/checksum.h"
#include "mount/commands/commands.h"
#include "mount/console.h"
#include "mount/dataset_walk.h"

namespace pcrfs {
namespace {

// As GNU's sha256sum writes it: a name with a line feed or a backslash is escaped, and its line then begins with one.
std::string Line(const Sha256Digest& digest, std::string_view path) {
  std::string name, line;
  for (const char c : path) {
    if (c == '\n')
      name += "\\n";
    else if (c == '\r')
      name += "\\r";
    else if (c == '\\')
      name += "\\\\";
    else
      name += c;
  }
  if (name.size() != path.size()) line += '\\';
  line += Hex(digest);
  line += path == "-" ? "  ./" : "  ";  // a lone hyphen is standard input
  return line + name + '\n';
}

}  // namespace

Result<int> Run(const ManifestCommand& command) {
  const auto dataset = Dataset::Open(command.dataset);
  if (!dataset) return tl::unexpected(dataset.error());
  Output output;
  const auto walked = ForEachShard(*dataset, [&](const IndexedShard& shard) -> Result<void> {
    for (const Entry& entry : shard.index.entries) {
      const std::string line = Line(entry.source_sha256, EntryPath(shard.index, entry));
      if (auto written = output.Write(line); !written) return written;
    }
    return {};
  });
  if (!walked) return tl::unexpected(walked.error());
  if (auto flushed = output.Flush(); !flushed) return PassOn(std::move(flushed));
  return kExitDone;
}

}  // namespace pcrfs
