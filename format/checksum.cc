#include "format/checksum.h"

#include <libdeflate.h>
#include <openssl/evp.h>

#include <new>

namespace pcrfs {

uint32_t Crc32(ByteSpan bytes, uint32_t crc) { return libdeflate_crc32(crc, bytes.data(), bytes.size()); }

std::vector<uint32_t> BlockCrcs(ByteSpan bytes) {
  std::vector<uint32_t> crcs;
  crcs.reserve(static_cast<size_t>(BlockCount(bytes.size())));
  while (!bytes.empty()) {
    const ByteSpan block = bytes.first(std::min<size_t>(bytes.size(), kChecksumBlock));
    crcs.push_back(Crc32(block));
    bytes = bytes.subspan(block.size());
  }
  return crcs;
}

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() {
    // Both fail only for want of memory: SHA-256 is built into every libcrypto.
    if (context == nullptr || EVP_DigestInit_ex(context, EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
  }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(ByteSpan bytes) { EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()); }

Sha256Digest Sha256::Finish() {
  Sha256Digest digest{};
  EVP_DigestFinal_ex(state_->context, digest.data(), nullptr);
  return digest;
}

Sha256Digest Sha256::Of(ByteSpan bytes) {
  Sha256 sha;
  sha.Update(bytes);
  return sha.Finish();
}

std::string Hex(ByteSpan bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string CrcText(uint32_t crc) {
  return Hex(Bytes{static_cast<uint8_t>(crc >> 24), static_cast<uint8_t>(crc >> 16), static_cast<uint8_t>(crc >> 8),
                   static_cast<uint8_t>(crc)});
}

}  // namespace pcrfs
