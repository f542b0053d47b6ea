// The bytes of a gzip file, with each member's checksum and length compared, which libarchive leaves out. The one place
// that knows zlib.
//
// Members may follow one another; what follows the last and is none (padding) is not looked at. Borrows its stream. One
// thread at a time. Errors: kDamaged, and those of the stream.
#ifndef PCRFS_FORMAT_GZIP_STREAM_H_
#define PCRFS_FORMAT_GZIP_STREAM_H_

#include <memory>
#include <string>

#include "format/byte_stream.h"

namespace pcrfs {

class GzipStream final : public ByteStream {
 public:
  // `name` is for messages.
  GzipStream(ByteStream& stream, std::string name);
  ~GzipStream() override;

  [[nodiscard]] Result<size_t> Read(MutableByteSpan out) override;

 private:
  struct Inflater;
  Result<bool> StartsMember();
  Result<bool> Fill();
  tl::unexpected<Error> Damaged(const std::string& what) const;

  ByteStream& stream_;
  const std::string name_;
  std::unique_ptr<Inflater> inflater_;
  Bytes buffer_;         // of compressed bytes
  size_t position_ = 0;  // in it
  uint64_t taken_ = 0;   // compressed bytes before the buffer
  bool in_member_ = false, at_end_ = false;
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_GZIP_STREAM_H_
