// DecodeShardIndex: every rule of FORMAT.md, "What a reader refuses", that section D alone can show.
#include <algorithm>
#include <span>
#include <string>

#include "format/proto/pcrfs.pb.h"
#include "format/protobuf.h"
#include "format/restore_record.h"
#include "format/shard_footer.h"
#include "format/shard_index.h"
#include "format/shard_layout.h"

namespace pcrfs {
namespace {

constexpr std::string_view kWhat = "shard index";
constexpr uint64_t kModeBits = 07777;
constexpr uint64_t kKept = 1, kHasTail = 2, kHasRestore = 4, kAllFlags = 7;
constexpr size_t kDigestBytes = std::tuple_size_v<Sha256Digest>;
// Section A: 2 bytes a label at least, then levels, version and id.
constexpr uint64_t kMinMetadataBytes = 23, kMinLabelBytes = 2;

tl::unexpected<Error> Damaged(const std::string& what) {
  return Fail(ErrorCode::kDamaged, std::string(kWhat) + ": " + what);
}

tl::unexpected<Error> OverLimit(const std::string& what) {
  return Fail(ErrorCode::kLimit, std::string(kWhat) + ": " + what);
}

Result<void> ExpectCount(std::string_view what, uint64_t found, uint64_t expected) {
  if (found == expected) return {};
  return Damaged(std::string(what) + ": expected " + std::to_string(expected) + ", found " + std::to_string(found));
}

// Runs on the encoded bytes, so before anything is allocated for them. The version comes first: limits and meanings of
// a later one are not ours to judge.
Result<void> LookOver(ByteSpan bytes) {
  if (bytes.size() > kMaxIndexBytes) return OverLimit(std::to_string(bytes.size()) + " bytes");
  FieldScanner scanner(bytes);
  for (Field field; scanner.Next(field);) {
    if (field.number != wire::ShardIndex::kFormatVersionFieldNumber || field.type != WireType::kVarint) continue;
    if (field.value != 1) {
      return Fail(ErrorCode::kUnsupported, std::string(kWhat) + ": format version " + std::to_string(field.value) +
                                               " is of a later release; this one reads version 1");
    }
  }
  constexpr uint64_t kEntries = kMaxShardEntries;
  return CheckFieldCounts(bytes, kWhat,
                          {{wire::ShardIndex::kSectionSizesFieldNumber, kSectionCount, true},
                           {wire::ShardIndex::kDirectoriesFieldNumber, kMaxShardDirectories},
                           {wire::ShardIndex::kImageDirectoryFieldNumber, kEntries, true},
                           {wire::ShardIndex::kImageModeFieldNumber, kEntries, true},
                           {wire::ShardIndex::kImageMtimeFieldNumber, kEntries, true},
                           {wire::ShardIndex::kFragmentSizesFieldNumber, kEntries * kShardLevels, true},
                           {wire::ShardIndex::kImageFlagsFieldNumber, kEntries, true},
                           {wire::ShardIndex::kTailsFieldNumber, kEntries},
                           {wire::ShardIndex::kSourceSizeFieldNumber, kEntries, true},
                           {wire::ShardIndex::kOpaqueFieldNumber, kEntries},
                           {wire::ShardIndex::kDirectoryAttributesFieldNumber, kMaxShardDirectories + 1},
                           {wire::ShardIndex::kRestoreFieldNumber, kEntries}});
}

class Decoder {
 public:
  Decoder(const wire::ShardIndex& in, uint64_t index_length) : in_(in), index_length_(index_length) {}

  [[nodiscard]] Result<ShardIndex> Decode() {
    using Step = Result<void> (Decoder::*)();
    for (const Step step : {&Decoder::DecodeHead, &Decoder::DecodeDirectories, &Decoder::CheckImageColumns,
                            &Decoder::DecodeImages, &Decoder::DecodeFragments, &Decoder::DecodeBlobs,
                            &Decoder::DecodeOpaque, &Decoder::CheckSourceSizes, &Decoder::CheckPlaces}) {
      if (auto done = (this->*step)(); !done) return PassOn(std::move(done));
    }
    if (auto names = CheckEntryNames(out_.directories, out_.entries); !names) return PassOn(std::move(names));
    return std::move(out_);
  }

 private:
  std::span<Entry> images() { return std::span(out_.entries).first(out_.image_count); }
  std::span<Entry> opaque() { return std::span(out_.entries).subspan(out_.image_count); }

  Result<void> DecodeHead() {
    if (!in_.has_format_version() || !in_.has_images() || !in_.has_metadata_crc32()) {
      return Damaged("it lacks its version, its number of images or the checksum of the metadata");
    }
    if (auto levels = ExpectCount("levels", in_.levels(), kShardLevels); !levels) return levels;
    const uint64_t opaque_count = static_cast<uint64_t>(in_.opaque_size());
    if (in_.images() > kMaxShardEntries || in_.images() + opaque_count > kMaxShardEntries) {
      return OverLimit(std::to_string(in_.images()) + " images and " + std::to_string(opaque_count) +
                       " opaque files; at most 65536 together");
    }
    out_.levels = kShardLevels;
    out_.image_count = static_cast<uint32_t>(in_.images());
    out_.metadata_crc = in_.metadata_crc32();
    out_.entries.resize(out_.image_count + opaque_count);
    return {};
  }

  Result<void> DecodeDirectories() {
    out_.directories.assign(in_.directories().begin(), in_.directories().end());
    if (auto checked = CheckDirectories(out_.directories); !checked) return checked;
    const auto attributes_count = static_cast<uint64_t>(in_.directory_attributes_size());
    auto count = ExpectCount("attributes of directories", attributes_count, 1 + out_.directories.size());
    if (!count) return count;
    for (const wire::DirectoryAttributes& item : in_.directory_attributes()) {
      if (!item.has_mode() || !item.has_mtime_ns() || item.mode() > kModeBits) {
        return Damaged("a directory's mode or time is missing, or its mode has more than the bits 07777");
      }
      out_.directory_attributes.push_back({static_cast<uint32_t>(item.mode()), item.mtime_ns()});
    }
    return {};
  }

  Result<void> CheckImageColumns() {
    const uint64_t n = out_.image_count;
    const auto size = [](const auto& column) { return static_cast<uint64_t>(column.size()); };
    const struct {
      std::string_view what;
      uint64_t found, expected;
    } columns[] = {
        {"directories of images", size(in_.image_directory()), n},
        {"times of images", size(in_.image_mtime()), n},
        {"sizes of fragments", size(in_.fragment_sizes()), n * kShardLevels},
        {"flags of images", size(in_.image_flags()), n},
        {"sizes of sources", size(in_.source_size()), n},
        {"bytes of SHA-256 of images", size(in_.source_sha256()), n * kDigestBytes},
        {"modes of images", size(in_.image_mode()), in_.image_mode_size() == 1 && n > 0 ? 1 : n},
    };
    for (const auto& column : columns) {
      if (auto count = ExpectCount(column.what, column.found, column.expected); !count) return count;
    }
    return {};
  }

  Result<void> DecodeImages() {
    std::string_view names = in_.image_names();
    uint64_t mtime = 0;
    for (int i = 0; i < static_cast<int>(out_.image_count); ++i) {
      Entry& image = out_.entries[static_cast<size_t>(i)];
      const size_t end = names.find('\0');
      if (end == std::string_view::npos) return Damaged("there are fewer names than images");
      image.name = names.substr(0, end);
      names.remove_prefix(end + 1);
      mtime += static_cast<uint64_t>(in_.image_mtime(i));
      const uint64_t mode = in_.image_mode(in_.image_mode_size() == 1 ? 0 : i);
      auto facts = DecodeFacts(image, in_.image_directory(i), mode, static_cast<int64_t>(mtime));
      if (!facts) return facts;
      image.source_size = in_.source_size(i);
      const ByteSpan digests = AsBytes(in_.source_sha256());
      std::copy_n(digests.begin() + i * static_cast<std::ptrdiff_t>(kDigestBytes), kDigestBytes,
                  image.source_sha256.begin());
      image.layout.kind = EntryKind::kImage;
      image.layout.extents.resize(kShardLevels);
      image.layout.kept = (in_.image_flags(i) & kKept) != 0;
    }
    if (!names.empty()) return Damaged("there are more names than images");
    return {};
  }

  // What images and opaque entries have alike.
  Result<void> DecodeFacts(Entry& entry, uint64_t directory, uint64_t mode, int64_t mtime_ns) {
    if (directory > out_.directories.size()) {
      return Damaged(Quoted(entry.name) + " lies in directory " + std::to_string(directory) + " of " +
                     std::to_string(out_.directories.size()));
    }
    if (mode > kModeBits) return Damaged("the mode of " + Quoted(entry.name) + " has more than the bits 07777");
    entry.directory = static_cast<uint32_t>(directory);
    entry.attributes = {static_cast<uint32_t>(mode), mtime_ns};
    return {};
  }

  Result<void> DecodeFragments() {
    ByteReader crcs(AsBytes(in_.fragment_crcs()));
    int at = 0;
    for (size_t group = 0; group < kShardLevels; ++group) {
      for (Entry& image : images()) {
        const uint64_t size = in_.fragment_sizes(at++);
        if (size >= kPublishedEndLimit) return OverLimit("a fragment of " + std::to_string(size) + " bytes");
        if (size == 0 && group == 0) return Damaged(Quoted(image.name) + " has nothing in the first scan group");
        image.layout.extents[group].size = size;
        TakeCrcs(crcs, size, image.layout);
      }
    }
    if (!crcs.ok() || crcs.remaining() > 0) return Damaged("checksums and sizes of fragments disagree");
    return {};
  }

  static void TakeCrcs(ByteReader& crcs, uint64_t size, EntryLayout& layout) {
    for (uint64_t blocks = BlockCount(size); blocks > 0 && crcs.ok(); --blocks) layout.crcs.push_back(crcs.U32());
  }

  Result<void> DecodeBlobs() {
    int tails = 0, restores = 0;
    for (int i = 0; i < static_cast<int>(out_.image_count); ++i) {
      Entry& image = out_.entries[static_cast<size_t>(i)];
      const uint64_t flags = in_.image_flags(i);
      if (flags > kAllFlags || (flags & (kKept | kHasRestore)) == (kKept | kHasRestore)) {
        return Damaged(Quoted(image.name) + " has flags " + std::to_string(flags));
      }
      if ((flags & kHasTail) != 0) {
        if (tails == in_.tails_size()) return Damaged("there are fewer tails than images that have one");
        auto blob = DecodeBlob(in_.tails(tails++), 1, kMaxFileBytes, image, image.layout.tail);
        if (!blob) return blob;
      }
      if ((flags & kHasRestore) != 0) {
        if (restores == in_.restore_size()) return Damaged("there are fewer restore records than images that have one");
        auto blob = DecodeBlob(in_.restore(restores++), 1, kMaxRestoreBytes, image, image.layout.restore);
        if (!blob) return blob;
      }
    }
    if (tails != in_.tails_size() || restores != in_.restore_size()) {
      return Damaged("there are more tails or restore records than images that have one");
    }
    return {};
  }

  static Result<void> DecodeBlob(const wire::Blob& blob, uint64_t least, uint64_t most, Entry& entry, Extent& extent) {
    if (!blob.has_offset() || !blob.has_size() || !blob.has_crcs()) {
      return Damaged("a blob of " + Quoted(entry.name) + " lacks its offset, size or checksums");
    }
    if (blob.size() < least) return Damaged("a blob of " + Quoted(entry.name) + " is empty");
    if (blob.size() > most) {
      return OverLimit("a blob of " + Quoted(entry.name) + " has " + std::to_string(blob.size()) + " bytes");
    }
    auto count = ExpectCount("bytes of checksums of a blob", blob.crcs().size(), 4 * BlockCount(blob.size()));
    if (!count) return count;
    extent.size = blob.size();
    ByteReader crcs(AsBytes(blob.crcs()));
    TakeCrcs(crcs, extent.size, entry.layout);
    return {};
  }

  Result<void> DecodeOpaque() {
    for (int i = 0; i < in_.opaque_size(); ++i) {
      const wire::Opaque& item = in_.opaque(i);
      Entry& entry = opaque()[static_cast<size_t>(i)];
      if (!item.has_directory() || !item.has_name() || !item.has_mode() || !item.has_mtime_ns() ||
          item.sha256().size() != kDigestBytes) {
        return Damaged("an opaque file lacks its directory, name, mode, time or SHA-256");
      }
      entry.name = item.name();
      auto facts = DecodeFacts(entry, item.directory(), item.mode(), item.mtime_ns());
      if (!facts) return facts;
      entry.layout.extents.resize(1);
      auto blob = DecodeBlob(item.content(), 0, kMaxFileBytes, entry, entry.layout.extents[0]);
      if (!blob) return blob;
      entry.source_size = entry.layout.extents[0].size;
      const ByteSpan digest = AsBytes(item.sha256());
      std::copy(digest.begin(), digest.end(), entry.source_sha256.begin());
    }
    return {};
  }

  // A kept file is its source at the highest level, and a tail lies where it did in the source: both fix the size.
  Result<void> CheckSourceSizes() {
    for (const Entry& image : images()) {
      if (image.source_size > kMaxFileBytes) return OverLimit("the source of " + Quoted(image.name) + " is too large");
      const EntryLayout& layout = image.layout;
      if (!layout.kept && layout.tail.size == 0) continue;
      uint64_t size = 2 + layout.tail.size;  // EOI is stored nowhere
      for (const Extent& fragment : layout.extents) size += fragment.size;
      auto same = ExpectCount("size of the source of " + Quoted(image.name), image.source_size, size);
      if (!same) return same;
    }
    return {};
  }

  // Sizes fix all offsets and sections: nothing may overlap, be out of order or leave a gap.
  Result<void> CheckPlaces() {
    if (auto count = ExpectCount("sections", static_cast<uint64_t>(in_.section_sizes_size()), kSectionCount); !count) {
      return count;
    }
    const uint64_t metadata = in_.section_sizes(kMetadataSection);
    if (metadata > kMaxMetadataBytes) return OverLimit("metadata of " + std::to_string(metadata) + " bytes");
    if (metadata < kMinMetadataBytes + kMinLabelBytes * out_.image_count) {
      return Damaged("metadata of " + std::to_string(metadata) + " bytes is too small for its labels");
    }
    out_.section_sizes = {metadata};
    PlaceParts(out_);
    for (size_t i = 0; i < kSectionCount; ++i) {
      auto same = ExpectCount("bytes of section " + std::to_string(i), in_.section_sizes(static_cast<int>(i)),
                              out_.section_sizes[i]);
      if (!same) return same;
    }
    if (PublishedEnd(out_) >= kPublishedEndLimit) {
      return OverLimit("the scan groups end at " + std::to_string(PublishedEnd(out_)));
    }
    const uint64_t file_size = IndexOffset(out_) + index_length_ + kFooterBytes;
    if (file_size > kMaxFileBytes) return OverLimit("a shard of " + std::to_string(file_size) + " bytes");
    return CheckBlobPlaces();
  }

  Result<void> CheckBlobPlaces() {
    int tails = 0, restores = 0, opaques = 0;
    const auto claimed_offset = [&](const Extent& extent, const wire::Blob& claim) {
      return ExpectCount("offset of a blob", claim.offset(), extent.offset);
    };
    for (const Entry& image : images()) {
      const EntryLayout& layout = image.layout;
      if (layout.tail.size > 0) {
        if (auto same = claimed_offset(layout.tail, in_.tails(tails++)); !same) return same;
      }
      if (layout.restore.size > 0) {
        if (auto same = claimed_offset(layout.restore, in_.restore(restores++)); !same) return same;
      }
    }
    for (const Entry& entry : opaque()) {
      if (auto same = claimed_offset(entry.layout.extents[0], in_.opaque(opaques++).content()); !same) return same;
    }
    return {};
  }

  const wire::ShardIndex& in_;
  const uint64_t index_length_;
  ShardIndex out_;
};

}  // namespace

Result<ShardIndex> DecodeShardIndex(ByteSpan bytes) {
  if (auto fine = LookOver(bytes); !fine) return PassOn(std::move(fine));
  wire::ShardIndex message;
  if (auto parsed = ParseMessage(bytes, kWhat, message); !parsed) return PassOn(std::move(parsed));
  return Decoder(message, bytes.size()).Decode();
}

}  // namespace pcrfs
