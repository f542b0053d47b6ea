#include "format/jpeg_proof.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace pcrfs {
namespace {

std::vector<ByteSpan> CopiedSegments(const JpegStructure& structure, ByteSpan bytes) {
  std::vector<ByteSpan> segments;
  for (const JpegSegment& segment : structure.segments)
    if (IsCopiedSegment(segment.marker)) segments.push_back(bytes.subspan(segment.offset, segment.size));
  return segments;
}

bool SameBytes(ByteSpan a, ByteSpan b) { return std::ranges::equal(a, b); }

// The numbers of quantisation tables are free: which table each component has, is compared with the content.
bool SameComponent(const FrameComponent& a, const FrameComponent& b) {
  return a.id == b.id && a.h == b.h && a.v == b.v;
}

// What differs between the headers, nothing when all is the same.
const char* HeaderDifference(const JpegFrame& before, const JpegFrame& after) {
  if (after.marker != jpeg_marker::kSof2) return "the process: it is not progressive with Huffman coding";
  if (after.precision != before.precision) return "the sample precision";
  if (after.width != before.width || after.height != before.height) return "width or height";
  if (!std::ranges::equal(after.components, before.components, SameComponent))
    return "component ids or sampling factors";
  return nullptr;
}

const char* ContentDifference(const JpegContent& before, const JpegContent& after) {
  if (after.colour_space != before.colour_space) return "the colour space";
  if (after.components != before.components) return "quantisation tables or numbers of blocks";
  if (after.row_crcs != before.row_crcs) return "coefficients";
  if (after != before) return "the picture";
  return nullptr;
}

tl::unexpected<Error> Unreadable(const Error& error) {
  return Fail(ErrorCode::kDamaged, "the converted image: " + error.message);
}

}  // namespace

Result<JpegStructure> ProveConversion(ByteSpan source, const JpegStructure& structure,
                                      const ProgressiveJpeg& converted) {
  Result<JpegStructure> new_structure = ParseJpeg(converted.bytes);
  if (!new_structure) return Unreadable(new_structure.error());
  const Result<JpegContent> new_content = ReadJpegContent(converted.bytes);
  if (!new_content) return Unreadable(new_content.error());

  const char* difference = HeaderDifference(structure.frame, new_structure->frame);
  if (difference == nullptr && !std::ranges::equal(CopiedSegments(structure, source),
                                                   CopiedSegments(*new_structure, converted.bytes), SameBytes))
    difference = "APPn or COM segments";
  if (difference == nullptr) difference = ContentDifference(converted.content, *new_content);
  if (difference != nullptr)
    return Fail(ErrorCode::kDamaged, std::string("the converted image differs from its source in ") + difference);
  return new_structure;
}

}  // namespace pcrfs
