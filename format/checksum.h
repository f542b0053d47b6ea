// The two checksums of the format: CRC-32 (that of gzip and of Python's zlib.crc32) per block of 131,072 bytes, against
// accidents on disk and wire, and SHA-256 for the identity of whole files and shards.
//
// Thread safety: functions are pure; a Sha256 object belongs to one thread at a time.
#ifndef PCRFS_FORMAT_CHECKSUM_H_
#define PCRFS_FORMAT_CHECKSUM_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "format/bytes.h"

namespace pcrfs {

// Checksummed unit of fragments, tails, restore records and opaque files, counted from the start of each.
inline constexpr uint64_t kChecksumBlock = 131072;

// `crc` continues an earlier call: Crc32(b, Crc32(a)) == Crc32(a ++ b).
[[nodiscard]] uint32_t Crc32(ByteSpan bytes, uint32_t crc = 0);

// One CRC-32 a block, the last block may be shorter; none for no bytes.
[[nodiscard]] std::vector<uint32_t> BlockCrcs(ByteSpan bytes);

// How many blocks, and so CRCs, `size` bytes have.
constexpr uint64_t BlockCount(uint64_t size) { return size / kChecksumBlock + (size % kChecksumBlock != 0 ? 1 : 0); }

using Sha256Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(ByteSpan bytes);
  // Ends the computation; the object must not be used afterwards.
  [[nodiscard]] Sha256Digest Finish();

  [[nodiscard]] static Sha256Digest Of(ByteSpan bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Lower-case hexadecimal, as sha256sum prints it.
[[nodiscard]] std::string Hex(ByteSpan bytes);

// A CRC-32 for a message: 8 hexadecimal digits, as crc32(1) and gzip -lv print it.
[[nodiscard]] std::string CrcText(uint32_t crc);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_CHECKSUM_H_
