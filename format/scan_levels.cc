#include "format/scan_levels.h"

#include <algorithm>

namespace pcrfs {
namespace {

enum class Plane { kLuma, kCb, kCr };

Plane PlaneOf(const ScanHeader& scan, bool ycbcr) {
  if (!ycbcr || scan.components[0] == 0) return Plane::kLuma;
  return scan.components[0] == 1 ? Plane::kCb : Plane::kCr;
}

Level FirstAcScanLevel(const ScanHeader& scan, Plane plane) {
  if (plane == Plane::kCr) return Level::Of<3>();
  if (plane == Plane::kCb) return Level::Of<4>();
  return scan.Ss == 1 && scan.Se < 63 ? Level::Of<2>() : Level::Of<5>();
}

Level AcRefinementLevel(const ScanHeader& scan, Plane plane) {
  if (scan.Al >= 1) return Level::Of<6>();
  if (plane == Plane::kCr) return Level::Of<8>();
  if (plane == Plane::kCb) return Level::Of<9>();
  return Level::Of<10>();
}

}  // namespace

std::vector<Level> ScanLevels(std::span<const JpegScan> scans, bool ycbcr) {
  std::vector<Level> levels;
  levels.reserve(scans.size());
  Level before = Level::Of<1>();
  bool ac_refined = false;
  for (const JpegScan& scan : scans) {
    const ScanHeader& header = scan.header;
    const Plane plane = PlaneOf(header, ycbcr);
    Level level = before;
    if (header.Ss == 0) {
      if (header.Ah > 0 && ac_refined) level = Level::Of<7>();
    } else if (header.Ah == 0) {
      level = FirstAcScanLevel(header, plane);
    } else {
      level = AcRefinementLevel(header, plane);
      ac_refined = true;
    }
    if (levels.empty()) level = Level::Of<1>();
    before = std::max(before, level);
    levels.push_back(before);
  }
  return levels;
}

}  // namespace pcrfs
