#include "format/shard_copier.h"

#include <algorithm>
#include <string>
#include <utility>

#include "format/checksum.h"

namespace pcrfs {
namespace {

std::string PathOf(const EntryInShard& from) { return EntryPath(*from.index, *from.entry); }

Error Damaged(const EntryInShard& from, const std::string& what) {
  return {ErrorCode::kDamaged, "shard " + Quoted(from.shard->name()) + ": " + Quoted(PathOf(from)) + ": " + what};
}

// Block number `block` of an extent, whole.
Result<void> ReadBlock(const EntryInShard& from, const Extent& extent, uint64_t block, MutableByteSpan out) {
  const uint64_t offset = extent.offset + block * kChecksumBlock;
  if (auto read = from.shard->ReadAt(offset, out); !read) return read;
  const uint32_t expected = from.entry->layout.crcs[extent.first_crc + static_cast<size_t>(block)];
  if (const uint32_t found = Crc32(out); found != expected)
    return tl::unexpected(Damaged(from, "block of " + std::to_string(out.size()) + " bytes at offset " +
                                            std::to_string(offset) + ": checksum: expected " + CrcText(expected) +
                                            ", found " + CrcText(found)));
  return {};
}

Result<void> AppendExtent(const EntryInShard& from, const Extent& extent, Bytes& out) {
  const size_t start = out.size();
  out.resize(start + static_cast<size_t>(extent.size));
  for (uint64_t done = 0; done < extent.size; done += kChecksumBlock) {
    const MutableByteSpan block = MutableByteSpan(out).subspan(
        start + static_cast<size_t>(done), static_cast<size_t>(std::min(kChecksumBlock, extent.size - done)));
    if (auto read = ReadBlock(from, extent, done / kChecksumBlock, block); !read) return read;
  }
  return {};
}

FileFacts FactsOf(const EntryInShard& from) {
  const uint32_t directory = from.entry->directory;
  return {directory == 0 ? std::string() : from.index->directories[directory - 1], from.entry->name,
          from.entry->attributes};
}

Result<ImageItem> ReadImage(const EntryInShard& from, const LabelMap& labels) {
  const Entry& entry = *from.entry;
  ImageItem item;
  item.file = FactsOf(from);
  const auto label = labels.Of(item.file.directory);
  if (!label) return tl::unexpected(Damaged(from, "its top-level folder is not in the label list of PCR_index.pb"));
  item.label = *label;
  item.source_size = entry.source_size;
  item.source_sha256 = entry.source_sha256;
  item.image.kept = entry.layout.kept;
  for (size_t group = 0; group < entry.layout.extents.size(); ++group) {
    const Extent& fragment = entry.layout.extents[group];
    item.image.fragment_sizes.at(group) = static_cast<uint32_t>(fragment.size);
    if (auto read = AppendExtent(from, fragment, item.image.bytes); !read) return PassOn(std::move(read));
  }
  if (auto read = AppendExtent(from, entry.layout.tail, item.image.tail); !read) return PassOn(std::move(read));
  if (auto read = AppendExtent(from, entry.layout.restore, item.image.restore); !read) return PassOn(std::move(read));
  return item;
}

// An opaque file's bytes, read block by block from the front, as ShardWriter does.
class OpaqueContent final : public ByteSource {
 public:
  explicit OpaqueContent(const EntryInShard& from) : from_(from), name_(PathOf(from)) {}

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] uint64_t size() const override { return extent().size; }
  [[nodiscard]] Result<void> ReadAt(uint64_t offset, MutableByteSpan out) const override {
    const uint64_t end = offset + out.size();
    if (offset % kChecksumBlock != 0 || out.size() > kChecksumBlock || end > size() ||
        (out.size() < kChecksumBlock && end != size()))
      return Fail(ErrorCode::kInvalidArgument, "an opaque file is copied by its blocks");
    return ReadBlock(from_, extent(), offset / kChecksumBlock, out);
  }

 private:
  [[nodiscard]] const Extent& extent() const { return from_.entry->layout.extents.at(0); }

  const EntryInShard& from_;
  const std::string name_;
};

}  // namespace

Result<ShardRow> CopyToShard(ShardPlan plan, const std::vector<EntryInShard>& entries, const LabelMap& labels) {
  std::vector<ImageItem> images;
  for (const EntryInShard& from : entries) {
    if (from.entry->layout.kind != EntryKind::kImage) continue;
    auto image = ReadImage(from, labels);
    if (!image) return PassOn(std::move(image));
    images.push_back(*std::move(image));
  }
  auto writer = ShardWriter::Create(std::move(plan), images);
  if (!writer) return PassOn(std::move(writer));
  images.clear();
  for (const EntryInShard& from : entries) {
    if (from.entry->layout.kind != EntryKind::kOpaque) continue;
    auto added = writer->AddOpaque(FactsOf(from), OpaqueContent(from));
    if (!added) return PassOn(std::move(added));
    if (*added) return tl::unexpected(**std::move(added));
  }
  return writer->Finish();
}

}  // namespace pcrfs
