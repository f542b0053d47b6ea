#include "format/restore_assembler.h"

#include <algorithm>
#include <string>
#include <utility>

#include "format/arithmetic_scan.h"
#include "format/huffman_scan.h"
#include "format/jpeg_geometry.h"

namespace pcrfs {
namespace {

constexpr uint64_t kEoiBytes = 2;
constexpr size_t kMaxComponents = 4;
// Of a size that is only claimed, no more is believed at once.
constexpr uint64_t kReserved = uint64_t{16} << 20;

tl::unexpected<Error> Damaged(const std::string& what) { return Fail(ErrorCode::kDamaged, what); }

}  // namespace

RestoreAssembler::RestoreAssembler(const JpegCoefficients& coefficients, bool padding_bit, uint64_t limit,
                                   ByteSpan tail)
    : coefficients_(coefficients), padding_bit_(padding_bit), limit_(limit), tail_(tail) {
  out_.reserve(static_cast<size_t>(std::min(limit + tail.size(), kReserved)));
  out_ = {0xFF, jpeg_marker::kSoi};
}

uint64_t RestoreAssembler::room() const { return limit_ - std::min<uint64_t>(limit_, out_.size() + kEoiBytes); }

Result<void> RestoreAssembler::AddBytes(ByteSpan bytes) {
  if (bytes.size() > room()) return Damaged("the headers are longer than the source has room for");
  out_.insert(out_.end(), bytes.begin(), bytes.end());
  return {};
}

Result<void> RestoreAssembler::AddScan(uint32_t restart_interval) {
  if (auto read = ReadHeaders(); !read) return read;
  if (auto read = ReadTables(); !read) return read;
  if (auto same = CheckFrame(); !same) return same;
  if (auto claimed = ClaimComponents(); !claimed) return claimed;
  return structure_.frame.arithmetic() ? AddArithmeticScan(restart_interval) : AddHuffmanScan(restart_interval);
}

// What is there so far, with an EOI behind, is a JPEG whose last scan has no data.
Result<void> RestoreAssembler::ReadHeaders() {
  const size_t size = out_.size();
  out_.insert(out_.end(), {0xFF, jpeg_marker::kEoi});
  Result<JpegStructure> structure = ParseJpeg(out_);
  out_.resize(size);
  if (!structure) return Damaged(structure.error().message);
  structure_ = *std::move(structure);
  const JpegSegment& last = structure_.segments.back();
  if (last.marker != jpeg_marker::kSos || last.offset + last.size != size)
    return Damaged("no scan header stands before a scan's data");
  return {};
}

Result<void> RestoreAssembler::ReadTables() {
  for (; segments_read_ < structure_.segments.size(); ++segments_read_) {
    const JpegSegment& segment = structure_.segments[segments_read_];
    if (segment.marker != jpeg_marker::kDht && segment.marker != jpeg_marker::kDac) continue;
    const ByteSpan content = ByteSpan(out_).subspan(segment.offset + 4, segment.size - 4);
    const auto read = segment.marker == jpeg_marker::kDht ? tables_.ReadDht(content) : tables_.ReadDac(content);
    if (!read) return Damaged(read.error().message);
  }
  return {};
}

// The geometry must be that of the image, whatever component ids and quantisation tables are called.
Result<void> RestoreAssembler::CheckFrame() const {
  const JpegFrame& frame = structure_.frame;
  const JpegContent& content = coefficients_.content();
  if (frame.progressive()) return Damaged("the frame is progressive");
  const bool same = frame.width == content.width && frame.height == content.height &&
                    frame.components.size() <= kMaxComponents &&
                    std::ranges::equal(frame.components, content.components,
                                       [](const FrameComponent& a, const JpegContent::Component& b) {
                                         return a.h == b.h_sampling && a.v == b.v_sampling;
                                       });
  if (!same) return Damaged("the frame is not that of the stored image");
  return {};
}

// A sequential file codes each component once; that also bounds the work that a record can ask for.
Result<void> RestoreAssembler::ClaimComponents() {
  const ScanHeader& scan = structure_.scans.back().header;
  for (size_t i = 0; i < scan.component_count; ++i) {
    const uint32_t bit = 1U << scan.components[i];
    if ((coded_ & bit) != 0) return Damaged("a component is coded twice");
    coded_ |= bit;
  }
  return {};
}

Result<void> RestoreAssembler::AddHuffmanScan(uint32_t restart_interval) {
  const ScanHeader& header = structure_.scans.back().header;
  const bool alone = header.component_count == 1;
  HuffmanScan scan;
  for (size_t i = 0; i < header.component_count; ++i) {
    const size_t position = header.components[i];
    const FrameComponent& component = structure_.frame.components[position];
    const uint8_t selector = TableSelector(i);
    const HuffmanCodes* dc = tables_.dc(selector >> 4);
    const HuffmanCodes* ac = tables_.ac(selector & 0x0F);
    if (dc == nullptr || ac == nullptr) return Damaged("a scan names a Huffman table that is not defined");
    scan.components.push_back({coefficients_.Rows(position),
                               coefficients_.content().components[position].width_in_blocks, alone ? 1U : component.h,
                               alone ? 1U : component.v, dc, ac});
  }
  const McuCounts mcus = McusOfFrame(structure_.frame);
  scan.mcus_per_row = alone ? scan.components[0].width : mcus.width;
  scan.mcu_rows = alone ? static_cast<uint32_t>(scan.components[0].rows.size()) : mcus.height;
  scan.restart_interval = restart_interval;
  scan.padding_bit = padding_bit_;
  return EncodeHuffmanScan(scan, room(), out_);
}

Result<void> RestoreAssembler::AddArithmeticScan(uint32_t restart_interval) {
  const ScanHeader& header = structure_.scans.back().header;
  ArithmeticScan scan;
  for (size_t i = 0; i < header.component_count; ++i) {
    const uint8_t selector = TableSelector(i);
    scan.components.push_back(
        {header.components[i], static_cast<uint8_t>(selector >> 4), static_cast<uint8_t>(selector & 0x0F)});
  }
  scan.conditioning = tables_.conditioning();
  scan.restart_interval = restart_interval;
  return EncodeArithmeticScan(scan, coefficients_, room(), out_);
}

// Td and Ta of the scan under way.
uint8_t RestoreAssembler::TableSelector(size_t component_of_scan) const {
  return out_[structure_.segments.back().offset + 6 + 2 * component_of_scan];
}

Result<Bytes> RestoreAssembler::Finish(std::span<const RestoreRecord::Patch> patches) {
  out_.insert(out_.end(), {0xFF, jpeg_marker::kEoi});
  for (const RestoreRecord::Patch& patch : patches) {
    if (patch.offset > out_.size() || patch.bytes.size() > out_.size() - patch.offset)
      return Damaged("a patch lies beyond the end");
    std::copy(patch.bytes.begin(), patch.bytes.end(), out_.begin() + static_cast<std::ptrdiff_t>(patch.offset));
  }
  out_.insert(out_.end(), tail_.begin(), tail_.end());
  return std::move(out_);
}

}  // namespace pcrfs
