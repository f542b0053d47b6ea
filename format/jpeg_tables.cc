#include "format/jpeg_tables.h"

#include <numeric>
#include <string>
#include <utility>

namespace pcrfs {
namespace {

constexpr size_t kCodeLengths = 16;
constexpr size_t kDcSymbols = 12;
constexpr size_t kAcSymbols = 162;

// T.81 tables K.3 to K.6 as DHT segments hold them: how many codes there are of each length, then the symbols.
constexpr std::array<uint8_t, kCodeLengths + kDcSymbols> kLuminanceDc = {0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0,  0,
                                                                         0, 0, 0, 0,  //
                                                                         0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
constexpr std::array<uint8_t, kCodeLengths + kDcSymbols> kChrominanceDc = {0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1,  0,
                                                                           0, 0, 0, 0,  //
                                                                           0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
constexpr std::array<uint8_t, kCodeLengths + kAcSymbols> kLuminanceAc = {
    0,    2,    1,    3,    3,    2,    4,    3,    5,    5,    4,    4,    0,    0,    1,    0x7D,  //
    0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07,  //
    0x22, 0x71, 0x14, 0x32, 0x81, 0x91, 0xA1, 0x08, 0x23, 0x42, 0xB1, 0xC1, 0x15, 0x52, 0xD1, 0xF0,  //
    0x24, 0x33, 0x62, 0x72, 0x82, 0x09, 0x0A, 0x16, 0x17, 0x18, 0x19, 0x1A, 0x25, 0x26, 0x27, 0x28,  //
    0x29, 0x2A, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3A, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49,  //
    0x4A, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5A, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69,  //
    0x6A, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7A, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89,  //
    0x8A, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9A, 0xA2, 0xA3, 0xA4, 0xA5, 0xA6, 0xA7,  //
    0xA8, 0xA9, 0xAA, 0xB2, 0xB3, 0xB4, 0xB5, 0xB6, 0xB7, 0xB8, 0xB9, 0xBA, 0xC2, 0xC3, 0xC4, 0xC5,  //
    0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xD2, 0xD3, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8, 0xD9, 0xDA, 0xE1, 0xE2,  //
    0xE3, 0xE4, 0xE5, 0xE6, 0xE7, 0xE8, 0xE9, 0xEA, 0xF1, 0xF2, 0xF3, 0xF4, 0xF5, 0xF6, 0xF7, 0xF8,  //
    0xF9, 0xFA};
constexpr std::array<uint8_t, kCodeLengths + kAcSymbols> kChrominanceAc = {
    0,    2,    1,    2,    4,    4,    3,    4,    7,    5,    4,    4,    0,    1,    2,    0x77,  //
    0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61, 0x71,  //
    0x13, 0x22, 0x32, 0x81, 0x08, 0x14, 0x42, 0x91, 0xA1, 0xB1, 0xC1, 0x09, 0x23, 0x33, 0x52, 0xF0,  //
    0x15, 0x62, 0x72, 0xD1, 0x0A, 0x16, 0x24, 0x34, 0xE1, 0x25, 0xF1, 0x17, 0x18, 0x19, 0x1A, 0x26,  //
    0x27, 0x28, 0x29, 0x2A, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3A, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48,  //
    0x49, 0x4A, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5A, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68,  //
    0x69, 0x6A, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7A, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87,  //
    0x88, 0x89, 0x8A, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9A, 0xA2, 0xA3, 0xA4, 0xA5,  //
    0xA6, 0xA7, 0xA8, 0xA9, 0xAA, 0xB2, 0xB3, 0xB4, 0xB5, 0xB6, 0xB7, 0xB8, 0xB9, 0xBA, 0xC2, 0xC3,  //
    0xC4, 0xC5, 0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xD2, 0xD3, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8, 0xD9, 0xDA,  //
    0xE2, 0xE3, 0xE4, 0xE5, 0xE6, 0xE7, 0xE8, 0xE9, 0xEA, 0xF2, 0xF3, 0xF4, 0xF5, 0xF6, 0xF7, 0xF8,  //
    0xF9, 0xFA};

// Tc << 4 | Th, then the table: one entry of a DHT segment.
constexpr uint8_t kDc0 = 0x00, kAc0 = 0x10, kDc1 = 0x01, kAc1 = 0x11;

void AppendTable(Bytes& segment, uint8_t selector, ByteSpan table) {
  segment.push_back(selector);
  segment.insert(segment.end(), table.begin(), table.end());
}

Bytes MakeStandardSegment(size_t kind) {
  const bool all = kind == kStandardTableSegments - 1;
  Bytes segment = {0xFF, 0xC4, 0, 0};
  if (all || kind == 0) AppendTable(segment, kDc0, kLuminanceDc);
  if (all || kind == 1) AppendTable(segment, kAc0, kLuminanceAc);
  if (all || kind == 2) AppendTable(segment, kDc1, kChrominanceDc);
  if (all || kind == 3) AppendTable(segment, kAc1, kChrominanceAc);
  segment[2] = static_cast<uint8_t>((segment.size() - 2) >> 8);
  segment[3] = static_cast<uint8_t>((segment.size() - 2) & 0xFF);
  return segment;
}

// T.81 C.2: codes of one length are consecutive numbers, and those of the next length go on from twice the last.
Result<HuffmanCodes> MakeCodes(ByteSpan counts, ByteSpan symbols) {
  HuffmanCodes codes;
  uint32_t next = 0;
  for (size_t length = 1; length <= kCodeLengths; ++length, next <<= 1) {
    for (uint8_t i = 0; i < counts[length - 1]; ++i, ++next) {
      if (next >= (1U << length))
        return Fail(ErrorCode::kDamaged, "a Huffman table has more codes than its lengths allow");
      HuffmanCodes::Code& code = codes.of_symbol[symbols.front()];
      if (code.length == 0) code = {static_cast<uint16_t>(next), static_cast<uint16_t>(length)};
      symbols = symbols.subspan(1);
    }
  }
  return codes;
}

struct StandardCodes {
  std::array<HuffmanCodes, 2> dc, ac;
};

const StandardCodes& Standard() {
  const auto codes = [](ByteSpan table) {
    return MakeCodes(table.first(kCodeLengths), table.subspan(kCodeLengths)).value();
  };
  static const StandardCodes standard = {{codes(kLuminanceDc), codes(kChrominanceDc)},
                                         {codes(kLuminanceAc), codes(kChrominanceAc)}};
  return standard;
}

}  // namespace

Result<void> CodingTables::ReadDht(ByteSpan content) {
  while (!content.empty()) {
    if (content.size() < 1 + kCodeLengths) return Fail(ErrorCode::kDamaged, "a DHT segment is cut off");
    const uint8_t selector = content[0];
    const ByteSpan counts = content.subspan(1, kCodeLengths);
    content = content.subspan(1 + kCodeLengths);
    const size_t symbols = std::accumulate(counts.begin(), counts.end(), size_t{0});
    if (symbols > 256 || symbols > content.size())
      return Fail(ErrorCode::kDamaged, "a DHT segment has a table of " + std::to_string(symbols) + " codes");
    if ((selector & 0x0F) >= kHuffmanTables || selector >= 0x20)
      return Fail(ErrorCode::kDamaged, "a DHT segment has no table number");
    Result<HuffmanCodes> codes = MakeCodes(counts, content.first(symbols));
    if (!codes) return PassOn(std::move(codes));
    (selector >= 0x10 ? ac_ : dc_)[selector & 0x0F] = *codes;
    content = content.subspan(symbols);
  }
  return {};
}

Result<void> CodingTables::ReadDac(ByteSpan content) {
  if (content.size() % 2 != 0) return Fail(ErrorCode::kDamaged, "a DAC segment is cut off");
  for (; !content.empty(); content = content.subspan(2)) {
    if (content[0] >= 2 * kConditionings) return Fail(ErrorCode::kDamaged, "a DAC segment has no table number");
    Conditioning& table = conditioning_[content[0] % kConditionings];
    const uint8_t value = content[1];
    if (content[0] < kConditionings) {
      table.dc_lower = value & 0x0F, table.dc_upper = value >> 4;
      if (table.dc_lower > table.dc_upper) return Fail(ErrorCode::kDamaged, "a DAC segment's L is above its U");
    } else {
      if (value < 1 || value > 63) return Fail(ErrorCode::kDamaged, "a DAC segment's Kx is not 1..63");
      table.ac = value;
    }
  }
  return {};
}

const HuffmanCodes* CodingTables::dc(size_t number) const { return Find(dc_, Standard().dc, number); }
const HuffmanCodes* CodingTables::ac(size_t number) const { return Find(ac_, Standard().ac, number); }

const HuffmanCodes* CodingTables::Find(const Tables& defined, const StandardPair& standard, size_t number) {
  if (number < defined.size() && defined[number]) return &*defined[number];
  return number < standard.size() ? &standard[number] : nullptr;
}

ByteSpan StandardTableSegment(size_t kind) {
  static const std::array<Bytes, kStandardTableSegments> segments = {MakeStandardSegment(0), MakeStandardSegment(1),
                                                                     MakeStandardSegment(2), MakeStandardSegment(3),
                                                                     MakeStandardSegment(4)};
  return segments.at(kind);
}

}  // namespace pcrfs
