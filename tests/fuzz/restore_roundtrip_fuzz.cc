// Any file through the encoder and, where it has a restore record, back: the same bytes. Where it
// has none, `exact` keeps it opaque; and what is kept can still be had with `rescan`.
#include <cstdlib>

#include "format/checksum.h"
#include "format/image_encoder.h"
#include "format/jpeg_parser.h"
#include "format/jpeg_restorer.h"

namespace {

// Larger images only make the fuzzer slow.
constexpr uint64_t kMaxPixels = uint64_t{1} << 20;

void Require(bool condition) {
  if (!condition) std::abort();
}

bool IsWorthwhile(pcrfs::ByteSpan source) {
  const auto frame = pcrfs::ParseJpegFrame(source);
  return frame && uint64_t{frame->width} * frame->height <= kMaxPixels;
}

void RequireRestored(const pcrfs::EncodedImage& image, pcrfs::ByteSpan source) {
  pcrfs::Bytes stored = image.bytes;
  stored.insert(stored.end(), {0xFF, pcrfs::jpeg_marker::kEoi});
  stored.insert(stored.end(), image.tail.begin(), image.tail.end());
  // That it has the source's SHA-256 is checked there.
  Require(pcrfs::RestoreJpeg(stored, image.restore, {source.size(), pcrfs::Sha256::Of(source)}).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const pcrfs::ByteSpan source(data, size);
  if (!IsWorthwhile(source)) return 0;
  const auto image = pcrfs::EncodeImage(source);
  if (image && !image->restore.empty()) RequireRestored(*image, source);
  if (image) Require(image->kept || image->restore.empty() == !image->not_restorable.empty());
  if (image && image->kept) {
    const auto rescanned = pcrfs::EncodeImage(source, {.rescan = true});
    Require(rescanned && (rescanned->kept || !rescanned->not_restorable.empty()));
  } else if (image && image->restore.empty()) {
    Require(!pcrfs::EncodeImage(source, {.exact = true}));
  }
  return 0;
}
