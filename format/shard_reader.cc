#include "format/shard_reader.h"

#include <numeric>

#include "format/checksum.h"
#include "format/shard_footer.h"
#include "format/shard_layout.h"

namespace pcrfs {
namespace {

tl::unexpected<Error> NotTheListed(const std::string& what) {
  return Fail(ErrorCode::kStale, "this is not the shard that PCR_index.pb lists: " + what);
}

std::string Differs(std::string_view what, uint64_t expected, uint64_t found) {
  return std::string(what) + ": expected " + std::to_string(expected) + ", found " + std::to_string(found);
}

// Footer and index are whole; are they the row's?
Result<void> CompareFooter(const ShardFooter& footer, const ShardRow& row) {
  const uint64_t published_end = std::accumulate(row.part_sizes.begin(), row.part_sizes.end(), uint64_t{0});
  const struct {
    std::string_view what;
    uint64_t expected, found;
  } claims[] = {{"offset of the index", row.index_offset, footer.index_offset},
                {"length of the index", row.index_length, footer.index_length},
                {"file size", row.file_size, footer.file_size},
                {"end of the scan groups", published_end, footer.published_end}};
  for (const auto& claim : claims)
    if (claim.expected != claim.found) return NotTheListed(Differs(claim.what, claim.expected, claim.found));
  if (footer.index_crc != row.index_crc) {
    return NotTheListed("checksum of the index: expected " + CrcText(row.index_crc) + ", found " +
                        CrcText(footer.index_crc));
  }
  return {};
}

Result<ShardIndex> DecodeCheckedIndex(ByteSpan encoded, const ShardRow& row) {
  if (const uint32_t computed = Crc32(encoded); computed != row.index_crc) {
    return Fail(ErrorCode::kDamaged,
                "the index's checksum is wrong: expected " + CrcText(row.index_crc) + ", found " + CrcText(computed));
  }
  if (const ShardId id = ComputeShardId(encoded); id != row.id) {
    return NotTheListed("id: expected " + Hex(row.id) + ", found " + Hex(id));
  }
  return DecodeShardIndex(encoded);
}

// The index against what the footer, and so the row, says of it.
Result<void> CompareIndex(const ShardIndex& index, const ShardRow& row) {
  for (size_t i = 0; i < row.part_sizes.size(); ++i) {
    if (row.part_sizes[i] == index.section_sizes[i]) continue;
    return Fail(ErrorCode::kDamaged, Differs("bytes of section " + std::to_string(i) + " by PCR_index.pb and index",
                                             row.part_sizes[i], index.section_sizes[i]));
  }
  if (IndexOffset(index) != row.index_offset) {
    return Fail(ErrorCode::kDamaged, Differs("end of the sections", row.index_offset, IndexOffset(index)));
  }
  const auto name = ParseShardFileName(row.name);
  if (!name || name->has_images != (index.image_count > 0)) {
    return Fail(ErrorCode::kDamaged, Quoted(row.name) + " holds " + std::to_string(index.image_count) +
                                         " images; shards with images, and only those, are called .pcr");
  }
  return {};
}

Result<ShardIndex> ReadUncontexted(const ByteSource& shard, const ShardRow& row) {
  if (shard.size() != row.file_size) return NotTheListed(Differs("file size", row.file_size, shard.size()));
  if (row.index_length > kMaxIndexBytes) {
    return Fail(ErrorCode::kLimit, "an index of " + std::to_string(row.index_length) + " bytes");
  }
  Bytes bytes(static_cast<size_t>(row.index_length) + kFooterBytes);
  if (auto read = shard.ReadAt(row.index_offset, bytes); !read) return PassOn(std::move(read));
  const auto footer = DecodeShardFooter(ByteSpan(bytes).last(kFooterBytes));
  if (!footer) return tl::unexpected(footer.error());
  if (auto same = CompareFooter(*footer, row); !same) return PassOn(std::move(same));
  auto index = DecodeCheckedIndex(ByteSpan(bytes).first(static_cast<size_t>(row.index_length)), row);
  if (!index) return index;
  if (auto same = CompareIndex(*index, row); !same) return PassOn(std::move(same));
  return index;
}

Result<LoneShard> ReadLoneUncontexted(const ByteSource& shard, std::string_view file_name) {
  if (shard.size() < kFooterBytes) return Fail(ErrorCode::kDamaged, "it is too short to be a shard");
  Bytes bytes(kFooterBytes);
  if (auto read = shard.ReadAt(shard.size() - kFooterBytes, bytes); !read) return PassOn(std::move(read));
  const auto footer = DecodeShardFooter(bytes);
  if (!footer) return tl::unexpected(footer.error());
  if (footer->file_size != shard.size()) {
    return Fail(ErrorCode::kDamaged, Differs("file size", footer->file_size, shard.size()));
  }
  bytes.resize(footer->index_length);
  if (auto read = shard.ReadAt(footer->index_offset, bytes); !read) return PassOn(std::move(read));
  LoneShard lone;
  lone.row = {.name = std::string(file_name),
              .part_sizes = {},
              .index_offset = footer->index_offset,
              .index_length = footer->index_length,
              .index_crc = footer->index_crc,
              .file_size = footer->file_size,
              .id = ComputeShardId(bytes)};
  auto index = DecodeCheckedIndex(bytes, lone.row);
  if (!index) return PassOn(std::move(index));
  lone.index = std::move(*index);
  if (PublishedEnd(lone.index) != footer->published_end) {
    return Fail(ErrorCode::kDamaged,
                Differs("end of the scan groups by footer and index", footer->published_end, PublishedEnd(lone.index)));
  }
  const auto& sections = lone.index.section_sizes;
  lone.row.part_sizes.assign(sections.begin(), sections.begin() + kBlobSection);
  if (auto same = CompareIndex(lone.index, lone.row); !same) return PassOn(std::move(same));
  return lone;
}

}  // namespace

Result<ShardIndex> ReadShardIndex(const ByteSource& shard, const ShardRow& row) {
  auto index = ReadUncontexted(shard, row);
  if (!index) return WithContext("shard " + Quoted(shard.name()), std::move(index).error());
  return index;
}

Result<LoneShard> ReadLoneShard(const ByteSource& shard, std::string_view file_name) {
  auto lone = ReadLoneUncontexted(shard, file_name);
  if (!lone) return WithContext("shard " + Quoted(shard.name()), std::move(lone).error());
  return lone;
}

}  // namespace pcrfs
