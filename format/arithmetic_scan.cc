#include "format/arithmetic_scan.h"

#include <array>

#include "format/jpeg_parser.h"
#include "format/libjpeg.h"

namespace pcrfs {
namespace {

using ScanScript = std::array<jpeg_scan_info, MAX_COMPS_IN_SCAN>;

void SetTables(const ArithmeticScan& scan, jpeg_compress_struct& info) {
  info.arith_code = TRUE;
  info.restart_interval = scan.restart_interval;
  for (size_t i = 0; i < scan.conditioning.size(); ++i) {
    info.arith_dc_L[i] = scan.conditioning[i].dc_lower;
    info.arith_dc_U[i] = scan.conditioning[i].dc_upper;
    info.arith_ac_K[i] = scan.conditioning[i].ac;
  }
  for (const ArithmeticScan::Component& component : scan.components) {
    info.comp_info[component.position].dc_tbl_no = component.dc_table;
    info.comp_info[component.position].ac_tbl_no = component.ac_table;
  }
}

// libjpeg writes whole images only. So it gets the wanted scan as the first one, and behind it one for each component
// that is left.
void SetScript(const ArithmeticScan& scan, jpeg_compress_struct& info, ScanScript& script) {
  std::array<bool, MAX_COMPS_IN_SCAN> done{};
  script[0].Se = DCTSIZE2 - 1;
  for (const ArithmeticScan::Component& component : scan.components) {
    script[0].component_index[script[0].comps_in_scan++] = component.position;
    done[component.position] = true;
  }
  size_t count = 1;
  for (int i = 0; i < info.num_components; ++i) {
    if (done[static_cast<size_t>(i)]) continue;
    script[count].Se = DCTSIZE2 - 1;
    script[count].comps_in_scan = 1;
    script[count++].component_index[0] = i;
  }
  info.scan_info = script.data();
  info.num_scans = static_cast<int>(count);
}

}  // namespace

Result<void> EncodeArithmeticScan(const ArithmeticScan& scan, const JpegCoefficients& coefficients, uint64_t limit,
                                  Bytes& out) {
  if (coefficients.content().components.size() > MAX_COMPS_IN_SCAN)
    return Fail(ErrorCode::kUnsupported, "more than 4 components");
  Bytes whole = {0xFF, jpeg_marker::kSoi};
  ScanScript script{};
  auto written = CoefficientWriter(whole).Write(coefficients, [&scan, &script](jpeg_compress_struct& info) {
    SetTables(scan, info);
    SetScript(scan, info, script);
  });
  if (!written) return written;
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
