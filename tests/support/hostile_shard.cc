#include "tests/support/hostile_shard.h"

#include <algorithm>
#include <set>

#include "format/checksum.h"
#include "format/proto/pcrfs.pb.h"
#include "format/shard_footer.h"
#include "format/shard_layout.h"
#include "format/shard_names.h"
#include "format/shard_reader.h"
#include "tests/support/temp_dir.h"

namespace pcrfs::testing {
namespace {

std::string CrcsOf(ByteSpan bytes) {
  ByteWriter crcs;
  for (const uint32_t crc : BlockCrcs(bytes)) crcs.U32(crc);
  return std::string(AsText(crcs.bytes()));
}

void FillBlob(const Bytes& content, uint64_t& position, wire::Blob& blob) {
  blob.set_offset(position);
  blob.set_size(content.size());
  blob.set_crcs(CrcsOf(content));
  position += content.size();
}

std::string Digest(ByteSpan bytes) {
  const Sha256Digest digest = Sha256::Of(bytes);
  return std::string(AsText(digest));
}

// What the highest level shows of an image, which for a kept one is its source.
Bytes Whole(const HostileEntry& image) {
  Bytes whole;
  for (const Bytes& part : image.parts) whole.insert(whole.end(), part.begin(), part.end());
  whole.insert(whole.end(), {0xFF, 0xD9});
  whole.insert(whole.end(), image.tail.begin(), image.tail.end());
  return whole;
}

class Assembler {
 public:
  Assembler(const HostileShard& shard, const std::vector<std::string>& labels) : shard_(shard), labels_(labels) {}

  AssembledShard Run() {
    WriteMetadata();
    WriteGroups();
    DescribeImages();
    WriteBlobs();
    out_.set_metadata_crc32(Crc32(ByteSpan(front_.bytes()).first(metadata_size_ - sizeof(ShardId))));
    return Finish();
  }

 private:
  // All but the id, which is the last field and depends on the index.
  void WriteMetadata() {
    wire::MetadataRecord metadata;
    const LabelMap labels(labels_);
    for (const HostileEntry& image : shard_.images) {
      const bool in_directory = image.directory > 0 && image.directory <= shard_.directories.size();
      metadata.add_labels(labels.Of(in_directory ? shard_.directories[image.directory - 1] : "").value_or(-1));
    }
    metadata.set_progressive_levels(kShardLevels);
    metadata.set_version(1);
    metadata.set_shard_id(std::string(sizeof(ShardId), '\0'));
    front_.Append(metadata.SerializeAsString());
    metadata_size_ = front_.size();
    AddSection(metadata_size_);
  }

  void WriteGroups() {
    std::string crcs;
    for (size_t group = 0; group < kShardLevels; ++group) {
      const size_t start = front_.size();
      for (const HostileEntry& image : shard_.images) {
        const Bytes& fragment = image.parts.at(group);
        front_.U8(kFragmentTag);
        front_.Varint(fragment.size());
        front_.Append(fragment);
        out_.add_fragment_sizes(fragment.size());
        crcs += CrcsOf(fragment);
      }
      AddSection(front_.size() - start);
    }
    published_end_ = front_.size();
    if (!shard_.images.empty()) out_.set_fragment_crcs(crcs);
  }

  void DescribeImages() {
    out_.set_format_version(1);
    out_.set_images(shard_.images.size());
    out_.set_levels(kShardLevels);
    for (const std::string& path : shard_.directories) out_.add_directories(path);
    for (size_t i = 0; i <= shard_.directories.size(); ++i) {
      wire::DirectoryAttributes& attributes = *out_.add_directory_attributes();
      attributes.set_mode(0755);
      attributes.set_mtime_ns(1);
    }
    std::string names, digests;
    uint64_t mtime = 0;
    for (const HostileEntry& image : shard_.images) {
      const Bytes whole = Whole(image);
      out_.add_image_directory(image.directory);
      names += image.name + '\0';
      out_.add_image_mode(image.attributes.mode);
      const auto next = static_cast<uint64_t>(image.attributes.mtime_ns);
      out_.add_image_mtime(static_cast<int64_t>(next - mtime));
      mtime = next;
      out_.add_image_flags((image.kept ? 1u : 0u) | (image.tail.empty() ? 0u : 2u));
      out_.add_source_size(whole.size());
      digests += Digest(whole);
    }
    if (shard_.images.empty()) return;
    out_.set_image_names(names);
    out_.set_source_sha256(digests);
  }

  void WriteBlobs() {
    uint64_t position = published_end_;
    for (const HostileEntry& image : shard_.images)
      if (!image.tail.empty()) {
        FillBlob(image.tail, position, *out_.add_tails());
        front_.Append(image.tail);
      }
    for (const HostileEntry& entry : shard_.opaque) {
      wire::Opaque& item = *out_.add_opaque();
      item.set_directory(entry.directory);
      item.set_name(entry.name);
      item.set_mode(entry.attributes.mode);
      item.set_mtime_ns(entry.attributes.mtime_ns);
      FillBlob(entry.parts.at(0), position, *item.mutable_content());
      item.set_sha256(Digest(entry.parts.at(0)));
      front_.Append(entry.parts.at(0));
    }
    AddSection(front_.size() - published_end_);
  }

  AssembledShard Finish() {
    const std::string encoded = out_.SerializeAsString();
    Bytes index(encoded.begin(), encoded.end());
    if (shard_.change_index) shard_.change_index(index);
    AssembledShard made;
    ShardRow& row = made.row;
    row.name = ShardFileName(shard_.number, !shard_.images.empty());
    row.part_sizes.assign(sections_.begin(), sections_.begin() + kBlobSection);
    row.index_offset = front_.size();
    row.index_length = index.size();
    row.index_crc = Crc32(index);
    row.file_size = front_.size() + index.size() + kFooterBytes;
    row.id = ComputeShardId(index);
    made.bytes = front_.Release();
    std::copy(row.id.begin(), row.id.end(),
              made.bytes.begin() + static_cast<std::ptrdiff_t>(metadata_size_ - sizeof(ShardId)));
    const Bytes footer = EncodeShardFooter({.index_offset = row.index_offset,
                                            .index_length = static_cast<uint32_t>(row.index_length),
                                            .index_crc = row.index_crc,
                                            .file_size = row.file_size,
                                            .published_end = published_end_});
    made.bytes.insert(made.bytes.end(), index.begin(), index.end());
    made.bytes.insert(made.bytes.end(), footer.begin(), footer.end());
    return made;
  }

  void AddSection(uint64_t size) {
    sections_.push_back(size);
    out_.add_section_sizes(size);
  }

  const HostileShard& shard_;
  const std::vector<std::string>& labels_;
  ByteWriter front_;  // sections A to C
  size_t metadata_size_ = 0, published_end_ = 0;
  std::vector<uint64_t> sections_;
  wire::ShardIndex out_;
};

}  // namespace

AssembledShard Assemble(const HostileShard& shard, const std::vector<std::string>& labels) {
  return Assembler(shard, labels).Run();
}

std::vector<std::string> LabelsOf(const std::vector<HostileShard>& shards) {
  std::set<std::string> labels;
  for (const HostileShard& shard : shards)
    for (const std::string& path : shard.directories)
      if (const std::string top = path.substr(0, path.find('/')); IsValidName(top)) labels.insert(top);
  return {labels.begin(), labels.end()};
}

Bytes AssembleDatasetIndex(const std::vector<ShardRow>& rows, const std::vector<std::string>& labels) {
  wire::DatasetOffsetsIndex message;
  for (const ShardRow& row : rows) {
    wire::RecordOffsetsIndex& record = *message.add_records();
    record.set_name(row.name);
    for (const uint64_t size : row.part_sizes) record.add_offsets(static_cast<int32_t>(size));
    wire::ShardLocation& location = *record.mutable_location();
    location.set_index_offset(row.index_offset);
    location.set_index_length(row.index_length);
    location.set_index_crc32(row.index_crc);
    location.set_file_size(row.file_size);
    location.set_shard_id(std::string(AsText(row.id)));
  }
  wire::DatasetFacts& facts = *message.mutable_facts();
  facts.set_format_version(1);
  for (const std::string& label : labels) facts.add_labels(label);
  facts.set_pack_options("");
  facts.set_paths_hash(1);
  facts.set_appends(0);
  const std::string body = message.SerializeAsString();
  wire::DatasetOffsetsIndex closing;
  closing.set_crc32(Crc32(AsBytes(body)));
  const std::string whole = body + closing.SerializeAsString();
  return {whole.begin(), whole.end()};
}

void WriteHostileDataset(const std::string& folder, const std::vector<HostileShard>& shards) {
  const std::vector<std::string> labels = LabelsOf(shards);
  std::vector<ShardRow> rows;
  for (const HostileShard& shard : shards) {
    const AssembledShard made = Assemble(shard, labels);
    WriteFile(folder + "/" + made.row.name, made.bytes);
    rows.push_back(made.row);
  }
  WriteFile(folder + "/" + std::string(kDatasetIndexName), AssembleDatasetIndex(rows, labels));
}

}  // namespace pcrfs::testing
