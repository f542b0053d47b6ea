#include "format/jpeg_restorer.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "format/jpeg_geometry.h"
#include "format/jpeg_tables.h"
#include "format/restore_assembler.h"
#include "format/restore_record.h"

namespace pcrfs {
namespace {

// A restored file is at most as large as a source that pack converts.
constexpr uint64_t kMaxRestoredBytes = uint64_t{1} << 30;
// The record decoded, tables, what libjpeg keeps beside the coefficients.
constexpr uint64_t kSmallParts = uint64_t{8} << 20;

tl::unexpected<Error> NotRestorable(const std::string& why) { return Fail(ErrorCode::kUnsupported, why); }

ByteSpan SegmentBytes(ByteSpan jpeg, const JpegSegment& segment) { return jpeg.subspan(segment.offset, segment.size); }

// Marker segments that the converted image holds before its first scan's data, by their bytes.
class StoredSegments {
 public:
  StoredSegments(ByteSpan converted, const JpegStructure& structure) {
    for (size_t i = 0; i < structure.segments.size() && i < kMaxMarkerSegments; ++i) {
      const JpegSegment& segment = structure.segments[i];
      if (segment.offset >= structure.scans.front().entropy) break;
      positions_.emplace(AsText(SegmentBytes(converted, segment)), static_cast<uint32_t>(i));
    }
  }

  [[nodiscard]] std::optional<uint32_t> Find(ByteSpan bytes) const {
    const auto found = positions_.find(AsText(bytes));
    if (found == positions_.end()) return std::nullopt;
    return found->second;
  }

 private:
  std::unordered_map<std::string_view, uint32_t> positions_;
};

std::optional<RestoreRecord::StandardTables> FindStandardTables(ByteSpan bytes) {
  for (size_t kind = 0; kind < kStandardTableSegments; ++kind)
    if (std::ranges::equal(bytes, StandardTableSegment(kind))) return static_cast<RestoreRecord::StandardTables>(kind);
  return std::nullopt;
}

// Walks the source once; what is restored grows beside the record, and the two are compared scan by scan.
class RecordMaker {
 public:
  RecordMaker(ByteSpan source, const JpegStructure& structure, const StoredSegments& stored,
              const JpegCoefficients& coefficients, bool padding_bit)
      : source_(source.first(structure.eoi + 2)),
        structure_(structure),
        stored_(stored),
        assembler_(coefficients, padding_bit, source_.size(), {}) {
    record_.padding_bit = padding_bit;
  }

  Result<RestoreRecord> Make() {
    size_t position = 2;
    auto scan = structure_.scans.begin();
    uint32_t restart_interval = 0;
    for (const JpegSegment& segment : structure_.segments) {
      if (auto added = AddLiteral(source_.subspan(position, segment.offset - position)); !added)
        return PassOn(std::move(added));
      const ByteSpan bytes = SegmentBytes(source_, segment);
      if (auto added = AddSegment(segment.marker, bytes); !added) return PassOn(std::move(added));
      position = segment.offset + segment.size;
      if (segment.marker == jpeg_marker::kDri && bytes.size() == 6)
        restart_interval = static_cast<uint32_t>(bytes[4] << 8 | bytes[5]);
      if (segment.marker != jpeg_marker::kSos) continue;
      if (auto added = AddScan(*scan, restart_interval); !added) return PassOn(std::move(added));
      position = scan++->end;
    }
    if (auto added = AddLiteral(source_.subspan(position, structure_.eoi - position)); !added)
      return PassOn(std::move(added));
    const Result<Bytes> restored = assembler_.Finish(record_.patches);
    if (!restored || !std::ranges::equal(*restored, source_)) return NotRestorable("what is restored differs");
    return std::move(record_);
  }

 private:
  Result<void> AddSegment(uint8_t marker, ByteSpan bytes) {
    if (const auto position = stored_.Find(bytes)) {
      record_.segments.push_back(RestoreRecord::MarkerSegment{*position});
    } else if (const auto tables = marker == jpeg_marker::kDht ? FindStandardTables(bytes) : std::nullopt) {
      record_.segments.push_back(*tables);
    } else {
      return AddLiteral(bytes);
    }
    if (record_.segments.size() > kMaxRestoreSegments) return NotRestorable("it has too many marker segments");
    return assembler_.AddBytes(bytes);
  }

  Result<void> AddLiteral(ByteSpan bytes) {
    if (bytes.empty()) return {};
    literal_bytes_ += bytes.size();
    if (literal_bytes_ > kMaxRestoreBytes) return NotRestorable("its headers and fill are more than a record holds");
    if (record_.segments.empty() || !std::holds_alternative<RestoreRecord::Literal>(record_.segments.back()))
      record_.segments.push_back(RestoreRecord::Literal{});
    Bytes& literal = std::get<RestoreRecord::Literal>(record_.segments.back()).bytes;
    literal.insert(literal.end(), bytes.begin(), bytes.end());
    return assembler_.AddBytes(bytes);
  }

  Result<void> AddScan(const JpegScan& scan, uint32_t restart_interval) {
    record_.segments.push_back(RestoreRecord::EntropyData{});
    record_.restart_intervals.push_back(restart_interval);
    if (auto added = assembler_.AddScan(restart_interval); !added) return DiffersInScan(added.error().message);
    const ByteSpan coded = assembler_.bytes().subspan(scan.entropy);
    const ByteSpan original = source_.subspan(scan.entropy, scan.end - scan.entropy);
    if (coded.size() > original.size()) return DiffersInScan("the source's is shorter");
    if (auto patched = PatchDifferences(coded, original.first(coded.size()), scan.entropy); !patched) return patched;
    return AddLiteral(original.subspan(coded.size()));  // fill, RSTn or what else stands behind the data
  }

  // Single bytes that the source's encoder wrote otherwise, such as padding.
  Result<void> PatchDifferences(ByteSpan coded, ByteSpan original, size_t offset) {
    if (std::ranges::equal(coded, original)) return {};  // nearly always, and much faster than what follows
    for (size_t i = 0; i < coded.size();) {
      const auto [differs, _] = std::mismatch(coded.begin() + static_cast<std::ptrdiff_t>(i), coded.end(),
                                              original.begin() + static_cast<std::ptrdiff_t>(i));
      i = static_cast<size_t>(differs - coded.begin());
      if (i == coded.size()) break;
      RestoreRecord::Patch patch{offset + i, {}};
      for (; i < coded.size() && coded[i] != original[i]; ++i) {
        if (++patched_ > kMaxPatchBytes) return DiffersInScan("too many bytes differ");
        patch.bytes.push_back(original[i]);
      }
      record_.patches.push_back(std::move(patch));
    }
    return {};
  }

  [[nodiscard]] tl::unexpected<Error> DiffersInScan(const std::string& why) const {
    return NotRestorable("scan " + std::to_string(record_.restart_intervals.size()) +
                         " was not coded as most encoders do (blocks that only fill up MCUs may hold data): " + why);
  }

  const ByteSpan source_;
  const JpegStructure& structure_;
  const StoredSegments& stored_;
  RestoreAssembler assembler_;
  RestoreRecord record_;
  uint64_t literal_bytes_ = 0;
  size_t patched_ = 0;
};

size_t PatchBytes(const RestoreRecord& record) {
  size_t bytes = 0;
  for (const RestoreRecord::Patch& patch : record.patches) bytes += patch.bytes.size();
  return bytes;
}

// Bit by bit: nearly all encoders pad with ones, some with zeros.
Result<RestoreRecord> FindRecord(ByteSpan source, const JpegStructure& structure, const StoredSegments& stored,
                                 const JpegCoefficients& coefficients) {
  auto ones = RecordMaker(source, structure, stored, coefficients, true).Make();
  if (ones && ones->patches.empty()) return ones;
  auto zeros = RecordMaker(source, structure, stored, coefficients, false).Make();
  if (zeros && (!ones || PatchBytes(*zeros) < PatchBytes(*ones))) return zeros;
  return ones;
}

// A stored image that is small enough to be read, and the bytes of its source up to EOI.
Result<void> CheckStored(const JpegStructure& structure, uint64_t source_size, uint64_t tail_size) {
  if (BlocksOfFrame(structure.frame) * 64 > kMaxRestoreCoefficients || DecodingWork(structure) > kMaxImageWork ||
      source_size > kMaxRestoredBytes)
    return Fail(ErrorCode::kLimit, "the image is over the limits of what is restored");
  if (tail_size > source_size) return Fail(ErrorCode::kDamaged, "the tail is longer than the source");
  return {};
}

struct SegmentAdder {
  ByteSpan stored;
  const JpegStructure& structure;
  RestoreAssembler& assembler;
  uint32_t restart_interval;  // of the next scan

  Result<void> operator()(const RestoreRecord::MarkerSegment& segment) const {
    if (segment.position >= structure.segments.size())
      return Fail(ErrorCode::kDamaged, "the stored image has no marker segment " + std::to_string(segment.position));
    return assembler.AddBytes(SegmentBytes(stored, structure.segments[segment.position]));
  }
  Result<void> operator()(RestoreRecord::StandardTables tables) const {
    return assembler.AddBytes(StandardTableSegment(static_cast<size_t>(tables)));
  }
  Result<void> operator()(const RestoreRecord::Literal& literal) const { return assembler.AddBytes(literal.bytes); }
  Result<void> operator()(RestoreRecord::EntropyData) const { return assembler.AddScan(restart_interval); }
};

Result<Bytes> Assemble(const RestoreRecord& record, ByteSpan stored, const JpegStructure& structure,
                       RestoreAssembler& assembler) {
  auto interval = record.restart_intervals.begin();
  for (const RestoreRecord::Segment& segment : record.segments) {
    const bool scan = std::holds_alternative<RestoreRecord::EntropyData>(segment);
    auto added = std::visit(SegmentAdder{stored, structure, assembler, scan ? *interval++ : 0}, segment);
    if (!added) return PassOn(std::move(added));
  }
  return assembler.Finish(record.patches);
}

Result<Bytes> Restore(ByteSpan stored, ByteSpan record, const SourceIdentity& source) {
  const auto decoded = DecodeRestoreRecord(record);
  if (!decoded) return tl::unexpected<Error>(decoded.error());
  const Result<JpegStructure> structure = ParseJpeg(stored);
  if (!structure) return tl::unexpected<Error>(structure.error());
  const ByteSpan image = stored.first(structure->eoi + 2), tail = stored.subspan(structure->eoi + 2);
  if (auto checked = CheckStored(*structure, source.size, tail.size()); !checked) return PassOn(std::move(checked));
  const Result<JpegCoefficients> coefficients = JpegCoefficients::Read(image);
  if (!coefficients) return tl::unexpected<Error>(coefficients.error());

  RestoreAssembler assembler(*coefficients, decoded->padding_bit, source.size - tail.size(), tail);
  Result<Bytes> restored = Assemble(*decoded, image, *structure, assembler);
  if (!restored) return restored;
  if (restored->size() != source.size)
    return Fail(ErrorCode::kDamaged,
                "expected " + std::to_string(source.size) + " bytes, found " + std::to_string(restored->size()));
  if (const Sha256Digest found = Sha256::Of(*restored); found != source.sha256)
    return Fail(ErrorCode::kDamaged, "SHA-256: expected " + Hex(source.sha256) + ", found " + Hex(found));
  return restored;
}

}  // namespace

Result<Bytes> MakeRestoreRecord(ByteSpan source, const JpegStructure& structure, ByteSpan converted,
                                const JpegCoefficients& coefficients) {
  if (structure.frame.progressive()) return NotRestorable("it was progressive");
  const uint64_t blocks = BlocksOfFrame(structure.frame);
  if (blocks * 64 > kMaxRestoreCoefficients)
    return NotRestorable(std::to_string(blocks * 64) + " coefficients, at most " +
                         std::to_string(kMaxRestoreCoefficients) + " are restored");
  const Result<JpegStructure> converted_structure = ParseJpeg(converted);
  if (!converted_structure) return tl::unexpected<Error>(converted_structure.error());
  const StoredSegments stored(converted, *converted_structure);
  const auto record = FindRecord(source, structure, stored, coefficients);
  if (!record) return tl::unexpected<Error>(record.error());
  auto encoded = EncodeRestoreRecord(*record);
  if (!encoded) return encoded;
  const auto decoded = DecodeRestoreRecord(*encoded);
  if (!decoded || *decoded != *record) return NotRestorable("its restore record is not read back");
  return encoded;
}

Result<Bytes> RestoreJpeg(ByteSpan stored, ByteSpan record, const SourceIdentity& source) {
  auto restored = Restore(stored, record, source);
  if (!restored) return WithContext("restoring the source", std::move(restored.error()));
  return restored;
}

Result<uint64_t> RestoreMemory(ByteSpan head, uint64_t source_size) {
  const Result<JpegFrame> frame = ParseJpegFrame(head);
  if (!frame) return tl::unexpected<Error>(frame.error());
  if (BlocksOfFrame(*frame) * 64 > kMaxRestoreCoefficients || source_size > kMaxRestoredBytes)
    return Fail(ErrorCode::kLimit, "the image is over the limits of what is restored");
  return CoefficientMemory(*frame) + 2 * source_size + kSmallParts;  // twice while it grows or is coded arithmetically
}

}  // namespace pcrfs
