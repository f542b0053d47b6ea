#include "format/kept_shard_report.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "format/checksum.h"
#include "format/opaque_reason.h"
#include "format/pack_item.h"

namespace pcrfs {
namespace {

// That of an image with neither its source's own bytes nor a record to restore them.
bool IsNotRestorable(const Entry& entry) {
  return entry.layout.kind == EntryKind::kImage && !entry.layout.kept && !NeedsRestoring(entry.layout);
}

Result<Bytes> BytesOf(const PackSource& source, const SourceRecord& item) {
  auto file = source.Open(item);
  if (!file) return PassOn(std::move(file));
  return (*file)->ReadWhole();
}

std::string WhyNotRestorable(const PackJob& job, const SourceRecord& item, const HeldContent& held, const Entry& entry,
                             MemoryGate& memory) {
  static constexpr char kForgotten[] = "no longer known why: this was packed before an interruption, and the source ";
  const auto read = held ? Result<Bytes>() : BytesOf(*job.source, item);
  const Result<Bytes>& bytes = held ? *held : read;
  if (!bytes) return kForgotten + std::string("cannot be read any more");
  if (Sha256::Of(*bytes) != entry.source_sha256) return kForgotten + std::string("is another file now");
  const auto encoded = EncodeWithin(memory, *bytes, job.encode);
  return encoded ? encoded->not_restorable : encoded.error().detail;
}

std::unordered_map<std::string_view, const Entry*> EntriesByPath(const LoneShard& shard,
                                                                 std::vector<std::string>& paths) {
  for (const Entry& entry : shard.index.entries) paths.push_back(EntryPath(shard.index, entry));
  std::unordered_map<std::string_view, const Entry*> entries;
  for (size_t i = 0; i < paths.size(); ++i) entries.emplace(paths[i], &shard.index.entries[i]);
  return entries;
}

}  // namespace

std::vector<bool> NeededForReport(const PlannedShard& planned, const LoneShard& shard) {
  std::vector<std::string> paths;
  const auto entries = EntriesByPath(shard, paths);
  std::vector<bool> needed;
  for (const SourceRecord& item : planned.items) {
    const auto found = entries.find(item.path);
    needed.push_back(found != entries.end() && IsNotRestorable(*found->second));
  }
  return needed;
}

Result<void> ReportKeptShard(const PackJob& job, const PlannedShard& planned, const std::vector<HeldContent>& held,
                             const LoneShard& shard, MemoryGate& memory, PackReport& report) {
  const auto file = FileSource::Open(job.dataset + '/' + shard.row.name, FileSource::Access::kRandom);
  if (!file) return tl::unexpected(file.error());
  std::vector<std::string> paths;
  const auto entries = EntriesByPath(shard, paths);
  for (size_t i = 0; i < planned.items.size(); ++i) {
    const SourceRecord& item = planned.items[i];
    const auto found = entries.find(item.path);
    if (found == entries.end()) continue;  // a folder
    const Entry& entry = *found->second;
    if (entry.layout.kind == EntryKind::kOpaque) {
      ReasonBudget unlimited;
      const auto why = WhyOpaque(**file, entry, job.encode, memory, unlimited);
      if (!why) return tl::unexpected(why.error());
      report.Opaque(item.path, why->value_or(NoRoomInShard()));
    } else if (entry.layout.kept) {
      report.Kept(item.path);
    } else if (IsNotRestorable(entry)) {
      report.NotRestorable(item.path,
                           WhyNotRestorable(job, item, held.empty() ? HeldContent() : held[i], entry, memory));
    }
  }
  return {};
}

}  // namespace pcrfs
