#include "format/huffman_scan.h"

#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "format/jpeg_parser.h"

namespace pcrfs {
namespace {

// T.81 figure A.6: where the k-th coefficient in zigzag order lies in its block.
constexpr std::array<uint8_t, 64> kNaturalOrder = {0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
                                                   12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
                                                   35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
                                                   58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};
// Times eight bytes of 0 or 1 as they lie in memory, has the one of the first byte as bit 56, of the next as bit 57,
// ...
constexpr uint64_t kGatherOnes = std::endian::native == std::endian::little ? 0x0102040810204080 : 0x8040201008040201;
constexpr unsigned kMaxRun = 15;
constexpr unsigned kMaxSize = 15;  // of four bits of a symbol
constexpr size_t kZeroRun = 0xF0, kEndOfBlock = 0x00;
// One block at most: 64 times 32 bits, each byte stuffed, then padding and a marker.
constexpr size_t kBlockRoom = 64 * 4 * 2 + 64;

uint8_t* PutByte(uint8_t* at, uint8_t byte) {
  *at++ = byte;
  if (byte == 0xFF) *at++ = 0;
  return at;
}

uint8_t* PutBytesStuffed(uint8_t* at, uint64_t word) {
  for (int shift = 56; shift >= 0; shift -= 8) at = PutByte(at, static_cast<uint8_t>(word >> shift));
  return at;
}

// The eight bytes of `word`, the highest first, with a 00 behind each FF.
inline uint8_t* PutBytes(uint8_t* at, uint64_t word) {
  // None is FF where none has its highest bit set and loses it when 1 is added.
  constexpr uint64_t kOnes = 0x0101010101010101;
  if ((word & 0x80 * kOnes & ~(word + kOnes)) != 0) return PutBytesStuffed(at, word);
  // Written out, it is one swap and one store to a compiler.
  at[0] = static_cast<uint8_t>(word >> 56), at[1] = static_cast<uint8_t>(word >> 48);
  at[2] = static_cast<uint8_t>(word >> 40), at[3] = static_cast<uint8_t>(word >> 32);
  at[4] = static_cast<uint8_t>(word >> 24), at[5] = static_cast<uint8_t>(word >> 16);
  at[6] = static_cast<uint8_t>(word >> 8), at[7] = static_cast<uint8_t>(word);
  return at + 8;
}

// The codes of a table, each as bits << 8 | length, with a length for symbols that have none by which Put notices them.
struct Codes {
  static constexpr uint32_t kNone = 128;
  std::array<uint32_t, 256> of_symbol{};

  explicit Codes(const HuffmanCodes& table) {
    for (size_t symbol = 0; symbol < of_symbol.size(); ++symbol) {
      const auto [bits, length] = table.of_symbol[symbol];
      of_symbol[symbol] = uint32_t{bits} << 8 | (length == 0 ? kNone : length);
    }
  }
};

// Bits on their way into bytes. A value that code keeps in a local variable, so that its parts stay in registers:
// stores through `at` could change anything whose address is known.
struct BitSink {
  uint8_t* at;           // there must be room
  uint64_t pending = 0;  // the lowest 64 - free bits
  unsigned free = 64;    // 1..64 between calls
  bool lacks_code = false;

  // The lowest `size` bits of `bits`, at most 32; those above are 0.
  void Put(uint32_t bits, unsigned size) {
    if (size < free) {
      pending = pending << size | bits;
      free -= size;
      return;
    }
    if (size >= Codes::kNone) {
      lacks_code = true;
      return;
    }
    const unsigned rest = size - free;
    at = PutBytes(at, pending << free | bits >> rest);
    pending = bits;
    free = 64 - rest;
  }

  void PutSymbol(const Codes& codes, size_t symbol) {
    const uint32_t code = codes.of_symbol[symbol];
    Put(code >> 8, code & 0xFF);
  }

  // The symbol for `run` and the size of `value`, then that many bits of it (T.81 F.1.2.1.1).
  void PutValue(const Codes& codes, unsigned run, int value) {
    const auto size = static_cast<unsigned>(std::bit_width(static_cast<unsigned>(std::abs(value))));
    if (size > kMaxSize) {
      lacks_code = true;
      return;
    }
    const uint32_t code = codes.of_symbol[run << 4 | size];
    const auto low = static_cast<uint32_t>(value + (value >> 31)) & ((1U << size) - 1);
    Put(code >> 8 << size | low, (code & 0xFF) + size);
  }

  // Fills up to a whole byte, and leaves nothing pending.
  void Align(bool padding_bit) {
    const unsigned missing = free % 8;
    Put(padding_bit ? (1U << missing) - 1 : 0, missing);
    for (; free < 64; free += 8) at = PutByte(at, static_cast<uint8_t>(pending >> (56 - free)));
  }
};

// A bit for each value that is not 0, the lowest for the first. Which these are is as good as random, so there is no
// branch in it; and compilers make vector code of the first loop.
uint64_t NonZero(const CoefficientBlock& values) {
  std::array<uint8_t, 64> ones;
  for (size_t k = 0; k < ones.size(); ++k) ones[k] = values[k] != 0;
  uint64_t mask = 0;
  for (size_t k = 0; k < ones.size(); k += 8) {
    uint64_t eight;
    std::memcpy(&eight, &ones[k], sizeof eight);
    mask |= (eight * kGatherOnes >> 56) << k;
  }
  return mask;
}

BitSink CodeBlock(BitSink sink, const CoefficientBlock& block, const Codes& dc, const Codes& ac, int last_dc) {
  sink.PutValue(dc, 0, block[0] - last_dc);
  CoefficientBlock zigzag;
  for (size_t k = 0; k < zigzag.size(); ++k) zigzag[k] = block[kNaturalOrder[k]];
  unsigned last = 0;
  for (uint64_t mask = NonZero(zigzag) & ~uint64_t{1}; mask != 0; mask &= mask - 1) {
    const auto k = static_cast<unsigned>(std::countr_zero(mask));
    unsigned run = k - last - 1;
    for (; run > kMaxRun; run -= kMaxRun + 1) sink.PutSymbol(ac, kZeroRun);
    sink.PutValue(ac, run, zigzag[k]);
    last = k;
  }
  if (last < 63) sink.PutSymbol(ac, kEndOfBlock);
  return sink;
}

// A block that only fills up an MCU: as if it had the DC coefficient of the block before.
BitSink CodeFillingBlock(BitSink sink, const Codes& dc, const Codes& ac) {
  sink.PutSymbol(dc, 0);
  sink.PutSymbol(ac, kEndOfBlock);
  return sink;
}

class HuffmanScanCoder {
 public:
  HuffmanScanCoder(const HuffmanScan& scan, uint64_t limit, Bytes& out)
      : scan_(scan), out_(out), room_(limit), last_dc_(scan.components.size()) {
    for (const HuffmanScan::Component& component : scan.components)
      dc_.emplace_back(*component.dc), ac_.emplace_back(*component.ac);
  }

  Result<void> Code() {
    uint32_t until_restart = scan_.restart_interval;
    for (uint32_t row = 0; row < scan_.mcu_rows; ++row)
      for (uint32_t column = 0; column < scan_.mcus_per_row; ++column) {
        if (scan_.restart_interval > 0 && until_restart-- == 0) {
          Restart();
          until_restart = scan_.restart_interval - 1;
        }
        if (!CodeMcu(row, column)) return TooLong();
        if (sink_.lacks_code) return Fail(ErrorCode::kDamaged, "the Huffman tables lack a code that is needed");
      }
    sink_.Align(scan_.padding_bit);
    if (!Flush()) return TooLong();
    return {};
  }

 private:
  static tl::unexpected<Error> TooLong() {
    return Fail(ErrorCode::kDamaged, "a scan is longer than the source has room for");
  }

  void Restart() {
    sink_.Align(scan_.padding_bit);
    *sink_.at++ = 0xFF;
    *sink_.at++ = static_cast<uint8_t>(jpeg_marker::kRst0 + restarts_++ % 8);
    last_dc_.assign(last_dc_.size(), 0);
  }

  bool CodeMcu(uint32_t mcu_row, uint32_t mcu_column) {
    for (size_t c = 0; c < scan_.components.size(); ++c) {
      const HuffmanScan::Component& component = scan_.components[c];
      for (uint32_t y = 0; y < component.v; ++y)
        for (uint32_t x = 0; x < component.h; ++x) {
          if (static_cast<size_t>(buffer_.data() + buffer_.size() - sink_.at) < kBlockRoom && !Flush()) return false;
          const uint32_t row = mcu_row * component.v + y, column = mcu_column * component.h + x;
          if (row < component.rows.size() && column < component.width) {
            const CoefficientBlock& block = component.rows[row][column];
            sink_ = CodeBlock(sink_, block, dc_[c], ac_[c], last_dc_[c]);
            last_dc_[c] = block[0];
          } else {
            sink_ = CodeFillingBlock(sink_, dc_[c], ac_[c]);
          }
        }
    }
    return true;
  }

  [[nodiscard]] bool Flush() {
    const auto used = static_cast<size_t>(sink_.at - buffer_.data());
    if (used > room_) return false;
    room_ -= used;
    out_.insert(out_.end(), buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(used));
    sink_.at = buffer_.data();
    return true;
  }

  const HuffmanScan& scan_;
  Bytes& out_;
  uint64_t room_;               // bytes that may still be appended
  std::vector<Codes> dc_, ac_;  // by component of the scan, as
  std::vector<int> last_dc_;    // this
  uint32_t restarts_ = 0;
  std::array<uint8_t, 16384> buffer_;
  BitSink sink_{buffer_.data()};
};

}  // namespace

Result<void> EncodeHuffmanScan(const HuffmanScan& scan, uint64_t limit, Bytes& out) {
  return HuffmanScanCoder(scan, limit, out).Code();
}

}  // namespace pcrfs
