// catalog.head on any bytes under a right CRC: it must not crash, and what it returns must encode to the same bytes.
#include <cstdlib>

#include "cache/catalog_head.h"
#include "format/checksum.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pcrfs;
  const ByteSpan input(data, size);
  ByteWriter sealed;
  sealed.Append(input);
  sealed.U32(Crc32(input));
  const auto head = DecodeCatalogHead(sealed.bytes());
  if (head && EncodeCatalogHead(*head) != sealed.bytes()) std::abort();
  if (!head && head.error().message.empty()) std::abort();
  (void)DecodeCatalogHead(input);
  return 0;
}
