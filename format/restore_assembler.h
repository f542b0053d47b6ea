// Puts a source together again, segment by segment of a restore record (FORMAT.md, "Restore record"): headers as they
// are given, and for each scan the entropy-coded data that the coefficients of the stored image make under the headers
// so far. Used both to restore and to find the record that restores.
//
// What the segments say is checked against the stored image and the limit before it is used. Borrows the stored image
// and its coefficients; owns what it has put together, never more than `limit` bytes. One thread at a time.
// Errors: kDamaged (the segments do not fit the image, one another or the limit), kUnsupported (libjpeg's arithmetic
// encoder refuses the scan).
#ifndef PCRFS_FORMAT_RESTORE_ASSEMBLER_H_
#define PCRFS_FORMAT_RESTORE_ASSEMBLER_H_

#include <cstdint>
#include <span>

#include "format/bytes.h"
#include "format/error.h"
#include "format/jpeg_coefficients.h"
#include "format/jpeg_parser.h"
#include "format/jpeg_tables.h"
#include "format/restore_record.h"

namespace pcrfs {

class RestoreAssembler {
 public:
  // `limit`: bytes of the source from SOI to EOI, both included. `tail`: what follows them.
  RestoreAssembler(const JpegCoefficients& coefficients, bool padding_bit, uint64_t limit, ByteSpan tail);

  // Marker segments and whatever stands between them.
  [[nodiscard]] Result<void> AddBytes(ByteSpan bytes);
  // The data of the scan whose header was added last. Appended bytes are bytes() from the size before on.
  [[nodiscard]] Result<void> AddScan(uint32_t restart_interval);

  // SOI and what was added.
  [[nodiscard]] ByteSpan bytes() const { return out_; }
  // Ends it with EOI, puts the patches over it, and the tail behind it. The assembler must not be used afterwards.
  [[nodiscard]] Result<Bytes> Finish(std::span<const RestoreRecord::Patch> patches);

 private:
  [[nodiscard]] uint64_t room() const;
  Result<void> ReadHeaders();
  Result<void> ReadTables();
  Result<void> CheckFrame() const;
  Result<void> ClaimComponents();
  [[nodiscard]] Result<void> AddHuffmanScan(uint32_t restart_interval);
  [[nodiscard]] Result<void> AddArithmeticScan(uint32_t restart_interval);
  [[nodiscard]] uint8_t TableSelector(size_t component_of_scan) const;

  const JpegCoefficients& coefficients_;
  const bool padding_bit_;
  const uint64_t limit_;
  const ByteSpan tail_;
  Bytes out_;
  JpegStructure structure_;   // of out_, at the scan under way
  size_t segments_read_ = 0;  // of structure_, for their tables
  CodingTables tables_;       // in force
  uint32_t coded_ = 0;        // a bit for each component that had its scan
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_RESTORE_ASSEMBLER_H_
