// Coding one scan of a sequential JPEG with given Huffman tables (T.81 F.1.2), bit for bit as nearly all encoders do:
// FORMAT.md, "Restore record".
//
// Pure function, thread-safe. Writes behind what `out` holds, at most `limit` bytes.
// Errors: kDamaged (the tables lack a symbol that is needed, or the scan passes the limit; `out` then ends anywhere).
#ifndef PCRFS_FORMAT_HUFFMAN_SCAN_H_
#define PCRFS_FORMAT_HUFFMAN_SCAN_H_

#include <cstdint>
#include <span>
#include <vector>

#include "format/bytes.h"
#include "format/error.h"
#include "format/jpeg_coefficients.h"
#include "format/jpeg_tables.h"

namespace pcrfs {

struct HuffmanScan {
  struct Component {
    std::span<const CoefficientBlock* const> rows;  // of real blocks
    uint32_t width = 0;                             // real blocks of a row
    uint32_t h = 1, v = 1;                          // blocks of an MCU; 1x1 where the scan has only this component
    const HuffmanCodes* dc = nullptr;
    const HuffmanCodes* ac = nullptr;
  };
  std::vector<Component> components;  // at least one, in the scan's order
  uint32_t mcus_per_row = 0, mcu_rows = 0;
  uint32_t restart_interval = 0;  // in MCUs, 0 = none
  bool padding_bit = true;
};

[[nodiscard]] Result<void> EncodeHuffmanScan(const HuffmanScan& scan, uint64_t limit, Bytes& out);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_HUFFMAN_SCAN_H_
