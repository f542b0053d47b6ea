// The image encoder on any bytes: opaque with a reason, or an image whose parts hang together. (That nothing is lost is
// what the encoder itself proves; here the proof is repeated for kept files and tails.)
#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "format/image_encoder.h"
#include "format/jpeg_parser.h"

namespace {

// Larger images only make the fuzzer slow.
constexpr uint64_t kMaxPixels = uint64_t{1} << 20;

void Require(bool condition) {
  if (!condition) std::abort();
}

bool IsWorthwhile(pcrfs::ByteSpan bytes) {
  const pcrfs::Result<pcrfs::JpegStructure> structure = pcrfs::ParseJpeg(bytes);
  return !structure || uint64_t{structure->frame.width} * structure->frame.height <= kMaxPixels;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const pcrfs::ByteSpan source(data, size);
  if (!IsWorthwhile(source)) return 0;
  const auto image = pcrfs::EncodeImage(source);
  if (!image) {
    Require(!image.error().detail.empty());
    return 0;
  }
  const auto& sizes = image->fragment_sizes;
  Require(std::accumulate(sizes.begin(), sizes.end(), uint64_t{0}) == image->bytes.size());
  Require(sizes[0] > 2 && pcrfs::StartsWithSoi(image->bytes));
  Require(image->tail.size() + 2 <= size && std::ranges::equal(image->tail, source.last(image->tail.size())));
  if (!image->tail.empty()) Require(image->bytes.size() + 2 + image->tail.size() == size);
  if (image->kept) Require(std::ranges::equal(image->bytes, source.first(image->bytes.size())));
  return 0;
}
