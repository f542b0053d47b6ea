#include "format/jpeg_transcoder.h"

#include <array>
#include <utility>

#include "format/libjpeg.h"

namespace pcrfs {
namespace {

class ProgressiveWriter {
 public:
  explicit ProgressiveWriter(Bytes& out) : output_(out) { fence_.Guard(info_); }
  ~ProgressiveWriter() { jpeg_destroy_compress(&info_); }
  ProgressiveWriter(const ProgressiveWriter&) = delete;
  ProgressiveWriter& operator=(const ProgressiveWriter&) = delete;

  Result<void> Write(const JpegCoefficients& source) {
    const bool done = fence_.Run([&] {
      jpeg_create_compress(&info_);
      LiftMemoryLimit(info_);
      jpeg_copy_critical_parameters(&source.libjpeg(), &info_);
      // The source's own segments are in the output already; libjpeg would add some that the source does not have.
      info_.write_JFIF_header = FALSE;
      info_.write_Adobe_marker = FALSE;
      jpeg_simple_progression(&info_);
      SplitCrowdedScans();
      info_.dest = output_.manager();
      jpeg_write_coefficients(&info_, source.arrays());
      jpeg_finish_compress(&info_);
    });
    if (!done) return Fail(ErrorCode::kUnsupported, fence_.text());
    return {};
  }

 private:
  // One scan a component in place of interleaved ones whose MCU would have more blocks than T.81 B.2.3 allows.
  void SplitCrowdedScans() {
    int blocks = 0;
    for (int i = 0; i < info_.num_components; ++i)
      blocks += info_.comp_info[i].h_samp_factor * info_.comp_info[i].v_samp_factor;
    if (info_.num_components == 1 || blocks <= C_MAX_BLOCKS_IN_MCU) return;
    size_t count = 0;
    for (int i = 0; i < info_.num_scans; ++i) {
      const jpeg_scan_info& scan = info_.scan_info[i];
      for (int c = 0; c < scan.comps_in_scan && count < split_scans_.size(); ++c) {
        split_scans_[count] = scan;
        split_scans_[count].comps_in_scan = 1;
        split_scans_[count++].component_index[0] = scan.component_index[c];
      }
    }
    info_.scan_info = split_scans_.data();
    info_.num_scans = static_cast<int>(count);
  }

  LibjpegFence fence_;
  jpeg_compress_struct info_{};
  LibjpegOutput output_;
  // The default script has 18 scans for four components, 2 of them interleaved.
  std::array<jpeg_scan_info, 18 + 2 * 3> split_scans_{};
};

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
  ProgressiveWriter writer(progressive.bytes);
  if (Result<void> written = writer.Write(coefficients); !written) return PassOn(std::move(written));
  return progressive;
}

}  // namespace pcrfs
