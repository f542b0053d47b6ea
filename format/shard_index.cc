#include "format/shard_index.h"

#include <algorithm>
#include <span>

#include "format/proto/pcrfs.pb.h"
#include "format/protobuf.h"
#include "format/shard_layout.h"

namespace pcrfs {
namespace {

constexpr std::string_view kWhat = "shard index";

tl::unexpected<Error> Defect(const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument, std::string(kWhat) + " cannot be written: " + what);
}

// What the encoder needs before it may follow counts and positions; all other rules are the decoder's.
bool HasShape(const Entry& entry, EntryKind kind, size_t extents) {
  const EntryLayout& layout = entry.layout;
  if (layout.kind != kind || layout.extents.size() != extents || !layout.checked) return false;
  const auto has_crcs = [&](const Extent& extent) {
    return extent.size <= kMaxFileBytes && extent.first_crc + BlockCount(extent.size) <= layout.crcs.size();
  };
  return std::all_of(layout.extents.begin(), layout.extents.end(), has_crcs) && has_crcs(layout.tail) &&
         has_crcs(layout.restore);
}

Result<void> CheckShape(const ShardIndex& index) {
  if (index.levels != kShardLevels || index.section_sizes.size() != kSectionCount) return Defect("not ten levels");
  if (index.image_count > index.entries.size()) return Defect("more images than entries");
  for (size_t i = 0; i < index.entries.size(); ++i) {
    const Entry& entry = index.entries[i];
    const bool fits = i < index.image_count ? HasShape(entry, EntryKind::kImage, kShardLevels)
                                            : HasShape(entry, EntryKind::kOpaque, 1);
    if (!fits) return Defect("the layout of " + Quoted(entry.name) + " is not that of its kind");
  }
  return {};
}

class Encoder {
 public:
  explicit Encoder(const ShardIndex& index)
      : index_(index),
        images_(std::span(index.entries).first(index.image_count)),
        opaque_(std::span(index.entries).subspan(index.image_count)) {}

  [[nodiscard]] Result<Bytes> Encode() {
    EncodeShard();
    EncodeImages();
    EncodeFragments();
    EncodeBlobs();
    EncodeOpaque();
    return SerializeMessage(out_, kWhat, kMaxIndexBytes);
  }

 private:
  void EncodeShard() {
    out_.set_format_version(1);
    out_.set_images(index_.image_count);
    out_.set_levels(kShardLevels);
    out_.mutable_section_sizes()->Add(index_.section_sizes.begin(), index_.section_sizes.end());
    for (const std::string& path : index_.directories) out_.add_directories(path);
    for (const Attributes& attributes : index_.directory_attributes) {
      wire::DirectoryAttributes& item = *out_.add_directory_attributes();
      item.set_mode(attributes.mode);
      item.set_mtime_ns(attributes.mtime_ns);
    }
    out_.set_metadata_crc32(index_.metadata_crc);
  }

  void EncodeImages() {
    if (images_.empty()) return;  // its columns are absent
    std::string names, digests;
    uint64_t mtime = 0;
    for (const Entry& image : images_) {
      out_.add_image_directory(image.directory);
      names += image.name + '\0';
      // Differences wrap, so that every pair of times has one.
      const auto next = static_cast<uint64_t>(image.attributes.mtime_ns);
      out_.add_image_mtime(static_cast<int64_t>(next - mtime));
      mtime = next;
      out_.add_source_size(image.source_size);
      digests += AsText(image.source_sha256);
      const EntryLayout& layout = image.layout;
      out_.add_image_flags((layout.kept ? 1u : 0u) | (layout.tail.size > 0 ? 2u : 0u) |
                           (layout.restore.size > 0 ? 4u : 0u));
    }
    out_.set_image_names(std::move(names));
    out_.set_source_sha256(std::move(digests));
    EncodeModes();
  }

  void EncodeModes() {
    const uint32_t first = images_[0].attributes.mode;
    const bool equal =
        std::all_of(images_.begin(), images_.end(), [&](const Entry& image) { return image.attributes.mode == first; });
    for (const Entry& image : equal ? images_.first(1) : images_) out_.add_image_mode(image.attributes.mode);
  }

  void EncodeFragments() {
    if (images_.empty()) return;
    std::string crcs;
    for (size_t group = 0; group < kShardLevels; ++group) {
      for (const Entry& image : images_) {
        const Extent& fragment = image.layout.extents[group];
        out_.add_fragment_sizes(fragment.size);
        crcs += CrcsOf(image.layout, fragment);
      }
    }
    out_.set_fragment_crcs(std::move(crcs));
  }

  void EncodeBlobs() {
    for (const Entry& image : images_) {
      if (image.layout.tail.size > 0) EncodeBlob(image.layout, image.layout.tail, *out_.add_tails());
      if (image.layout.restore.size > 0) EncodeBlob(image.layout, image.layout.restore, *out_.add_restore());
    }
  }

  void EncodeOpaque() {
    for (const Entry& entry : opaque_) {
      wire::Opaque& item = *out_.add_opaque();
      item.set_directory(entry.directory);
      item.set_name(entry.name);
      item.set_mode(entry.attributes.mode);
      item.set_mtime_ns(entry.attributes.mtime_ns);
      EncodeBlob(entry.layout, entry.layout.extents[0], *item.mutable_content());
      item.set_sha256(std::string(AsText(entry.source_sha256)));
    }
  }

  static void EncodeBlob(const EntryLayout& layout, const Extent& extent, wire::Blob& blob) {
    blob.set_offset(extent.offset);
    blob.set_size(extent.size);
    blob.set_crcs(CrcsOf(layout, extent));
  }

  static std::string CrcsOf(const EntryLayout& layout, const Extent& extent) {
    ByteWriter writer;
    const std::span all(layout.crcs);
    for (const uint32_t crc : all.subspan(extent.first_crc, static_cast<size_t>(BlockCount(extent.size)))) {
      writer.U32(crc);
    }
    return std::string(AsText(writer.bytes()));
  }

  const ShardIndex& index_;
  std::span<const Entry> images_, opaque_;
  wire::ShardIndex out_;
};

}  // namespace

Result<Bytes> EncodeShardIndex(const ShardIndex& index) {
  if (auto shape = CheckShape(index); !shape) return PassOn(std::move(shape));
  auto bytes = Encoder(index).Encode();
  if (!bytes) return bytes;
  // One set of rules, and no shard that cannot be read: what was encoded must come back as it was.
  const auto decoded = DecodeShardIndex(*bytes);
  if (!decoded) {
    const ErrorCode code = decoded.error().code == ErrorCode::kLimit ? ErrorCode::kLimit : ErrorCode::kInvalidArgument;
    return Fail(code, decoded.error().message);
  }
  if (*decoded != index) return Defect("it would read back as another");
  return bytes;
}

ShardId ComputeShardId(ByteSpan encoded_index) {
  const Sha256Digest digest = Sha256::Of(encoded_index);
  ShardId id;
  std::copy_n(digest.begin(), id.size(), id.begin());
  return id;
}

std::string EntryPath(const ShardIndex& index, const Entry& entry) {
  if (entry.directory == 0) return entry.name;
  return index.directories[entry.directory - 1] + "/" + entry.name;
}

}  // namespace pcrfs
