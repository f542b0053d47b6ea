// A converted image's source, byte for byte: finding the restore record at pack time, and restoring by it.
//
// Functions are pure and thread-safe, as long as each call has its own coefficients; results own their memory.
#ifndef PCRFS_FORMAT_JPEG_RESTORER_H_
#define PCRFS_FORMAT_JPEG_RESTORER_H_

#include <cstdint>

#include "format/bytes.h"
#include "format/checksum.h"
#include "format/error.h"
#include "format/jpeg_coefficients.h"
#include "format/jpeg_parser.h"

namespace pcrfs {

// The record, encoded, by which `converted` (SOI to EOI) becomes `source` again. It has been tried: what it restores
// from `coefficients` is the source. Those are the source's; that the converted image holds the same is for the proof
// to say. `structure` is that of `source`.
// Error: kUnsupported or kLimit: there is no such record, and why.
[[nodiscard]] Result<Bytes> MakeRestoreRecord(ByteSpan source, const JpegStructure& structure, ByteSpan converted,
                                              const JpegCoefficients& coefficients);

// What a source must come out as.
struct SourceIdentity {
  uint64_t size = 0;
  Sha256Digest sha256{};
};

// The source of `stored`, the image as its highest level shows it (tail included), by its encoded restore record. Both
// may be any bytes whatever: what comes out is the source or an error.
// Errors: kDamaged (they do not give the source), kLimit (too large to be restored), kUnsupported.
[[nodiscard]] Result<Bytes> RestoreJpeg(ByteSpan stored, ByteSpan record, const SourceIdentity& source);

// Bytes of memory that RestoreJpeg needs at most, beside `stored`, for an image whose first fragment begins with
// `head`: known from the frame header in it.
// Errors: those of ParseJpegFrame; kLimit.
[[nodiscard]] Result<uint64_t> RestoreMemory(ByteSpan head, uint64_t source_size);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_JPEG_RESTORER_H_
