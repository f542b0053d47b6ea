#include "format/image_encoder.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "format/error.h"
#include "format/jpeg_coefficients.h"
#include "format/jpeg_parser.h"
#include "format/jpeg_proof.h"
#include "format/jpeg_restorer.h"
#include "format/jpeg_transcoder.h"
#include "format/scan_levels.h"

namespace pcrfs {
namespace {

using Encoded = tl::expected<EncodedImage, Opaque>;

tl::unexpected<Opaque> Refuse(OpaqueReason reason, std::string detail) {
  return tl::unexpected<Opaque>(Opaque{reason, std::move(detail)});
}

tl::unexpected<Opaque> Refuse(const Error& error) {
  switch (error.code) {
    case ErrorCode::kUnsupported:
      return Refuse(OpaqueReason::kUnsupported, error.message);
    case ErrorCode::kLimit:
      return Refuse(OpaqueReason::kTooLarge, error.message);
    default:
      return Refuse(OpaqueReason::kDamaged, error.message);
  }
}

std::string ComponentName(size_t position) { return "component " + std::to_string(position + 1); }

// What the frame header alone rules out.
std::optional<Opaque> RefuseFrame(const JpegFrame& frame) {
  const auto unsupported = [](std::string detail) { return Opaque{OpaqueReason::kUnsupported, std::move(detail)}; };
  if (frame.marker == jpeg_marker::kSof10) return unsupported("progressive with arithmetic coding");
  if (frame.precision != 8) return unsupported(std::to_string(frame.precision) + " bits a sample");
  if (frame.height == 0) return unsupported("the frame header leaves the height to a DNL segment");
  if (frame.components.size() > 4) return unsupported(std::to_string(frame.components.size()) + " components");
  std::bitset<256> ids;
  for (const FrameComponent& component : frame.components) {
    if (ids[component.id]) return unsupported("component id " + std::to_string(component.id) + " is there twice");
    ids.set(component.id);
  }
  if (frame.width > kMaxImageSide || frame.height > kMaxImageSide)
    return Opaque{OpaqueReason::kTooLarge, std::to_string(frame.width) + "x" + std::to_string(frame.height) +
                                               " pixels, libjpeg reads sides of at most " +
                                               std::to_string(kMaxImageSide)};
  if (const uint64_t coefficients = BlocksOfFrame(frame) * 64; coefficients > kMaxImageCoefficients)
    return Opaque{OpaqueReason::kTooLarge, std::to_string(coefficients) + " coefficients, at most " +
                                               std::to_string(kMaxImageCoefficients) + " are converted"};
  return std::nullopt;
}

// The work that the number of scans makes of the image's size, within bounds.
std::optional<Opaque> RefuseWork(const JpegStructure& structure) {
  if (DecodingWork(structure) <= kMaxImageWork) return std::nullopt;
  return Opaque{OpaqueReason::kTooLarge, std::to_string(structure.scans.size()) + " scans over " +
                                             std::to_string(BlocksOfFrame(structure.frame)) + " blocks, too much work"};
}

// A DNL segment that contradicts the frame header: readers that heed it see another height than those that do not.
std::optional<Opaque> RefuseSegments(ByteSpan source, const JpegStructure& structure) {
  for (const JpegSegment& segment : structure.segments) {
    if (segment.marker != jpeg_marker::kDnl) continue;
    const ByteSpan bytes = source.subspan(segment.offset, segment.size);
    if (bytes.size() == 6 && (bytes[4] << 8 | bytes[5]) == structure.frame.height) continue;
    return Opaque{OpaqueReason::kUnsupported, "a DNL segment at offset " + std::to_string(segment.offset) +
                                                  " with another height than the frame's"};
  }
  return std::nullopt;
}

// Of a file that is to be converted.
std::optional<Opaque> RefuseMarkersBetween(const JpegStructure& structure) {
  for (const JpegSegment& segment : structure.segments)
    if (IsCopiedSegment(segment.marker) && segment.offset >= structure.scans.front().entropy)
      return Opaque{OpaqueReason::kMarkersBetween,
                    "an APPn or COM segment behind the first scan, at offset " + std::to_string(segment.offset)};
  return std::nullopt;
}

bool SameScript(const JpegStructure& a, const JpegStructure& b) {
  return std::ranges::equal(a.scans, b.scans, {}, &JpegScan::header, &JpegScan::header);
}

// A sequential file must code each component once.
std::optional<Opaque> RefuseSequentialScans(const JpegStructure& structure) {
  std::vector<int> times(structure.frame.components.size());
  for (const JpegScan& scan : structure.scans)
    for (size_t i = 0; i < scan.header.component_count; ++i) ++times[scan.header.components[i]];
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i] == 0) return Opaque{OpaqueReason::kIncomplete, "no scan codes " + ComponentName(i)};
    if (times[i] > 1) return Opaque{OpaqueReason::kDamaged, "several scans code " + ComponentName(i)};
  }
  return std::nullopt;
}

// A progressive file must bring every coefficient of every component down to Al = 0, or decoders smooth it. (That each
// step is a lawful one, libjpeg checks.)
std::optional<Opaque> RefuseProgressiveScans(const JpegStructure& structure) {
  static constexpr uint8_t kNever = 255;
  std::vector<std::array<uint8_t, 64>> bits(structure.frame.components.size());
  for (auto& component : bits) component.fill(kNever);
  for (const JpegScan& scan : structure.scans)
    for (size_t i = 0; i < scan.header.component_count; ++i)
      for (size_t k = scan.header.Ss; k <= scan.header.Se; ++k) bits[scan.header.components[i]][k] = scan.header.Al;
  for (size_t i = 0; i < bits.size(); ++i)
    for (size_t k = 0; k < 64; ++k) {
      if (bits[i][k] == 0) continue;
      const std::string which = "coefficient " + std::to_string(k) + " of " + ComponentName(i);
      return Opaque{OpaqueReason::kIncomplete,
                    bits[i][k] == kNever ? "no scan codes " + which
                                         : "no scan refines " + which + " beyond Al = " + std::to_string(bits[i][k])};
    }
  return std::nullopt;
}

std::optional<Opaque> RefuseStructure(ByteSpan source, const JpegStructure& structure) {
  if (auto refusal = RefuseFrame(structure.frame)) return refusal;
  if (auto refusal = RefuseWork(structure)) return refusal;
  if (auto refusal = RefuseSegments(source, structure)) return refusal;
  if (structure.frame.progressive()) return RefuseProgressiveScans(structure);
  if (auto refusal = RefuseSequentialScans(structure)) return refusal;
  return RefuseMarkersBetween(structure);
}

// The structure of a file in which the markers show no reason to keep it whole.
tl::expected<JpegStructure, Opaque> ParseSound(ByteSpan source) {
  if (!StartsWithSoi(source)) return Refuse(OpaqueReason::kNotJpeg, "the file does not start with SOI (FF D8)");
  Result<JpegStructure> structure = ParseJpeg(source);
  if (!structure) return Refuse(structure.error());
  if (structure->eoi > kMaxImageBytes)
    return Refuse(OpaqueReason::kTooLarge,
                  std::to_string(structure->eoi) + " bytes, an image has at most " + std::to_string(kMaxImageBytes));
  if (auto refusal = RefuseStructure(source, *structure)) return tl::unexpected<Opaque>(*std::move(refusal));
  return *std::move(structure);
}

// Sizes of the fragments of [0, eoi): each scan, with the segments before it, in the fragment of its level; what lies
// between the last scan and EOI in the last scan's.
std::array<uint32_t, kShardLevels> Cut(const JpegStructure& structure, bool ycbcr) {
  std::array<uint32_t, kShardLevels> sizes{};
  const std::vector<Level> levels = ScanLevels(structure.scans, ycbcr);
  for (size_t i = 0; i < levels.size(); ++i) {
    const JpegScan& scan = structure.scans[i];
    const size_t end = i + 1 == levels.size() ? structure.eoi : scan.end;
    sizes[levels[i].index()] += static_cast<uint32_t>(end - scan.begin);
  }
  return sizes;
}

// Fill before EOI, so that the tail begins where it did.
std::optional<Opaque> AppendTail(ByteSpan source, size_t source_eoi, EncodedImage& image) {
  const ByteSpan tail = source.subspan(source_eoi + 2);
  if (tail.empty()) return std::nullopt;
  if (image.bytes.size() > source_eoi)
    return Opaque{OpaqueReason::kUnsupported, "a tail of " + std::to_string(tail.size()) +
                                                  " bytes cannot keep its offset, since the converted image is " +
                                                  std::to_string(image.bytes.size() - source_eoi) + " bytes longer"};
  const size_t fill = source_eoi - image.bytes.size();
  image.bytes.insert(image.bytes.end(), fill, 0xFF);
  *std::find_if(image.fragment_sizes.rbegin(), image.fragment_sizes.rend(), [](uint32_t size) { return size > 0; }) +=
      static_cast<uint32_t>(fill);
  image.tail.assign(tail.begin(), tail.end());
  return std::nullopt;
}

Encoded Keep(ByteSpan source, const JpegStructure& structure) {
  const Result<JpegContent> content = ReadJpegContent(source.first(structure.eoi + 2));
  if (!content) return Refuse(content.error());
  EncodedImage image;
  image.kept = true;
  image.fragment_sizes = Cut(structure, content->ycbcr);
  const ByteSpan bytes = source.first(structure.eoi), tail = source.subspan(structure.eoi + 2);
  image.bytes.assign(bytes.begin(), bytes.end());
  image.tail.assign(tail.begin(), tail.end());
  return image;
}

struct Conversion {
  ProgressiveJpeg jpeg;
  Result<Bytes> restore;
};

// All that takes the source's coefficients, which are gone afterwards: the proof needs the new file's.
Result<Conversion> ConvertAndTryRestoring(ByteSpan source, const JpegStructure& structure) {
  const Result<JpegCoefficients> coefficients = JpegCoefficients::Read(source);
  if (!coefficients) return tl::unexpected<Error>(coefficients.error());
  Result<ProgressiveJpeg> converted = ConvertToProgressive(source, structure, *coefficients);
  if (!converted) return PassOn(std::move(converted));
  Result<Bytes> restore = MakeRestoreRecord(source, structure, converted->bytes, *coefficients);
  return Conversion{*std::move(converted), std::move(restore)};
}

Encoded Convert(ByteSpan source, const JpegStructure& structure, bool exact) {
  Result<Conversion> conversion = ConvertAndTryRestoring(source.first(structure.eoi + 2), structure);
  if (!conversion) return Refuse(conversion.error());
  if (exact && !conversion->restore) return Refuse(OpaqueReason::kNotRestorable, conversion->restore.error().message);
  const Result<JpegStructure> new_structure = ProveConversion(source, structure, conversion->jpeg);
  if (!new_structure) return Refuse(OpaqueReason::kProofFailed, new_structure.error().message);
  if (SameScript(structure, *new_structure))
    return Refuse(OpaqueReason::kUnsupported, "its scans are as they would be");
  if (new_structure->eoi > kMaxImageBytes)
    return Refuse(OpaqueReason::kTooLarge, std::to_string(new_structure->eoi) +
                                               " bytes when converted, an image has at most " +
                                               std::to_string(kMaxImageBytes));

  EncodedImage image;
  image.fragment_sizes = Cut(*new_structure, conversion->jpeg.content.ycbcr);
  image.bytes = std::move(conversion->jpeg.bytes);
  image.bytes.resize(new_structure->eoi);
  if (auto refusal = AppendTail(source, structure.eoi, image)) return tl::unexpected<Opaque>(*std::move(refusal));
  if (conversion->restore)
    image.restore = *std::move(conversion->restore);
  else
    image.not_restorable = std::move(conversion->restore.error().message);
  return image;
}

// What cannot be converted, or need not be, is kept.
Encoded Rescan(ByteSpan source, const JpegStructure& structure) {
  if (!RefuseMarkersBetween(structure))
    if (Encoded image = Convert(source, structure, false)) return image;
  return Keep(source, structure);
}

}  // namespace

uint64_t EncodeMemory(ByteSpan source) {
  constexpr uint64_t kSmallParts = uint64_t{1} << 20;
  const Result<JpegFrame> frame = ParseJpegFrame(source);
  if (!frame || RefuseFrame(*frame)) return 0;
  return CoefficientMemory(*frame) + 2 * source.size() + kSmallParts;  // the result, and the source restored on trial
}

uint64_t EncodeWork(ByteSpan source) {
  const auto structure = ParseSound(source);
  return structure ? DecodingWork(*structure) : 0;
}

tl::expected<EncodedImage, Opaque> EncodeImage(ByteSpan source, const EncodeOptions& options) {
  const auto structure = ParseSound(source);
  if (!structure) return tl::unexpected<Opaque>(structure.error());
  if (!structure->frame.progressive()) return Convert(source, *structure, options.exact);
  return options.rescan && !options.exact ? Rescan(source, *structure) : Keep(source, *structure);
}

}  // namespace pcrfs
