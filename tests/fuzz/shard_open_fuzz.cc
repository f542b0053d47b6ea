// A whole shard of any bytes, opened as verify and a mount do. The checksums of index and footer are made right first,
// so that what they vouch for is reached; what opens must also open by its row, and a check of its content must end.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "format/checksum.h"
#include "format/shard_footer.h"
#include "format/shard_reader.h"

namespace {

using pcrfs::ByteReader;
using pcrfs::Bytes;
using pcrfs::ByteSpan;

// The footer written anew for the index that the old one points to, where that lies in the file.
Bytes WithRightChecksums(Bytes shard) {
  if (shard.size() < pcrfs::kFooterBytes) return shard;
  const size_t footer_at = shard.size() - pcrfs::kFooterBytes;
  ByteReader reader(ByteSpan(shard).subspan(footer_at));
  pcrfs::ShardFooter footer;
  footer.index_offset = std::min<uint64_t>(reader.U64(), footer_at);
  footer.index_length = static_cast<uint32_t>(footer_at - footer.index_offset);
  footer.index_crc = pcrfs::Crc32(ByteSpan(shard).subspan(footer.index_offset, footer.index_length));
  footer.file_size = shard.size();
  reader = ByteReader(ByteSpan(shard).subspan(footer_at + 24));
  footer.published_end = std::min<uint64_t>(reader.U64(), footer.index_offset);
  const Bytes encoded = pcrfs::EncodeShardFooter(footer);
  std::copy(encoded.begin(), encoded.end(), shard.begin() + static_cast<std::ptrdiff_t>(footer_at));
  return shard;
}

void Try(Bytes bytes) {
  const pcrfs::MemorySource source("shard", std::move(bytes));
  for (const std::string name : {"PCR_0.pcr", "PCR_0.files"}) {
    const auto shard = pcrfs::ReadLoneShard(source, name);
    if (!shard) continue;
    const auto again = pcrfs::ReadShardIndex(source, shard->row);
    if (!again || *again != shard->index) std::abort();
    pcrfs::CheckShardContent(
        source, shard->row, shard->index, pcrfs::LabelMap({"birds", "fish"}), nullptr, [](const pcrfs::Error&) {},
        [](uint64_t) {});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Try(Bytes(data, data + size));
  Try(WithRightChecksums(Bytes(data, data + size)));
  return 0;
}
