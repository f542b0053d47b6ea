#include "format/kept_shard_report.h"

#include <string>
#include <utility>

#include "format/checksum.h"
#include "format/jpeg_parser.h"
#include "format/pack_item.h"
#include "format/source_file.h"

namespace pcrfs {
namespace {

std::string WhyNotRestorable(const PackJob& job, const std::string& path, const Entry& entry, MemoryGate& memory) {
  static constexpr char kForgotten[] = "no longer known why: this was packed before an interruption, and the source ";
  const auto file = SourceFile::Open(job.source, path);
  const auto bytes = file ? (*file)->ReadWhole() : tl::unexpected(file.error());
  if (!bytes) return kForgotten + std::string("cannot be read any more");
  if (Sha256::Of(*bytes) != entry.source_sha256) return kForgotten + std::string("is another file now");
  const auto encoded = EncodeWithin(memory, *bytes, job.encode);
  return encoded ? encoded->not_restorable : encoded.error().detail;
}

}  // namespace

Result<Opaque> WhyOpaque(const ByteSource& shard, const Entry& entry, const EncodeOptions& options,
                         MemoryGate& memory) {
  const Extent& extent = entry.layout.extents.at(0);
  const auto like_jpeg = StartsWithSoi(shard, extent.offset, extent.size);
  if (!like_jpeg) return tl::unexpected(like_jpeg.error());
  if (auto opaque = OpaqueUnread(extent.size, *like_jpeg)) return *std::move(opaque);
  Bytes bytes(static_cast<size_t>(extent.size));
  if (auto read = shard.ReadAt(extent.offset, bytes); !read) return PassOn(std::move(read));
  if (Sha256::Of(bytes) != entry.source_sha256)
    return Fail(ErrorCode::kDamaged, "shard " + Quoted(shard.name()) + ": " + Quoted(entry.name) + ", " +
                                         std::to_string(extent.size) + " bytes at offset " +
                                         std::to_string(extent.offset) + ": they are not those that were packed");
  auto encoded = EncodeWithin(memory, bytes, options);
  return encoded ? NoRoomInShard() : std::move(encoded.error());
}

Result<void> ReportKeptShard(const PackJob& job, const LoneShard& shard, MemoryGate& memory, PackReport& report) {
  const auto file = FileSource::Open(job.dataset + '/' + shard.row.name, FileSource::Access::kRandom);
  if (!file) return tl::unexpected(file.error());
  for (const Entry& entry : shard.index.entries) {
    const std::string path = EntryPath(shard.index, entry);
    if (entry.layout.kind == EntryKind::kOpaque) {
      const auto why = WhyOpaque(**file, entry, job.encode, memory);
      if (!why) return tl::unexpected(why.error());
      report.Opaque(path, *why);
    } else if (entry.layout.kept) {
      report.Kept(path);
    } else if (!NeedsRestoring(entry.layout)) {
      report.NotRestorable(path, WhyNotRestorable(job, path, entry, memory));
    }
  }
  return {};
}

}  // namespace pcrfs
