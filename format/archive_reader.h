// Reading one archive, tar or zip, from front to back: what stands in it, and each member's bytes. The one place that
// knows libarchive.
//
// Names are raw bytes: of tars as they are stored, of zips as they are stored or, where a zip says that they are UTF-8,
// in normal form C. Nothing is ever written anywhere. Memory: a buffer, what the decompressor takes (for xz up to what
// the archive asks for, for the others some MiB), and for a zip that can be read from its end its list of members.
//
// Readers borrow their stream. One thread at a time. Sizes are bytes. Errors: kDamaged (cut off, or against the format)
// with the place; kUnsupported; those of the stream.
#ifndef PCRFS_FORMAT_ARCHIVE_READER_H_
#define PCRFS_FORMAT_ARCHIVE_READER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "format/byte_stream.h"
#include "format/bytes.h"
#include "format/entry.h"
#include "format/error.h"

namespace pcrfs {

enum class Compression { kNone, kGzip, kBzip2, kXz, kZstd };
enum class ArchiveFormat { kNone, kTar, kZip };

// By the first bytes, of which kProbeBytes are enough. A block of zeros, with which a tar ends, is no archive.
inline constexpr size_t kProbeBytes = 512;
[[nodiscard]] Compression CompressionOf(ByteSpan start);
[[nodiscard]] ArchiveFormat ArchiveFormatOf(ByteSpan start);

struct ArchiveEntry {
  enum class Type { kFile, kFolder, kHardLink, kSymbolicLink, kSpecial };
  Type type = Type::kFile;
  std::optional<std::string> path;  // nothing when the name cannot be read
  std::string target;               // of a link
  std::optional<uint64_t> size;     // of a file; nothing where it shows only at its end
  uint32_t mode = 0;                // permission bits, setuid, setgid, sticky
  std::optional<int64_t> mtime_ns;
  bool encrypted = false;
  std::string what;  // of kSpecial: "it is a FIFO"
};

class ArchiveReader {
 public:
  // `name` is for messages.
  [[nodiscard]] static Result<std::unique_ptr<ArchiveReader>> Open(ByteStream& stream, ArchiveFormat format,
                                                                   std::string name);
  // The bytes of a stream that is compressed with anything but gzip (gzip_stream.h), as the only member of an archive,
  // which Next need not be asked for.
  [[nodiscard]] static Result<std::unique_ptr<ArchiveReader>> OpenCompressed(ByteStream& stream,
                                                                             Compression compression, std::string name);
  ~ArchiveReader();

  // The next member, nothing after the last.
  [[nodiscard]] Result<std::optional<ArchiveEntry>> Next();
  // Of the member that Next gave last: fills `out` as far as its bytes reach. Holes are zeros. An error means that this
  // member cannot be read; Next tells whether others can.
  [[nodiscard]] Result<size_t> Read(MutableByteSpan out);
  // After the last member: reads the stream to its end, so that a decompressor's own checksum is checked, and says
  // whether the archive had the end mark of its format. One without may have been cut off between two members.
  [[nodiscard]] Result<bool> ReadEnd();

 private:
  struct Handle;
  explicit ArchiveReader(std::unique_ptr<Handle> handle);
  std::unique_ptr<Handle> handle_;
};

// A stream that was looked at: an archive, perhaps compressed, or something else.
class ProbedStream {
 public:
  // `stream` is borrowed; `name` is for messages. At most kMostProbed bytes are read before it is clear what it is.
  // `zeros`: whether a block of zeros, the end mark of a tar, is a tar.
  [[nodiscard]] static Result<ProbedStream> Open(ByteStream& stream, const std::string& name, bool zeros);
  static constexpr size_t kMostProbed = size_t{4} << 20;

  ProbedStream(ProbedStream&&) noexcept;
  ProbedStream& operator=(ProbedStream&&) noexcept;
  ~ProbedStream();

  [[nodiscard]] ArchiveReader* archive() const { return archive_.get(); }  // null: no archive
  [[nodiscard]] ArchiveFormat format() const { return format_; }
  // What it is compressed with, archive or not; and why what that gives could not be looked at.
  [[nodiscard]] Compression compression() const { return compression_; }
  [[nodiscard]] const std::optional<Error>& fault() const { return fault_; }
  [[nodiscard]] bool empty() const { return empty_; }
  // Of what is no archive: the bytes as they are in `stream`, from the first one on.
  [[nodiscard]] ByteStream& bytes() const { return *bytes_; }

 private:
  class Decompressed;
  explicit ProbedStream(ByteStream& stream);
  void LookInside(const std::string& name, bool zeros);
  Result<void> Rewind();
  static Result<Bytes> Start(ByteStream& stream);
  static ArchiveFormat FormatOf(ByteSpan start, bool zeros);

  ByteStream* bytes_ = nullptr;
  std::unique_ptr<RewindStream> rewindable_;
  std::unique_ptr<ByteStream> decompressed_;
  std::unique_ptr<RewindStream> content_;   // of what was decompressed
  std::unique_ptr<ArchiveReader> archive_;  // goes before what it reads from
  ArchiveFormat format_ = ArchiveFormat::kNone;
  Compression compression_ = Compression::kNone;
  std::optional<Error> fault_;
  bool empty_ = false;
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_ARCHIVE_READER_H_
