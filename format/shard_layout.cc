#include "format/shard_layout.h"

#include <numeric>
#include <span>

#include "format/checksum.h"

namespace pcrfs {
namespace {

// Puts `extent` at `position` and moves that behind it.
void Place(Extent& extent, uint64_t& position) {
  extent.offset = position;
  position += extent.size;
}

// CRCs of an entry come in the order: extents, tail, restore record.
void NumberCrcs(EntryLayout& layout) {
  uint32_t next = 0;
  const auto number = [&](Extent& extent) {
    extent.first_crc = next;
    next += static_cast<uint32_t>(BlockCount(extent.size));
  };
  for (Extent& extent : layout.extents) number(extent);
  if (layout.tail.size > 0) number(layout.tail);
  if (layout.restore.size > 0) number(layout.restore);
}

}  // namespace

void PlaceParts(ShardIndex& index) {
  const std::span<Entry> images = std::span(index.entries).first(index.image_count);
  const std::span<Entry> opaque = std::span(index.entries).subspan(index.image_count);
  index.section_sizes.resize(kSectionCount);
  uint64_t position = index.section_sizes[kMetadataSection];
  for (size_t group = 0; group < kShardLevels; ++group) {
    const uint64_t start = position;
    for (Entry& image : images) {
      Extent& fragment = image.layout.extents[group];
      position += FramingSize(fragment.size);
      Place(fragment, position);
    }
    index.section_sizes[kFirstGroupSection + group] = position - start;
  }
  const uint64_t blobs = position;
  for (Entry& image : images)
    if (image.layout.restore.size > 0) Place(image.layout.restore, position);
  for (Entry& image : images)
    if (image.layout.tail.size > 0) Place(image.layout.tail, position);
  for (Entry& entry : opaque) Place(entry.layout.extents[0], position);
  index.section_sizes[kBlobSection] = position - blobs;
  for (Entry& entry : index.entries) NumberCrcs(entry.layout);
}

uint64_t PublishedEnd(const ShardIndex& index) { return IndexOffset(index) - index.section_sizes[kBlobSection]; }

uint64_t IndexOffset(const ShardIndex& index) {
  return std::accumulate(index.section_sizes.begin(), index.section_sizes.end(), uint64_t{0});
}

}  // namespace pcrfs
