#include "format/jpeg_geometry.h"

#include <algorithm>

namespace pcrfs {
namespace {

constexpr uint32_t kBlockSide = 8;

uint32_t DivideUp(uint32_t value, uint32_t divisor) { return (value + divisor - 1) / divisor; }

struct SamplingMaxima {
  uint32_t h = 1, v = 1;
};

SamplingMaxima MaximaOf(const JpegFrame& frame) {
  SamplingMaxima maxima;
  for (const FrameComponent& component : frame.components) {
    maxima.h = std::max<uint32_t>(maxima.h, component.h);
    maxima.v = std::max<uint32_t>(maxima.v, component.v);
  }
  return maxima;
}

}  // namespace

std::vector<BlockCounts> BlocksOfComponents(const JpegFrame& frame) {
  const auto [h_max, v_max] = MaximaOf(frame);
  const McuCounts mcus = McusOfFrame(frame);
  std::vector<BlockCounts> blocks;
  blocks.reserve(frame.components.size());
  for (const FrameComponent& component : frame.components)
    blocks.push_back({DivideUp(uint32_t{frame.width} * component.h, kBlockSide * h_max),
                      DivideUp(uint32_t{frame.height} * component.v, kBlockSide * v_max), mcus.width * component.h,
                      mcus.height * component.v});
  return blocks;
}

McuCounts McusOfFrame(const JpegFrame& frame) {
  const auto [h_max, v_max] = MaximaOf(frame);
  return {DivideUp(frame.width, kBlockSide * h_max), DivideUp(frame.height, kBlockSide * v_max)};
}

uint64_t BlocksOfFrame(const JpegFrame& frame) {
  uint64_t blocks = 0;
  for (const BlockCounts& component : BlocksOfComponents(frame)) blocks += component.real();
  return blocks;
}

uint64_t CoefficientMemory(const JpegFrame& frame) {
  constexpr uint64_t kBlockBytes = 64 * sizeof(int16_t);
  uint64_t bytes = 0;
  for (const BlockCounts& component : BlocksOfComponents(frame))  // libjpeg, too, has a pointer for each row
    bytes += component.padded() * kBlockBytes + component.padded_height * 2 * sizeof(void*);
  return bytes;
}

uint64_t DecodingWork(const JpegStructure& structure) {
  const std::vector<BlockCounts> blocks = BlocksOfComponents(structure.frame);
  uint64_t work = 0;
  for (const JpegScan& scan : structure.scans) {
    const uint64_t band = scan.header.Se - scan.header.Ss + uint64_t{1};
    work += kScanWork;
    for (size_t i = 0; i < scan.header.component_count; ++i)
      work += blocks[scan.header.components[i]].real() * (kBlockWork + band);
  }
  return work;
}

}  // namespace pcrfs
