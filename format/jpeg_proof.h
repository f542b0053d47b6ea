// The proof that a converted JPEG is its source: that nothing a reader can see was changed by the conversion.
//
// It does not trust the conversion: the new file is parsed and read back from its bytes. Compared are every
// coefficient of every real block, quantisation tables, sampling, component ids, size, the colour space that libjpeg
// concludes, and the APPn and COM segments byte for byte in their order.
//
// Pure function, thread-safe; result owned by the caller. Peak memory: the new file's coefficients once.
// Error: kDamaged; the message says what differs.
#ifndef PCRFS_FORMAT_JPEG_PROOF_H_
#define PCRFS_FORMAT_JPEG_PROOF_H_

#include "format/bytes.h"
#include "format/error.h"
#include "format/jpeg_parser.h"
#include "format/jpeg_transcoder.h"

namespace pcrfs {

// `structure` is that of `source`. The result is the structure of converted.bytes.
[[nodiscard]] Result<JpegStructure> ProveConversion(ByteSpan source, const JpegStructure& structure,
                                                    const ProgressiveJpeg& converted);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_JPEG_PROOF_H_
