// Bytes that come from front to back: a file, a pipe, what a decompressor gives, a member of an archive.
//
// One thread at a time. Sizes and offsets are bytes. Errors are those of what the bytes come from, and name it.
#ifndef PCRFS_FORMAT_BYTE_STREAM_H_
#define PCRFS_FORMAT_BYTE_STREAM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "format/bytes.h"
#include "format/error.h"
#include "format/file.h"

namespace pcrfs {

class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Fills `out` as far as the bytes reach; fewer only at their end.
  [[nodiscard]] virtual Result<size_t> Read(MutableByteSpan out) = 0;
  // Where the next byte can be chosen: the number of all bytes, and Seek for an offset up to it.
  [[nodiscard]] virtual std::optional<uint64_t> size() const { return std::nullopt; }
  [[nodiscard]] virtual Result<void> Seek(uint64_t offset);
};

// An open file or pipe, owned by the caller.
class FdStream final : public ByteStream {
 public:
  enum class Access {
    kAnywhere,     // of a regular file, with the bytes that it has now
    kFrontToBack,  // from where the descriptor stands
  };
  // `name` is for messages.
  FdStream(int fd, std::string name, Access access);

  [[nodiscard]] Result<size_t> Read(MutableByteSpan out) override;
  [[nodiscard]] std::optional<uint64_t> size() const override { return size_; }
  [[nodiscard]] Result<void> Seek(uint64_t offset) override;

 private:
  const int fd_;
  const std::string name_;
  std::optional<uint64_t> size_;
  uint64_t offset_ = 0;
};

// A stream, owned by the caller, that can begin anew after its first bytes were looked at.
class RewindStream final : public ByteStream {
 public:
  // Until Release, what was read is kept, and after `most` bytes the stream looks as if it had ended.
  RewindStream(ByteStream& stream, size_t most) : stream_(stream), most_(most) {}

  [[nodiscard]] Result<size_t> Read(MutableByteSpan out) override;
  // The next byte is the first again.
  void Rewind() { position_ = 0; }
  // No more Rewind: nothing more is kept.
  void Release() { keeping_ = false; }

 private:
  ByteStream& stream_;
  const size_t most_;
  bool keeping_ = true;
  Bytes kept_;
  size_t position_ = 0;  // in kept_
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_BYTE_STREAM_H_
