#include "format/restore_record.h"

#include <algorithm>
#include <string>

#include "format/checksum.h"
#include "format/proto/pcrfs.pb.h"
#include "format/protobuf.h"
#include "format/shard_index.h"

namespace pcrfs {
namespace {

constexpr std::string_view kWhat = "restore record";
constexpr uint64_t kMaxRestartInterval = 65535;
constexpr uint64_t kStandardTableKinds = 5;

tl::unexpected<Error> Damaged(const std::string& what) {
  return Fail(ErrorCode::kDamaged, std::string(kWhat) + ": " + what);
}

// Every segment must be exactly one field: a kind of a later release, which we could not write out, must not pass for
// one of ours.
Result<void> CheckSegmentFields(ByteSpan message) {
  FieldScanner scanner(message);
  for (Field field; scanner.Next(field);) {
    if (field.number != wire::Restore::kSegmentsFieldNumber || field.type != WireType::kLengthDelimited) continue;
    FieldScanner inner(field.content);
    Field kind;
    if (!inner.Next(kind) || kind.number > wire::Segment::kEntropyDataFieldNumber || inner.Next(kind) || !inner.ok()) {
      return Damaged("a segment is not exactly one of the kinds that this release knows");
    }
  }
  return {};
}

Result<RestoreRecord::Segment> DecodeSegment(const wire::Segment& segment) {
  if (segment.has_marker_segment() && segment.marker_segment() < kMaxMarkerSegments) {
    return RestoreRecord::MarkerSegment{static_cast<uint32_t>(segment.marker_segment())};
  }
  if (segment.has_standard_tables() && segment.standard_tables() < kStandardTableKinds) {
    return static_cast<RestoreRecord::StandardTables>(segment.standard_tables());
  }
  if (segment.has_literal() && !segment.literal().empty()) {
    const ByteSpan bytes = AsBytes(segment.literal());
    return RestoreRecord::Literal{Bytes(bytes.begin(), bytes.end())};
  }
  if (segment.has_entropy_data() && segment.entropy_data() == 1) return RestoreRecord::EntropyData{};
  return Damaged("a segment has a value outside its range");
}

Result<void> DecodeSegments(const wire::Restore& message, RestoreRecord& record) {
  record.segments.reserve(static_cast<size_t>(message.segments_size()));
  for (const wire::Segment& segment : message.segments()) {
    auto decoded = DecodeSegment(segment);
    if (!decoded) return PassOn(std::move(decoded));
    record.segments.push_back(std::move(*decoded));
  }
  const auto scans = std::count_if(record.segments.begin(), record.segments.end(), [](const auto& segment) {
    return std::holds_alternative<RestoreRecord::EntropyData>(segment);
  });
  if (scans == 0 || scans != message.restart_intervals_size()) {
    return Damaged(std::to_string(scans) + " scans, but " + std::to_string(message.restart_intervals_size()) +
                   " restart intervals");
  }
  for (const uint64_t interval : message.restart_intervals()) {
    if (interval > kMaxRestartInterval) return Damaged("restart interval " + std::to_string(interval));
    record.restart_intervals.push_back(static_cast<uint32_t>(interval));
  }
  return {};
}

Result<void> DecodePatches(const wire::Restore& message, RestoreRecord& record) {
  size_t total = 0;
  for (const wire::Patch& patch : message.patches()) {
    const ByteSpan bytes = AsBytes(patch.data());
    total += bytes.size();
    if (!patch.has_offset() || bytes.empty() || total > kMaxPatchBytes ||
        patch.offset() > kMaxFileBytes - bytes.size()) {
      return Damaged("a patch of " + std::to_string(bytes.size()) + " bytes at offset " +
                     std::to_string(patch.offset()) + " is empty, misplaced or too much");
    }
    record.patches.push_back({patch.offset(), Bytes(bytes.begin(), bytes.end())});
  }
  return {};
}

struct SegmentEncoder {
  wire::Segment& out;
  void operator()(const RestoreRecord::MarkerSegment& segment) const { out.set_marker_segment(segment.position); }
  void operator()(RestoreRecord::StandardTables tables) const {
    out.set_standard_tables(static_cast<uint64_t>(tables));
  }
  void operator()(const RestoreRecord::Literal& literal) const { out.set_literal(std::string(AsText(literal.bytes))); }
  void operator()(RestoreRecord::EntropyData) const { out.set_entropy_data(1); }
};

}  // namespace

Result<Bytes> EncodeRestoreRecord(const RestoreRecord& record) {
  wire::Restore message;
  for (const RestoreRecord::Segment& segment : record.segments) {
    std::visit(SegmentEncoder{*message.add_segments()}, segment);
  }
  message.set_padding_bit(record.padding_bit ? 1 : 0);
  for (const uint32_t interval : record.restart_intervals) message.add_restart_intervals(interval);
  for (const RestoreRecord::Patch& patch : record.patches) {
    wire::Patch& out = *message.add_patches();
    out.set_offset(patch.offset);
    out.set_data(std::string(AsText(patch.bytes)));
  }
  auto bytes = SerializeMessage(message, kWhat, kMaxRestoreBytes);
  if (!bytes) return bytes;
  // One set of rules: what the decoder would refuse is not written.
  const auto decoded = DecodeRestoreRecord(*bytes);
  if (!decoded) return Fail(ErrorCode::kInvalidArgument, decoded.error().message);
  return bytes;
}

Result<RestoreRecord> DecodeRestoreRecord(ByteSpan bytes) {
  if (bytes.size() > kMaxRestoreBytes) return Fail(ErrorCode::kLimit, std::string(kWhat) + " of more than 2^20 bytes");
  auto counted = CheckFieldCounts(bytes, kWhat,
                                  {{wire::Restore::kSegmentsFieldNumber, kMaxRestoreSegments},
                                   {wire::Restore::kRestartIntervalsFieldNumber, kMaxRestoreSegments, true},
                                   {wire::Restore::kPatchesFieldNumber, kMaxPatchBytes}});
  if (!counted) return PassOn(std::move(counted));
  if (auto known = CheckSegmentFields(bytes); !known) return PassOn(std::move(known));
  wire::Restore message;
  if (auto parsed = ParseMessage(bytes, kWhat, message); !parsed) return PassOn(std::move(parsed));

  RestoreRecord record;
  if (!message.has_padding_bit() || message.padding_bit() > 1) return Damaged("no padding bit, or one that is no bit");
  record.padding_bit = message.padding_bit() == 1;
  if (auto decoded = DecodeSegments(message, record); !decoded) return PassOn(std::move(decoded));
  if (auto decoded = DecodePatches(message, record); !decoded) return PassOn(std::move(decoded));
  return record;
}

}  // namespace pcrfs
