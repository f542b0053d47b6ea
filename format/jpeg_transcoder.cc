#include "format/jpeg_transcoder.h"

#include <array>
#include <utility>

#include "format/libjpeg.h"

namespace pcrfs {
namespace {

// The default script has 18 scans for four components, 2 of them interleaved.
using SplitScans = std::array<jpeg_scan_info, 18 + 2 * 3>;

// One scan a component in place of interleaved ones whose MCU would have more blocks than T.81 B.2.3 allows.
void SplitCrowdedScans(jpeg_compress_struct& info, SplitScans& split) {
  int blocks = 0;
  for (int i = 0; i < info.num_components; ++i)
    blocks += info.comp_info[i].h_samp_factor * info.comp_info[i].v_samp_factor;
  if (info.num_components == 1 || blocks <= C_MAX_BLOCKS_IN_MCU) return;
  size_t count = 0;
  for (int i = 0; i < info.num_scans; ++i) {
    const jpeg_scan_info& scan = info.scan_info[i];
    for (int c = 0; c < scan.comps_in_scan && count < split.size(); ++c) {
      split[count] = scan;
      split[count].comps_in_scan = 1;
      split[count++].component_index[0] = scan.component_index[c];
    }
  }
  info.scan_info = split.data();
  info.num_scans = static_cast<int>(count);
}

}  // namespace

Result<ProgressiveJpeg> ConvertToProgressive(ByteSpan source, const JpegStructure& structure,
                                             const JpegCoefficients& coefficients) {
  ProgressiveJpeg progressive;
  progressive.content = coefficients.content();
  progressive.bytes.reserve(source.size());
  progressive.bytes = {0xFF, jpeg_marker::kSoi};
  for (const JpegSegment& segment : structure.segments) {
    if (!IsCopiedSegment(segment.marker)) continue;
    const ByteSpan bytes = source.subspan(segment.offset, segment.size);
    progressive.bytes.insert(progressive.bytes.end(), bytes.begin(), bytes.end());
  }
  SplitScans split{};
  auto written = CoefficientWriter(progressive.bytes).Write(coefficients, [&split](jpeg_compress_struct& info) {
    jpeg_simple_progression(&info);
    SplitCrowdedScans(info, split);
  });
  if (!written) return PassOn(std::move(written));
  return progressive;
}

}  // namespace pcrfs
