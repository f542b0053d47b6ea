// Coding one scan of a sequential JPEG with arithmetic coding (T.81 F.1.4), by libjpeg-turbo's encoder.
//
// Thread-safe, as long as each call has its own coefficients. Memory: the whole image coded, and less than 1 MiB.
// Errors: kUnsupported (libjpeg cannot write it; its words), kDamaged (the scan passes the limit).
#ifndef PCRFS_FORMAT_ARITHMETIC_SCAN_H_
#define PCRFS_FORMAT_ARITHMETIC_SCAN_H_

#include <array>
#include <cstdint>
#include <vector>

#include "format/bytes.h"
#include "format/error.h"
#include "format/jpeg_coefficients.h"
#include "format/jpeg_tables.h"

namespace pcrfs {

struct ArithmeticScan {
  struct Component {
    uint8_t position = 0;                // in the frame
    uint8_t dc_table = 0, ac_table = 0;  // numbers, below 16
  };
  std::vector<Component> components;  // 1..4, rising
  std::array<Conditioning, CodingTables::kConditionings> conditioning{};
  uint32_t restart_interval = 0;  // in MCUs, 0 = none
};

// Appends the scan's entropy-coded data to `out`, at most `limit` bytes.
[[nodiscard]] Result<void> EncodeArithmeticScan(const ArithmeticScan& scan, const JpegCoefficients& coefficients,
                                                uint64_t limit, Bytes& out);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_ARITHMETIC_SCAN_H_
