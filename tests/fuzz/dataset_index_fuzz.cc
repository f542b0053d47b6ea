// PCR_index.pb on any bytes, as they are and with the closing checksum made right, so that the rest is reached.
#include <cstdlib>

#include "format/checksum.h"
#include "format/dataset_index.h"

namespace {

void Try(pcrfs::ByteSpan bytes) {
  const auto index = pcrfs::DecodeDatasetIndex(bytes);
  if (index && !pcrfs::EncodeDatasetIndex(*index)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kClosingBytes = 6;
  const pcrfs::ByteSpan bytes(data, size);
  Try(bytes);
  if (size < kClosingBytes) return 0;
  const pcrfs::ByteSpan body = bytes.first(size - kClosingBytes);
  pcrfs::ByteWriter closed;
  closed.Append(body);
  closed.Append(pcrfs::Bytes{0xC5, 0x77});
  closed.U32(pcrfs::Crc32(body));
  Try(closed.bytes());
  return 0;
}
