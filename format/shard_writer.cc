#include "format/shard_writer.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "format/proto/pcrfs.pb.h"
#include "format/protobuf.h"
#include "format/shard_footer.h"
#include "format/shard_layout.h"

namespace pcrfs {
namespace {

tl::unexpected<Error> Misuse(const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument, "writing a shard: " + what);
}

// Sorts the directories; their order is that of the index.
Result<void> FillDirectories(ShardPlan& plan, ShardIndex& index) {
  std::sort(plan.directories.begin(), plan.directories.end(),
            [](const ShardDirectory& a, const ShardDirectory& b) { return a.path < b.path; });
  index.directory_attributes.push_back(plan.root);
  for (ShardDirectory& directory : plan.directories) {
    index.directory_attributes.push_back(directory.attributes);
    index.directories.push_back(std::move(directory.path));
  }
  return CheckDirectories(index.directories);
}

Result<Entry> EntryOf(const FileFacts& file, const ShardIndex& index) {
  Entry entry;
  if (!file.directory.empty()) {
    const auto& all = index.directories;
    const auto found = std::lower_bound(all.begin(), all.end(), file.directory);
    if (found == all.end() || *found != file.directory) {
      return Misuse("the directory of " + Quoted(file.directory + "/" + file.name) + " is not one of the shard's");
    }
    entry.directory = static_cast<uint32_t>(found - all.begin()) + 1;
  }
  entry.name = file.name;
  entry.attributes = file.attributes;
  return entry;
}

void AppendCrcs(ByteSpan bytes, EntryLayout& layout) {
  const auto crcs = BlockCrcs(bytes);
  layout.crcs.insert(layout.crcs.end(), crcs.begin(), crcs.end());
}

// The bytes of one fragment of an encoded image.
ByteSpan FragmentOf(const EncodedImage& image, size_t group) {
  const auto* const sizes = image.fragment_sizes.data();
  const auto offset = std::accumulate(sizes, sizes + group, uint64_t{0});
  return ByteSpan(image.bytes).subspan(static_cast<size_t>(offset), sizes[group]);
}

Result<Entry> ImageEntry(const ImageItem& item, const ShardIndex& index) {
  auto entry = EntryOf(item.file, index);
  if (!entry) return entry;
  const auto& sizes = item.image.fragment_sizes;
  if (std::accumulate(sizes.begin(), sizes.end(), uint64_t{0}) != item.image.bytes.size()) {
    return Misuse("the fragments of " + Quoted(item.file.name) + " are not the whole image");
  }
  entry->source_size = item.source_size;
  entry->source_sha256 = item.source_sha256;
  EntryLayout& layout = entry->layout;
  layout.kind = EntryKind::kImage;
  layout.kept = item.image.kept;
  layout.extents.resize(kShardLevels);
  for (size_t group = 0; group < kShardLevels; ++group) {
    layout.extents[group].size = sizes[group];
    AppendCrcs(FragmentOf(item.image, group), layout);
  }
  layout.tail.size = item.image.tail.size();
  layout.restore.size = item.image.restore.size();
  AppendCrcs(item.image.tail, layout);
  AppendCrcs(item.image.restore, layout);
  return entry;
}

// Section A, the id still zero: it is the last field, and so the last 16 bytes.
Result<Bytes> Metadata(const std::vector<ImageItem>& images) {
  wire::MetadataRecord message;
  for (const ImageItem& item : images) message.add_labels(item.label);
  message.set_progressive_levels(kShardLevels);
  message.set_version(1);
  message.set_shard_id(std::string(std::tuple_size_v<ShardId>, '\0'));
  return SerializeMessage(message, "metadata", kMaxMetadataBytes);
}

Result<void> WriteGroups(const std::vector<ImageItem>& images, AtomicFile& file) {
  constexpr size_t kFlushBytes = 1 << 20;  // fragments are small; one write each would be thousands of calls
  ByteWriter pending;
  for (size_t group = 0; group < kShardLevels; ++group) {
    for (const ImageItem& item : images) {
      const ByteSpan fragment = FragmentOf(item.image, group);
      pending.U8(kFragmentTag);
      pending.Varint(fragment.size());
      pending.Append(fragment);
      if (pending.size() < kFlushBytes) continue;
      if (auto written = file.Write(std::exchange(pending, {}).bytes()); !written) return written;
    }
  }
  return file.Write(pending.bytes());
}

Result<void> WriteBlobs(const std::vector<ImageItem>& images, AtomicFile& file) {
  for (const ImageItem& item : images)
    if (auto written = file.Write(item.image.restore); !written) return written;
  for (const ImageItem& item : images)
    if (auto written = file.Write(item.image.tail); !written) return written;
  return {};
}

Result<void> WriteImages(const std::vector<ImageItem>& images, ByteSpan metadata, AtomicFile& file) {
  if (auto written = file.Write(metadata); !written) return written;
  if (auto written = WriteGroups(images, file); !written) return written;
  return WriteBlobs(images, file);
}

}  // namespace

ShardWriter::ShardWriter(AtomicFile file, std::string name, ShardIndex index)
    : file_(std::move(file)), name_(std::move(name)), index_(std::move(index)) {}

Result<ShardWriter> ShardWriter::Create(ShardPlan plan, const std::vector<ImageItem>& images) {
  ShardIndex index;
  index.levels = kShardLevels;
  index.image_count = static_cast<uint32_t>(images.size());
  if (auto filled = FillDirectories(plan, index); !filled) return Misuse(filled.error().message);
  for (const ImageItem& item : images) {
    auto entry = ImageEntry(item, index);
    if (!entry) return PassOn(std::move(entry));
    index.entries.push_back(std::move(*entry));
  }
  const auto metadata = Metadata(images);
  if (!metadata) return tl::unexpected(metadata.error());
  index.section_sizes = {metadata->size()};
  index.metadata_crc = Crc32(ByteSpan(*metadata).first(metadata->size() - std::tuple_size_v<ShardId>));
  PlaceParts(index);

  std::string name = ShardFileName(plan.number, !images.empty());
  if (PublishedEnd(index) >= kPublishedEndLimit) {
    return Fail(ErrorCode::kLimit, "the images of " + name + " come to " + std::to_string(PublishedEnd(index)) +
                                       " bytes; they must stay below " + std::to_string(kPublishedEndLimit));
  }
  auto file = AtomicFile::Create(plan.folder + "/" + name);
  if (!file) return PassOn(std::move(file));
  if (auto written = WriteImages(images, *metadata, *file); !written) return PassOn(std::move(written));
  return ShardWriter(std::move(*file), std::move(name), std::move(index));
}

Result<std::optional<Error>> ShardWriter::AddOpaque(const FileFacts& file, const ByteSource& content) {
  auto entry = EntryOf(file, index_);
  if (!entry) return PassOn(std::move(entry));
  const uint64_t start = file_.size();
  constexpr uint64_t kRoom = kMaxFileBytes - kMaxIndexBytes - kFooterBytes;
  if (content.size() > kRoom || start > kRoom - content.size()) {
    return Error{ErrorCode::kLimit, Quoted(content.name()) + " has " + std::to_string(content.size()) +
                                        " bytes, more than is left of the 2^42 of a shard"};
  }
  Sha256 sha;
  Bytes block;
  for (uint64_t done = 0; done < content.size(); done += block.size()) {
    block.resize(static_cast<size_t>(std::min(kChecksumBlock, content.size() - done)));
    if (auto read = content.ReadAt(done, block); !read) {
      if (auto undone = file_.Truncate(start); !undone) return PassOn(std::move(undone));
      return std::move(read).error();
    }
    sha.Update(block);
    entry->layout.crcs.push_back(Crc32(block));
    if (auto written = file_.Write(block); !written) return PassOn(std::move(written));
  }
  entry->source_size = content.size();
  entry->source_sha256 = sha.Finish();
  entry->layout.extents = {Extent{.offset = start, .size = content.size(), .first_crc = 0}};
  index_.entries.push_back(std::move(*entry));
  return std::nullopt;
}

Result<ShardRow> ShardWriter::Finish() {
  PlaceParts(index_);
  const auto encoded = EncodeShardIndex(index_);
  if (!encoded) return WithContext("writing " + name_, encoded.error());
  ShardRow row;
  row.name = name_;
  row.part_sizes.assign(index_.section_sizes.begin(), index_.section_sizes.begin() + kBlobSection);
  row.index_offset = IndexOffset(index_);
  row.index_length = encoded->size();
  row.index_crc = Crc32(*encoded);
  row.file_size = row.index_offset + row.index_length + kFooterBytes;
  row.id = ComputeShardId(*encoded);
  const Bytes footer = EncodeShardFooter({.index_offset = row.index_offset,
                                          .index_length = static_cast<uint32_t>(row.index_length),
                                          .index_crc = row.index_crc,
                                          .file_size = row.file_size,
                                          .published_end = PublishedEnd(index_)});
  if (file_.size() != row.index_offset) return Misuse(name_ + " is not as long as its index says");
  if (auto written = file_.Write(*encoded); !written) return PassOn(std::move(written));
  if (auto written = file_.Write(footer); !written) return PassOn(std::move(written));
  const uint64_t id_offset = index_.section_sizes[kMetadataSection] - row.id.size();
  if (auto written = file_.WriteAt(id_offset, row.id); !written) return PassOn(std::move(written));
  if (auto committed = file_.Commit(); !committed) return PassOn(std::move(committed));
  return row;
}

}  // namespace pcrfs
