#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <unordered_set>
#include <vector>

#include "format/opaque_reason.h"
#include "format/pack_options.h"
#include "mount/commands/commands.h"
#include "mount/console.h"
#include "mount/dataset_walk.h"
#include "mount/reason_words.h"

namespace pcrfs {
namespace {

struct LevelTotals {
  uint64_t bytes = 0;        // of all files
  uint64_t image_bytes = 0;  // of images
};

struct Totals {
  uint64_t images = 0, opaque_files = 0, directories = 0, shards = 0;
  uint64_t stored_bytes = 0;  // shards and PCR_index.pb
  KindCounts kinds;
  std::vector<LevelTotals> levels;
};

// What finding out the reasons of opaque files may cost: some ten seconds, where a data set is full of them.
constexpr ReasonBudget kReasonBudget = {.bytes = uint64_t{1} << 28, .work = uint64_t{1} << 28};

// Counts entries by what became of them when they were packed.
class KindCounter {
 public:
  KindCounter(const Dataset& dataset, KindCounts& counts)
      : options_(ParsePackOptions(dataset.index().pack_options).value_or(PackOptions{}).encode), counts_(counts) {}

  Result<void> Add(const ByteSource& shard, const Entry& entry) {
    if (entry.layout.kind == EntryKind::kOpaque) return AddOpaque(shard, entry);
    ++(entry.layout.kept ? counts_.kept : NeedsRestoring(entry.layout) ? counts_.restorable : counts_.not_restorable);
    return {};
  }

 private:
  // Damage is for verify to report.
  Result<void> AddOpaque(const ByteSource& shard, const Entry& entry) {
    const auto why = WhyOpaque(shard, entry, options_, memory_, budget_);
    if (why)  // a file that this release would convert was of a kind that the one that packed it did not
      ++counts_.opaque[static_cast<size_t>(*why ? (*why)->reason : OpaqueReason::kUnsupported)];
    else if (why.error().code == ErrorCode::kLimit || why.error().code == ErrorCode::kDamaged)
      ++counts_.opaque_for_unknown_reason;
    else
      return tl::unexpected(why.error());
    return {};
  }

  const EncodeOptions options_;
  KindCounts& counts_;
  MemoryGate memory_{0};  // nobody to share it with
  ReasonBudget budget_ = kReasonBudget;
};

Result<Totals> Count(const Dataset& dataset) {
  Totals totals;
  totals.levels.resize(static_cast<size_t>(dataset.levels()));
  std::unordered_set<std::string> directories;  // several shards may list one
  KindCounter kinds(dataset, totals.kinds);
  const auto walked = ForEachShard(dataset, [&](const IndexedShard& shard) -> Result<void> {
    ++totals.shards;
    totals.stored_bytes += shard.source->size();
    directories.insert(shard.index.directories.begin(), shard.index.directories.end());
    for (const Entry& entry : shard.index.entries) {
      const bool image = entry.layout.kind == EntryKind::kImage;
      ++(image ? totals.images : totals.opaque_files);
      if (auto counted = kinds.Add(*shard.source, entry); !counted) return counted;
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

nlohmann::ordered_json KindsAsJson(const Totals& totals) {
  const KindCounts& kinds = totals.kinds;
  const uint64_t not_jpeg = kinds.opaque[static_cast<size_t>(OpaqueReason::kNotJpeg)];
  return {{"restorable", kinds.restorable},
          {"not_restorable", kinds.not_restorable},
          {"kept", kinds.kept},
          {"opaque_not_jpeg", not_jpeg},
          {"opaque_jpeg", totals.opaque_files - not_jpeg}};
}

nlohmann::ordered_json ReasonsAsJson(const KindCounts& kinds) {
  nlohmann::ordered_json json;
  for (size_t i = 0; i < kOpaqueReasons; ++i)
    json[std::string(ReasonName(static_cast<OpaqueReason>(i)))] = kinds.opaque[i];
  json["unknown"] = kinds.opaque_for_unknown_reason;
  return json;
}

std::string AsJson(const Totals& totals) {
  nlohmann::ordered_json json = {{"format_version", 1},
                                 {"images", totals.images},
                                 {"opaque_files", totals.opaque_files},
                                 {"directories", totals.directories},
                                 {"shards", totals.shards},
                                 {"stored_bytes", totals.stored_bytes},
                                 {"levels", nlohmann::ordered_json::array()},
                                 {"kinds", KindsAsJson(totals)},
                                 {"opaque_reasons", ReasonsAsJson(totals.kinds)}};
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
  text << "images        " << totals.images << "\nopaque files  " << totals.opaque_files << "\ndirectories   "
       << totals.directories << "\nshards        " << totals.shards << "\nstored        " << totals.stored_bytes
       << " bytes (" << HumanBytes(static_cast<double>(totals.stored_bytes)) << ")\n\n"
       << KindLines(totals.kinds) << "\nlevel          bytes  bytes/image    share\n"
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
