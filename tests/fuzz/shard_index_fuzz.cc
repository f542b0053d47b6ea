// Section D on any bytes: what the decoder takes obeys every rule, so the encoder can write it and gets it back.
#include <cstdlib>

#include "format/shard_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto index = pcrfs::DecodeShardIndex({data, size});
  if (index && !pcrfs::EncodeShardIndex(*index)) std::abort();
  return 0;
}
