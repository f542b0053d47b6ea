// The restorer on any stored image and any restore record: an error that says why, since nothing has the right SHA-256.
//
//   u16 size of the record, the record, the image as its highest level shows it
#include <cstdlib>

#include "format/bytes.h"
#include "format/jpeg_parser.h"
#include "format/jpeg_restorer.h"

namespace {

// What the source is said to have, so the most that is put together.
constexpr uint64_t kSourceSize = uint64_t{1} << 20;
// Larger images only make the fuzzer slow.
constexpr uint64_t kMaxPixels = uint64_t{1} << 20;

bool IsWorthwhile(pcrfs::ByteSpan image) {
  const auto frame = pcrfs::ParseJpegFrame(image);
  return !frame || uint64_t{frame->width} * frame->height <= kMaxPixels;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pcrfs::ByteReader reader({data, size});
  const pcrfs::ByteSpan record = reader.Take(reader.U16());
  if (!reader.ok()) return 0;
  const pcrfs::ByteSpan image = reader.Take(reader.remaining());
  if (!IsWorthwhile(image)) return 0;
  const auto restored = pcrfs::RestoreJpeg(image, record, {kSourceSize, {}});
  if (restored || restored.error().message.empty()) std::abort();
  return 0;
}
