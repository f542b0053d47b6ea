// JPEGs made for tests: photo-like pictures (smooth colour, edges, noise) of any size, sampling and coding.
#ifndef PCRFS_TESTS_SUPPORT_TEST_JPEG_H_
#define PCRFS_TESTS_SUPPORT_TEST_JPEG_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "format/bytes.h"

namespace pcrfs::testing {

// A scan of a script; components count from 0.
struct TestScan {
  std::vector<int> components;
  int Ss = 0, Se = 63, Ah = 0, Al = 0;
};

// Of three components.
inline const std::vector<TestScan> kOneScanEach = {{{0}}, {{1}}, {{2}}};

struct TestJpeg {
  enum class Colour { kYCbCr, kGray, kRgb, kCmyk, kYcck, kTwo };  // kTwo: two components, no colour space

  unsigned width = 160, height = 120;
  Colour colour = Colour::kYCbCr;
  int quality = 85;
  int h_sampling = 2, v_sampling = 2;  // of luma, against 1x1 chroma
  // (h, v) of each component, any factors at all. The planes are then made up one by one and make no sensible colours.
  std::vector<std::pair<int, int>> sampling = {};
  bool progressive = false;           // libjpeg's default script
  std::vector<TestScan> script = {};  // other scans than the default ones
  bool optimize = false;              // own Huffman tables instead of the standard ones
  bool arithmetic = false;
  int arithmetic_ac = 5;           // Kx of all tables
  unsigned restart_interval = 0;   // in MCUs
  bool jfif = true, adobe = true;  // false: without that segment where libjpeg would write it
  uint32_t seed = 1;               // another seed, another picture
  // Marker code (APP0 + n or COM) and content, written after JFIF or Adobe, in this order.
  std::vector<std::pair<int, Bytes>> markers = {};
};

// Ends the test program when libjpeg refuses.
[[nodiscard]] Bytes MakeJpeg(const TestJpeg& spec);

// The pixels as libjpeg decodes them (its own colour space, interleaved) and how many warnings it gave; an error gives
// no pixels and counts as a warning.
struct DecodedJpeg {
  unsigned width = 0, height = 0, components = 0;
  Bytes pixels;
  long warnings = 0;
};
[[nodiscard]] DecodedJpeg DecodeJpeg(ByteSpan jpeg);

}  // namespace pcrfs::testing

#endif  // PCRFS_TESTS_SUPPORT_TEST_JPEG_H_
