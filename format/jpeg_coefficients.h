// A JPEG's coefficients, read by libjpeg-turbo and held in memory, and the facts that decoded pixels depend on.
//
// Reading stops at the first warning. Immutable afterwards: any number of threads may look at one object; libjpeg's own
// objects behind it are for one thread at a time. An object owns its memory: the coefficients (2 bytes each, with MCU
// padding), 8 bytes for each row of blocks, and less than 1 MiB. That is as much as the frame header claims: who calls
// with foreign bytes checks that header first.
// Errors: kDamaged (libjpeg warned or gave up; its words). Memory that runs out is std::bad_alloc.
#ifndef PCRFS_FORMAT_JPEG_COEFFICIENTS_H_
#define PCRFS_FORMAT_JPEG_COEFFICIENTS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "format/bytes.h"
#include "format/error.h"

struct jpeg_decompress_struct;
struct jvirt_barray_control;

namespace pcrfs {

// All that decoded pixels depend on, marker segments aside. Two files with equal contents are the same picture.
struct JpegContent {
  struct Component {
    int id = 0, h_sampling = 0, v_sampling = 0;
    uint32_t width_in_blocks = 0, height_in_blocks = 0;  // real blocks, without MCU padding
    std::array<uint16_t, 64> quant_table{};              // as used by this component
    friend bool operator==(const Component&, const Component&) = default;
  };
  uint32_t width = 0, height = 0;
  int colour_space = 0;  // J_COLOR_SPACE that libjpeg concludes from JFIF, Adobe and component ids
  bool ycbcr = false;    // that one is YCbCr
  std::vector<Component> components;
  std::vector<uint32_t> row_crcs;  // CRC-32 of each row of real blocks, component by component

  friend bool operator==(const JpegContent&, const JpegContent&) = default;
};

// 64 coefficients, row by row as they lie in the picture (not in zigzag order).
using CoefficientBlock = std::array<int16_t, 64>;

class JpegCoefficients {
 public:
  // `jpeg` ends with its EOI and is not needed afterwards.
  [[nodiscard]] static Result<JpegCoefficients> Read(ByteSpan jpeg);

  JpegCoefficients(JpegCoefficients&&) noexcept;
  JpegCoefficients& operator=(JpegCoefficients&&) noexcept;
  ~JpegCoefficients();

  [[nodiscard]] const JpegContent& content() const;
  // Each row of blocks of a component: its first block, which width_in_blocks - 1 others follow.
  [[nodiscard]] std::span<const CoefficientBlock* const> Rows(size_t component) const;

  // For libjpeg's writers, which only read them.
  [[nodiscard]] jpeg_decompress_struct& libjpeg() const;
  [[nodiscard]] jvirt_barray_control** arrays() const;

 private:
  struct State;
  explicit JpegCoefficients(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// The content alone, of a file that ends with its EOI.
[[nodiscard]] Result<JpegContent> ReadJpegContent(ByteSpan jpeg);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_JPEG_COEFFICIENTS_H_
