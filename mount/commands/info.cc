#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <unordered_set>
#include <vector>

#include "format/jpeg_parser.h"
#include "mount/commands/commands.h"
#include "mount/console.h"
#include "mount/dataset_walk.h"

namespace pcrfs {
namespace {

struct LevelTotals {
  uint64_t bytes = 0;        // of all files
  uint64_t image_bytes = 0;  // of images
};

struct Totals {
  uint64_t images = 0, opaque_files = 0, directories = 0, shards = 0;
  uint64_t restorable = 0, not_restorable = 0, kept = 0;  // of the images
  uint64_t opaque_jpegs = 0;
  uint64_t stored_bytes = 0;  // shards and PCR_index.pb
  std::vector<LevelTotals> levels;
};

Result<void> CountKind(const ByteSource& shard, const EntryLayout& layout, Totals& totals) {
  if (layout.kind == EntryKind::kImage) {
    ++(layout.kept ? totals.kept : NeedsRestoring(layout) ? totals.restorable : totals.not_restorable);
    return {};
  }
  // As little as tells the two kinds of opaque files apart; whether it is right is for verify.
  const Extent& file = layout.extents.at(0);
  const auto jpeg = StartsWithSoi(shard, file.offset, file.size);
  if (!jpeg) return tl::unexpected(jpeg.error());
  totals.opaque_jpegs += *jpeg ? 1U : 0U;
  return {};
}

Result<Totals> Count(const Dataset& dataset) {
  Totals totals;
  totals.levels.resize(static_cast<size_t>(dataset.levels()));
  std::unordered_set<std::string> directories;  // several shards may list one
  const auto walked = ForEachShard(dataset, [&](const IndexedShard& shard) -> Result<void> {
    ++totals.shards;
    totals.stored_bytes += shard.source->size();
    directories.insert(shard.index.directories.begin(), shard.index.directories.end());
    for (const Entry& entry : shard.index.entries) {
      const bool image = entry.layout.kind == EntryKind::kImage;
      ++(image ? totals.images : totals.opaque_files);
      if (auto counted = CountKind(*shard.source, entry.layout, totals); !counted) return counted;
      for (int k = 1; k <= dataset.levels(); ++k) {
        const uint64_t size = SizeAtLevel(entry.layout, *Level::FromNumber(k), dataset.levels());
        totals.levels[static_cast<size_t>(k - 1)].bytes += size;
        if (image) totals.levels[static_cast<size_t>(k - 1)].image_bytes += size;
      }
    }
    return {};
  });
  if (!walked) return tl::unexpected(walked.error());
  totals.directories = directories.size();
  const auto list =
      FileSource::Open(dataset.path() + "/" + std::string(kDatasetIndexName), FileSource::Access::kSequential);
  if (!list) return tl::unexpected(list.error());
  totals.stored_bytes += (*list)->size();
  return totals;
}

double PerImage(const Totals& totals, const LevelTotals& level) {
  return totals.images == 0 ? 0 : static_cast<double>(level.image_bytes) / static_cast<double>(totals.images);
}

double Share(const Totals& totals, const LevelTotals& level) {
  const uint64_t whole = totals.levels.back().bytes;
  return whole == 0 ? 0 : static_cast<double>(level.bytes) / static_cast<double>(whole);
}

std::string AsJson(const Totals& totals) {
  nlohmann::ordered_json json = {{"format_version", 1},
                                 {"images", totals.images},
                                 {"opaque_files", totals.opaque_files},
                                 {"directories", totals.directories},
                                 {"shards", totals.shards},
                                 {"stored_bytes", totals.stored_bytes},
                                 {"levels", nlohmann::ordered_json::array()},
                                 {"kinds",
                                  {{"restorable", totals.restorable},
                                   {"not_restorable", totals.not_restorable},
                                   {"kept", totals.kept},
                                   {"opaque_not_jpeg", totals.opaque_files - totals.opaque_jpegs},
                                   {"opaque_jpeg", totals.opaque_jpegs}}}};
  int number = 0;
  for (const LevelTotals& level : totals.levels)
    json["levels"].push_back({{"level", ++number},
                              {"bytes", level.bytes},
                              {"bytes_per_image", PerImage(totals, level)},
                              {"share", Share(totals, level)}});
  return json.dump(2) + "\n";
}

std::string AsTable(const Totals& totals) {
  std::ostringstream text;
  text << "images        " << totals.images << "\n  converted, can be restored byte for byte     " << totals.restorable
       << "\n  converted, cannot be restored                " << totals.not_restorable
       << "\n  progressive, kept as it was                  " << totals.kept << "\nopaque files  "
       << totals.opaque_files << "\n  not JPEG                                     "
       << totals.opaque_files - totals.opaque_jpegs << "\n  JPEG, damaged or of a kind kept whole        "
       << totals.opaque_jpegs << "\ndirectories   " << totals.directories << "\nshards        " << totals.shards
       << "\nstored        " << totals.stored_bytes << " bytes ("
       << HumanBytes(static_cast<double>(totals.stored_bytes)) << ")\n\nlevel          bytes  bytes/image    share\n"
       << std::fixed;
  int number = 0;
  for (const LevelTotals& level : totals.levels)
    text << std::setw(5) << ++number << std::setw(15) << level.bytes << std::setw(13) << std::setprecision(0)
         << PerImage(totals, level) << std::setw(7) << std::setprecision(1) << 100 * Share(totals, level) << " %\n";
  return text.str();
}

}  // namespace

Result<int> Run(const InfoCommand& command) {
  const auto dataset = Dataset::Open(command.dataset);
  if (!dataset) return tl::unexpected(dataset.error());
  const auto totals = Count(*dataset);
  if (!totals) return tl::unexpected(totals.error());
  if (auto printed = Print(command.json ? AsJson(*totals) : AsTable(*totals)); !printed)
    return PassOn(std::move(printed));
  return kExitDone;
}

}  // namespace pcrfs
