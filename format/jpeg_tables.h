// The coding tables of a sequential JPEG: those that DHT and DAC segments define, those that T.81 has ready, and which
// are in force at a scan.
//
// Plain values, thread-safe. Everything is checked that a segment may get wrong. Errors: kDamaged.
#ifndef PCRFS_FORMAT_JPEG_TABLES_H_
#define PCRFS_FORMAT_JPEG_TABLES_H_

#include <array>
#include <cstdint>
#include <optional>

#include "format/bytes.h"
#include "format/error.h"

namespace pcrfs {

// A Huffman table turned round for coding: the code word of each symbol.
struct HuffmanCodes {
  struct Code {
    uint16_t bits = 0;
    uint16_t length = 0;  // 0: the table has no such symbol
  };
  std::array<Code, 256> of_symbol{};
};

// Conditioning of arithmetic coding (T.81 F.1.4.4), by table number; T.81's defaults.
struct Conditioning {
  uint8_t dc_lower = 0, dc_upper = 1;  // L, U
  uint8_t ac = 5;                      // Kx
};

class CodingTables {
 public:
  static constexpr size_t kHuffmanTables = 4;
  static constexpr size_t kConditionings = 16;

  // The content of a DHT or DAC segment (what follows its length).
  [[nodiscard]] Result<void> ReadDht(ByteSpan content);
  [[nodiscard]] Result<void> ReadDac(ByteSpan content);

  // The table of that number, or where none is defined, for 0 and 1, the standard one for luminance and chrominance;
  // otherwise nullptr.
  [[nodiscard]] const HuffmanCodes* dc(size_t number) const;
  [[nodiscard]] const HuffmanCodes* ac(size_t number) const;
  [[nodiscard]] const std::array<Conditioning, kConditionings>& conditioning() const { return conditioning_; }

 private:
  using Tables = std::array<std::optional<HuffmanCodes>, kHuffmanTables>;
  using StandardPair = std::array<HuffmanCodes, 2>;

  static const HuffmanCodes* Find(const Tables& defined, const StandardPair& standard, size_t number);

  Tables dc_, ac_;
  std::array<Conditioning, kConditionings> conditioning_{};
};

// A DHT segment of standard tables (T.81 K.3), marker and length included, by RestoreRecord::StandardTables: DC 0, AC
// 0, DC 1, AC 1 alone, or all four.
inline constexpr size_t kStandardTableSegments = 5;
[[nodiscard]] ByteSpan StandardTableSegment(size_t kind);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_JPEG_TABLES_H_
