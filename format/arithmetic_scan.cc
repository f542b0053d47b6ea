#include "format/arithmetic_scan.h"

#include <algorithm>
#include <utility>

#include "format/jpeg_parser.h"
#include "format/libjpeg.h"

namespace pcrfs {
namespace {

// libjpeg writes whole images only. So it gets the wanted scan as the first one, and behind it one for each component
// that is left.
class ArithmeticWriter {
 public:
  explicit ArithmeticWriter(Bytes& out) : output_(out) { fence_.Guard(info_); }
  ~ArithmeticWriter() { jpeg_destroy_compress(&info_); }
  ArithmeticWriter(const ArithmeticWriter&) = delete;
  ArithmeticWriter& operator=(const ArithmeticWriter&) = delete;

  Result<void> Write(const ArithmeticScan& scan, const JpegCoefficients& source) {
    const bool done = fence_.Run([&] {
      jpeg_create_compress(&info_);
      LiftMemoryLimit(info_);
      jpeg_copy_critical_parameters(&source.libjpeg(), &info_);
      info_.write_JFIF_header = FALSE;
      info_.write_Adobe_marker = FALSE;
      info_.arith_code = TRUE;
      info_.restart_interval = scan.restart_interval;
      SetTables(scan);
      SetScript(scan);
      info_.dest = output_.manager();
      jpeg_write_coefficients(&info_, source.arrays());
      jpeg_finish_compress(&info_);
    });
    if (!done) return Fail(ErrorCode::kUnsupported, fence_.text());
    return {};
  }

 private:
  void SetTables(const ArithmeticScan& scan) {
    for (size_t i = 0; i < scan.conditioning.size(); ++i) {
      info_.arith_dc_L[i] = scan.conditioning[i].dc_lower;
      info_.arith_dc_U[i] = scan.conditioning[i].dc_upper;
      info_.arith_ac_K[i] = scan.conditioning[i].ac;
    }
    for (const ArithmeticScan::Component& component : scan.components) {
      info_.comp_info[component.position].dc_tbl_no = component.dc_table;
      info_.comp_info[component.position].ac_tbl_no = component.ac_table;
    }
  }

  void SetScript(const ArithmeticScan& scan) {
    std::array<bool, MAX_COMPS_IN_SCAN> done{};
    script_[0] = {};
    script_[0].Se = DCTSIZE2 - 1;
    for (const ArithmeticScan::Component& component : scan.components) {
      script_[0].component_index[script_[0].comps_in_scan++] = component.position;
      done[component.position] = true;
    }
    int count = 1;
    for (int i = 0; i < info_.num_components; ++i) {
      if (done[static_cast<size_t>(i)]) continue;
      script_[static_cast<size_t>(count)] = {};
      script_[static_cast<size_t>(count)].Se = DCTSIZE2 - 1;
      script_[static_cast<size_t>(count)].comps_in_scan = 1;
      script_[static_cast<size_t>(count++)].component_index[0] = i;
    }
    info_.scan_info = script_.data();
    info_.num_scans = count;
  }

  LibjpegFence fence_;
  jpeg_compress_struct info_{};
  LibjpegOutput output_;
  std::array<jpeg_scan_info, MAX_COMPS_IN_SCAN> script_{};
};

}  // namespace

Result<void> EncodeArithmeticScan(const ArithmeticScan& scan, const JpegCoefficients& coefficients, uint64_t limit,
                                  Bytes& out) {
  if (coefficients.content().components.size() > MAX_COMPS_IN_SCAN)
    return Fail(ErrorCode::kUnsupported, "more than 4 components");
  Bytes whole = {0xFF, jpeg_marker::kSoi};
  ArithmeticWriter writer(whole);
  if (Result<void> written = writer.Write(scan, coefficients); !written) return written;
  const Result<JpegStructure> structure = ParseJpeg(whole);
  if (!structure) return tl::unexpected<Error>(structure.error());
  const JpegScan& first = structure->scans.front();
  if (first.end - first.entropy > limit)
    return Fail(ErrorCode::kDamaged, "a scan is longer than the source has room for");
  out.insert(out.end(), whole.begin() + static_cast<std::ptrdiff_t>(first.entropy),
             whole.begin() + static_cast<std::ptrdiff_t>(first.end));
  return {};
}

}  // namespace pcrfs
