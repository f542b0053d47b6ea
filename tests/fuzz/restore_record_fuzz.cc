// The restore record on any bytes: what the decoder takes can be written and comes back the same.
#include <cstdlib>

#include "format/restore_record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto record = pcrfs::DecodeRestoreRecord({data, size});
  if (!record) return 0;
  const auto encoded = pcrfs::EncodeRestoreRecord(*record);
  if (!encoded || pcrfs::DecodeRestoreRecord(*encoded).value() != *record) std::abort();
  return 0;
}
