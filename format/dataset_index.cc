#include "format/dataset_index.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <unordered_set>

#include "format/checksum.h"
#include "format/proto/pcrfs.pb.h"
#include "format/protobuf.h"
#include "format/shard_footer.h"
#include "format/shard_layout.h"

namespace pcrfs {
namespace {

constexpr std::string_view kWhat = "PCR_index.pb";
constexpr std::string_view kShardPrefix = "PCR_", kImageSuffix = ".pcr", kImagelessSuffix = ".files";
constexpr size_t kPartCount = 1 + kShardLevels;
// Field 1912, fixed32: its tag and the CRC-32 of all bytes before the tag. It ends the file.
constexpr std::array<uint8_t, 2> kClosingTag = {0xC5, 0x77};
constexpr size_t kClosingBytes = kClosingTag.size() + 4;

tl::unexpected<Error> Damaged(const std::string& what) {
  return Fail(ErrorCode::kDamaged, std::string(kWhat) + ": " + what);
}

Result<void> CheckClosing(ByteSpan bytes) {
  if (bytes.size() > kMaxDatasetIndexBytes) {
    return Fail(ErrorCode::kLimit, std::string(kWhat) + " has " + std::to_string(bytes.size()) +
                                       " bytes, more than the limit of " + std::to_string(kMaxDatasetIndexBytes));
  }
  if (bytes.size() < kClosingBytes) return Damaged("it is cut short, or was not written by pcrfs");
  const ByteSpan body = bytes.first(bytes.size() - kClosingBytes);
  const ByteSpan closing = bytes.last(kClosingBytes);
  if (!std::equal(kClosingTag.begin(), kClosingTag.end(), closing.begin())) {
    return Damaged("it does not end in its checksum: cut short, or not written by pcrfs");
  }
  const uint32_t stored = ByteReader(closing.subspan(kClosingTag.size())).U32();
  if (const uint32_t computed = Crc32(body); computed != stored) {
    return Damaged("its checksum is wrong: expected " + CrcText(stored) + ", found " + CrcText(computed));
  }
  return {};
}

// Version first, then counts: before anything is allocated for them.
Result<void> LookOverFacts(ByteSpan facts) {
  FieldScanner scanner(facts);
  for (Field field; scanner.Next(field);) {
    if (field.number != wire::DatasetFacts::kFormatVersionFieldNumber || field.type != WireType::kVarint) continue;
    if (field.value != 1) {
      return Fail(ErrorCode::kUnsupported, std::string(kWhat) + ": format version " + std::to_string(field.value) +
                                               " is of a later release; this one reads version 1");
    }
  }
  return CheckFieldCounts(facts, kWhat, {{wire::DatasetFacts::kLabelsFieldNumber, kMaxLabels}});
}

Result<void> LookOver(ByteSpan bytes) {
  using Message = wire::DatasetOffsetsIndex;
  bool has_facts = false;
  FieldScanner scanner(bytes);
  for (Field field; scanner.Next(field);) {
    if (field.type != WireType::kLengthDelimited || field.number != Message::kFactsFieldNumber) continue;
    // A second one would be merged into the first, and its labels with them.
    if (has_facts) return Damaged("it has two descriptions of the data set");
    has_facts = true;
    if (auto facts = LookOverFacts(field.content); !facts) return facts;
  }
  if (auto counts = CheckFieldCounts(bytes, kWhat, {{Message::kRecordsFieldNumber, kMaxRows}}); !counts) return counts;
  if (!has_facts) return Damaged("it lacks the description of the data set (field 1911)");

  scanner = FieldScanner(bytes);
  for (Field field; scanner.Next(field);) {
    if (field.type != WireType::kLengthDelimited || field.number != Message::kRecordsFieldNumber) continue;
    auto counts = CheckFieldCounts(field.content, "a row of PCR_index.pb",
                                   {{wire::RecordOffsetsIndex::kOffsetsFieldNumber, kPartCount, true}});
    if (!counts) return counts;
  }
  return {};
}

Result<void> CheckRowSizes(const ShardRow& row, bool has_images) {
  const uint64_t published_end = std::accumulate(row.part_sizes.begin(), row.part_sizes.end(), uint64_t{0});
  const uint64_t groups = published_end - row.part_sizes[0];
  if (published_end >= kPublishedEndLimit || row.index_length > kMaxIndexBytes || row.file_size > kMaxFileBytes) {
    return Fail(ErrorCode::kLimit, "the row of " + row.name + " has a size over the limits");
  }
  if (row.index_offset > row.file_size || published_end > row.index_offset ||
      row.index_offset + row.index_length + kFooterBytes != row.file_size) {
    return Damaged("the row of " + row.name + " contradicts itself: groups end at " + std::to_string(published_end) +
                   ", index of " + std::to_string(row.index_length) + " bytes at " + std::to_string(row.index_offset) +
                   ", file of " + std::to_string(row.file_size) + " bytes");
  }
  if (row.part_sizes[0] == 0 || (groups > 0) != has_images) {
    return Damaged("the row of " + row.name + " has groups of " + std::to_string(groups) + " bytes");
  }
  return {};
}

Result<ShardRow> DecodeRow(const wire::RecordOffsetsIndex& in) {
  const auto name = ParseShardFileName(in.name());
  if (!name) return Damaged("the row name " + Quoted(in.name()) + " is not PCR_<n>.pcr or PCR_<n>.files");
  const wire::ShardLocation& location = in.location();
  if (!location.has_index_offset() || !location.has_index_length() || !location.has_index_crc32() ||
      !location.has_file_size() || location.shard_id().size() != std::tuple_size_v<ShardId>) {
    return Damaged("the row of " + in.name() + " lacks where its index lies, or its id");
  }
  if (in.offsets_size() != static_cast<int>(kPartCount)) {
    return Damaged("the row of " + in.name() + " has " + std::to_string(in.offsets_size()) + " sizes; expected 11");
  }
  ShardRow row;
  row.name = in.name();
  for (const int32_t size : in.offsets()) {
    if (size < 0) return Damaged("the row of " + in.name() + " has a negative size");
    row.part_sizes.push_back(static_cast<uint64_t>(size));
  }
  row.index_offset = location.index_offset();
  row.index_length = location.index_length();
  row.index_crc = location.index_crc32();
  row.file_size = location.file_size();
  std::copy_n(AsBytes(location.shard_id()).begin(), row.id.size(), row.id.begin());
  if (auto sizes = CheckRowSizes(row, name->has_images); !sizes) return PassOn(std::move(sizes));
  return row;
}

Result<void> DecodeRows(const wire::DatasetOffsetsIndex& message, DatasetIndex& index) {
  index.rows.reserve(static_cast<size_t>(message.records_size()));
  uint64_t next_number = 0;  // the least that may follow
  for (const wire::RecordOffsetsIndex& record : message.records()) {
    auto row = DecodeRow(record);
    if (!row) return PassOn(std::move(row));
    const uint64_t number = ParseShardFileName(row->name)->number;
    if (number < next_number)
      return Damaged("the row of " + row->name + " is out of order, or its number occurs twice");
    next_number = number + 1;
    index.rows.push_back(std::move(*row));
  }
  return {};
}

Result<void> DecodeFacts(const wire::DatasetFacts& facts, DatasetIndex& index) {
  if (!facts.has_format_version() || !facts.has_pack_options() || !facts.has_paths_hash() || !facts.has_appends()) {
    return Damaged("the description of the data set lacks a field");
  }
  index.labels.assign(facts.labels().begin(), facts.labels().end());
  std::unordered_set<std::string_view> seen;
  seen.reserve(index.labels.size());
  for (const std::string& label : index.labels) {
    if (!IsValidName(label)) return Damaged("the label " + Quoted(label) + " is no name that a folder can have");
    if (!seen.insert(label).second) return Damaged("the label " + Quoted(label) + " occurs twice");
  }
  index.pack_options = facts.pack_options();
  index.paths_hash = facts.paths_hash();
  index.appends = facts.appends();
  return {};
}

void EncodeRow(const ShardRow& row, wire::RecordOffsetsIndex& out) {
  out.set_name(row.name);
  // A size that does not fit is over the limit by far, and comes back as another when the result is decoded.
  for (const uint64_t size : row.part_sizes) out.add_offsets(static_cast<int32_t>(size));
  wire::ShardLocation& location = *out.mutable_location();
  location.set_index_offset(row.index_offset);
  location.set_index_length(row.index_length);
  location.set_index_crc32(row.index_crc);
  location.set_file_size(row.file_size);
  location.set_shard_id(std::string(AsText(row.id)));
}

}  // namespace

Result<Bytes> EncodeDatasetIndex(const DatasetIndex& index) {
  wire::DatasetOffsetsIndex message;
  for (const ShardRow& row : index.rows) EncodeRow(row, *message.add_records());
  wire::DatasetFacts& facts = *message.mutable_facts();
  facts.set_format_version(1);
  for (const std::string& label : index.labels) facts.add_labels(label);
  facts.set_pack_options(index.pack_options);
  facts.set_paths_hash(index.paths_hash);
  facts.set_appends(index.appends);
  auto body = SerializeMessage(message, kWhat, kMaxDatasetIndexBytes - kClosingBytes);
  if (!body) return body;
  ByteWriter writer;
  writer.Append(*body);
  writer.Append(kClosingTag);
  writer.U32(Crc32(*body));
  Bytes bytes = writer.Release();
  // One set of rules: what the decoder would refuse is not written.
  const auto decoded = DecodeDatasetIndex(bytes);
  if (!decoded) {
    const ErrorCode code = decoded.error().code == ErrorCode::kLimit ? ErrorCode::kLimit : ErrorCode::kInvalidArgument;
    return Fail(code, decoded.error().message);
  }
  if (*decoded != index) return Fail(ErrorCode::kInvalidArgument, "PCR_index.pb would read back as another");
  return bytes;
}

Result<DatasetIndex> DecodeDatasetIndex(ByteSpan bytes) {
  if (auto closing = CheckClosing(bytes); !closing) return PassOn(std::move(closing));
  if (auto fine = LookOver(bytes); !fine) return PassOn(std::move(fine));
  wire::DatasetOffsetsIndex message;
  if (auto parsed = ParseMessage(bytes, kWhat, message); !parsed) return PassOn(std::move(parsed));
  DatasetIndex index;
  if (auto rows = DecodeRows(message, index); !rows) return PassOn(std::move(rows));
  if (auto facts = DecodeFacts(message.facts(), index); !facts) return PassOn(std::move(facts));
  return index;
}

std::string ShardFileName(uint64_t number, bool has_images) {
  return std::string(kShardPrefix) + std::to_string(number) + std::string(has_images ? kImageSuffix : kImagelessSuffix);
}

std::optional<ShardName> ParseShardFileName(std::string_view name) {
  if (!name.starts_with(kShardPrefix)) return std::nullopt;
  const char* const digits = name.data() + kShardPrefix.size();
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits, name.data() + name.size(), number);
  if (error != std::errc() || number >= kShardNumberLimit) return std::nullopt;
  for (const bool has_images : {true, false})
    if (name == ShardFileName(number, has_images)) return ShardName{number, has_images};  // so no leading zeros
  return std::nullopt;
}

}  // namespace pcrfs
