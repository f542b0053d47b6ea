#include "format/archive_reader.h"

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>
#include <sys/stat.h>
#include <clocale>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string_view>
#include <utility>

#include "format/gzip_stream.h"
#include "format/source_tree.h"

namespace pcrfs {
namespace {

constexpr size_t kBufferBytes = 256 << 10;

bool StartsWith(ByteSpan bytes, std::string_view magic) { return AsText(bytes).starts_with(magic); }

// The checksum of a tar header counts its own eight bytes as blanks; some writers have summed signed bytes.
bool HasTarChecksum(ByteSpan header) {
  constexpr size_t kChecksumAt = 148, kChecksumBytes = 8;
  int64_t plain = 0, with_sign = 0, stored = 0;
  for (size_t i = 0; i < kProbeBytes; ++i) {
    const uint8_t byte = i - kChecksumAt < kChecksumBytes ? uint8_t{' '} : header[i];
    plain += byte;
    with_sign += static_cast<int8_t>(byte);
  }
  bool digits = false;
  for (size_t i = kChecksumAt; i < kChecksumAt + kChecksumBytes; ++i) {
    if (header[i] >= '0' && header[i] <= '7')
      stored = stored * 8 + (header[i] - '0'), digits = true;
    else if (digits || header[i] != ' ')
      break;
  }
  return digits && (stored == plain || stored == with_sign);
}

// libarchive converts the names of pax headers and of some zips into the thread's character set. In the C locale what
// does not fit is left as it is stored in tars, but lost in zips, which UTF-8 brings through.
class NameLocale {
 public:
  explicit NameLocale(ArchiveFormat format) : before_(uselocale(format == ArchiveFormat::kZip ? Utf8() : Plain())) {}
  ~NameLocale() { uselocale(before_); }
  NameLocale(const NameLocale&) = delete;
  NameLocale& operator=(const NameLocale&) = delete;

 private:
  static locale_t Plain() {
    static const locale_t locale = newlocale(LC_ALL_MASK, "C", locale_t{});
    return locale;
  }
  static locale_t Utf8() {
    static const locale_t locale = newlocale(LC_ALL_MASK, "C.UTF-8", locale_t{});
    return locale != locale_t{} ? locale : Plain();
  }

  const locale_t before_;
};

// libarchive takes the "-1.25" of a pax header for one second before 1970 and a quarter after that.
int64_t Nanoseconds(archive_entry* entry) {
  struct timespec time {};
  time.tv_sec = archive_entry_mtime(entry);
  time.tv_nsec = archive_entry_mtime_nsec(entry);
  if (time.tv_sec < 0 && time.tv_nsec > 0) {
    time.tv_sec -= 1;
    time.tv_nsec = 1'000'000'000 - time.tv_nsec;
  }
  struct stat status {};
  status.st_mtim = time;
  return AttributesOf(status).mtime_ns;
}

const char* WhatItIs(mode_t type) {
  switch (type) {
    case AE_IFIFO:
      return "it is a FIFO";
    case AE_IFSOCK:
      return "it is a socket";
    case AE_IFCHR:
    case AE_IFBLK:
      return "it is a device";
    default:
      return "it is neither a file nor a folder";
  }
}

ArchiveEntry EntryOf(archive_entry* from) {
  ArchiveEntry entry;
  if (const char* path = archive_entry_pathname(from)) entry.path = path;
  entry.mode = archive_entry_perm(from) & 07777;
  if (archive_entry_mtime_is_set(from) != 0) entry.mtime_ns = Nanoseconds(from);
  entry.encrypted = archive_entry_is_encrypted(from) != 0;
  if (archive_entry_size_is_set(from) != 0 && archive_entry_size(from) >= 0)
    entry.size = static_cast<uint64_t>(archive_entry_size(from));
  if (const char* target = archive_entry_hardlink(from)) {
    entry.type = ArchiveEntry::Type::kHardLink;
    entry.target = target;
    return entry;
  }
  switch (archive_entry_filetype(from)) {
    case AE_IFREG:
      break;
    case AE_IFDIR:
      entry.type = ArchiveEntry::Type::kFolder;
      break;
    case AE_IFLNK: {
      const char* target = archive_entry_symlink(from);
      entry.type = ArchiveEntry::Type::kSymbolicLink;
      entry.target = target != nullptr ? target : "";
      break;
    }
    default:
      entry.type = ArchiveEntry::Type::kSpecial;
      entry.what = WhatItIs(archive_entry_filetype(from));
  }
  return entry;
}

}  // namespace

// libarchive's handle, and our stream as it sees it.
struct ArchiveReader::Handle {
  Handle(ByteStream& from, std::string called) : stream(from), name(std::move(called)), buffer(kBufferBytes) {}
  ~Handle() {
    if (reader != nullptr) archive_read_free(reader);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  // Open with what was allowed.
  [[nodiscard]] Result<void> Open() {
    archive_read_set_callback_data(reader, this);
    archive_read_set_read_callback(reader, &ReadBlock);
    if (stream.size()) {
      archive_read_set_seek_callback(reader, &SeekTo);
      archive_read_set_skip_callback(reader, &SkipBytes);
    }
    if (archive_read_open1(reader) != ARCHIVE_OK) return Failed("cannot be opened");
    return {};
  }

  // What libarchive says, or the stream said before.
  tl::unexpected<Error> Failed(const std::string& what) {
    if (error) return tl::unexpected<Error>(*error);
    const char* text = archive_error_string(reader);
    const bool no_memory = archive_errno(reader) == ENOMEM;
    return Fail(no_memory ? ErrorCode::kLimit : ErrorCode::kDamaged,
                Quoted(name) + " " + what + ": " + (text != nullptr ? text : "the archive is damaged"));
  }

  // The next bytes of the stream, into the buffer.
  Result<size_t> Fill() {
    auto got = stream.Read(buffer);
    if (!got) {
      error = got.error();
      return got;
    }
    offset += *got;
    if (*got > 0) {
      const ByteSpan tail = ByteSpan(buffer).first(*got).last(std::min<size_t>(*got, kProbeBytes));
      ends_in_zeros = std::all_of(tail.begin(), tail.end(), [](uint8_t byte) { return byte == 0; });
    }
    return got;
  }

  static la_ssize_t ReadBlock(archive* reader, void* self, const void** block) {
    auto& handle = *static_cast<Handle*>(self);
    auto got = handle.Fill();
    *block = handle.buffer.data();
    if (got) return static_cast<la_ssize_t>(*got);
    archive_set_error(reader, EIO, "%s", got.error().message.c_str());
    return ARCHIVE_FATAL;
  }
  static la_int64_t SkipBytes(archive*, void* self, la_int64_t wanted) {
    auto& handle = *static_cast<Handle*>(self);
    const uint64_t left = *handle.stream.size() - handle.offset;
    const uint64_t skipped = std::min<uint64_t>(left, static_cast<uint64_t>(std::max<la_int64_t>(wanted, 0)));
    if (!handle.stream.Seek(handle.offset + skipped)) return 0;
    handle.offset += skipped;
    if (skipped > 0) handle.ends_in_zeros = false;
    return static_cast<la_int64_t>(skipped);
  }
  static la_int64_t SeekTo(archive*, void* self, la_int64_t offset, int whence) {
    auto& handle = *static_cast<Handle*>(self);
    const auto size = static_cast<la_int64_t>(*handle.stream.size());
    const auto now = static_cast<la_int64_t>(handle.offset);
    const la_int64_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? now : size;
    if (offset < -base || offset > size - base) return ARCHIVE_FATAL;
    if (!handle.stream.Seek(static_cast<uint64_t>(base + offset))) return ARCHIVE_FATAL;
    handle.offset = static_cast<uint64_t>(base + offset);
    return base + offset;
  }

  ByteStream& stream;
  const std::string name;
  ArchiveFormat format = ArchiveFormat::kNone;
  Bytes buffer;
  uint64_t offset = 0;  // in the stream, of what comes next
  bool ends_in_zeros = false;
  std::optional<Error> error;  // of the stream
  archive* reader = archive_read_new();

  // Of the current member.
  std::string path;
  bool sparse = false;
  uint64_t size = 0, position = 0;
};

namespace {

int Allow(archive* reader, Compression compression) {
  switch (compression) {
    case Compression::kBzip2:
      return archive_read_support_filter_bzip2(reader);
    case Compression::kXz:
      return archive_read_support_filter_xz(reader);
    case Compression::kZstd:
      return archive_read_support_filter_zstd(reader);
    default:
      return ARCHIVE_FATAL;
  }
}

const char* NameOf(Compression compression) {
  constexpr const char* kNames[] = {"nothing", "gzip", "bzip2", "xz", "zstd"};
  return kNames[static_cast<size_t>(compression)];
}

}  // namespace

Compression CompressionOf(ByteSpan start) {
  using std::string_view_literals::operator""sv;
  if (StartsWith(start, "\x1F\x8B"sv)) return Compression::kGzip;
  if (StartsWith(start, "BZh"sv) && start.size() > 3 && start[3] >= '1' && start[3] <= '9') return Compression::kBzip2;
  if (StartsWith(start, "\xFD\x37\x7A\x58\x5A\x00"sv)) return Compression::kXz;
  if (StartsWith(start, "\x28\xB5\x2F\xFD"sv)) return Compression::kZstd;
  return Compression::kNone;
}

ArchiveFormat ArchiveFormatOf(ByteSpan start) {
  using std::string_view_literals::operator""sv;
  if (StartsWith(start, "PK\x03\x04"sv) || StartsWith(start, "PK\x05\x06"sv)) return ArchiveFormat::kZip;
  if (start.size() >= kProbeBytes && HasTarChecksum(start)) return ArchiveFormat::kTar;
  return ArchiveFormat::kNone;
}

ArchiveReader::ArchiveReader(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
ArchiveReader::~ArchiveReader() = default;

Result<std::unique_ptr<ArchiveReader>> ArchiveReader::Open(ByteStream& stream, ArchiveFormat format, std::string name) {
  auto handle = std::make_unique<Handle>(stream, std::move(name));
  handle->format = format;
  if (handle->reader == nullptr) return Fail(ErrorCode::kLimit, "no memory for reading " + Quoted(handle->name));
  archive* reader = handle->reader;
  const NameLocale locale(format);
  const int allowed =
      format == ArchiveFormat::kZip ? archive_read_support_format_zip(reader) : archive_read_support_format_tar(reader);
  if (allowed != ARCHIVE_OK) return handle->Failed("cannot be opened");
  if (auto opened = handle->Open(); !opened) return PassOn(std::move(opened));
  return std::unique_ptr<ArchiveReader>(new ArchiveReader(std::move(handle)));
}

Result<std::unique_ptr<ArchiveReader>> ArchiveReader::OpenCompressed(ByteStream& stream, Compression compression,
                                                                     std::string name) {
  auto handle = std::make_unique<Handle>(stream, std::move(name));
  if (handle->reader == nullptr) return Fail(ErrorCode::kLimit, "no memory for reading " + Quoted(handle->name));
  archive* reader = handle->reader;
  // Anything else than OK means that libarchive was built without it and would call a program.
  if (Allow(reader, compression) != ARCHIVE_OK)
    return Fail(ErrorCode::kUnsupported, Quoted(handle->name) + " is compressed with " + NameOf(compression) +
                                             ", which the libarchive of this system cannot read");
  archive_read_support_format_raw(reader);
  archive_read_support_format_empty(reader);
  if (auto opened = handle->Open(); !opened) return PassOn(std::move(opened));
  auto self = std::unique_ptr<ArchiveReader>(new ArchiveReader(std::move(handle)));
  if (auto whole = self->Next(); !whole) return PassOn(std::move(whole));
  return self;
}

Result<std::optional<ArchiveEntry>> ArchiveReader::Next() {
  Handle& handle = *handle_;
  const NameLocale locale(handle.format);
  archive_entry* found = nullptr;
  const int result = archive_read_next_header(handle.reader, &found);
  if (result == ARCHIVE_EOF) return std::nullopt;
  if (result != ARCHIVE_OK && result != ARCHIVE_WARN)
    return handle.Failed(handle.path.empty() ? "cannot be read" : "cannot be read on behind " + Quoted(handle.path));
  ArchiveEntry entry = EntryOf(found);
  handle.path = entry.path.value_or("");
  handle.sparse = archive_entry_sparse_count(found) > 0;
  handle.size = entry.size.value_or(0);
  handle.position = 0;
  return entry;
}

Result<size_t> ArchiveReader::Read(MutableByteSpan out) {
  Handle& handle = *handle_;
  const NameLocale locale(handle.format);
  size_t done = 0;
  while (done < out.size()) {
    const la_ssize_t got = archive_read_data(handle.reader, out.data() + done, out.size() - done);
    if (got == ARCHIVE_RETRY) continue;
    if (got < 0)
      return handle.Failed("cannot be read" + (handle.path.empty() || handle.format == ArchiveFormat::kNone
                                                   ? " at its byte " + std::to_string(handle.position + done)
                                                   : ", in " + Quoted(handle.path)));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  handle.position += done;
  if (done < out.size() && handle.sparse && handle.position < handle.size) {  // a hole at the end
    const auto zeros = static_cast<size_t>(std::min<uint64_t>(out.size() - done, handle.size - handle.position));
    std::fill_n(out.begin() + static_cast<std::ptrdiff_t>(done), zeros, uint8_t{0});
    handle.position += zeros;
    done += zeros;
  }
  return done;
}

Result<bool> ArchiveReader::ReadEnd() {
  Handle& handle = *handle_;
  if (handle.format == ArchiveFormat::kZip) return true;
  if (const auto size = handle.stream.size(); size && handle.offset + kBufferBytes < *size) {
    if (auto sought = handle.stream.Seek(*size - kBufferBytes); !sought) return PassOn(std::move(sought));
    handle.offset = *size - kBufferBytes;
  }
  while (true) {
    auto got = handle.Fill();
    if (!got) return PassOn(std::move(got));
    if (*got == 0) return handle.ends_in_zeros;
  }
}

class ProbedStream::Decompressed final : public ByteStream {
 public:
  explicit Decompressed(std::unique_ptr<ArchiveReader> reader) : reader_(std::move(reader)) {}
  [[nodiscard]] Result<size_t> Read(MutableByteSpan out) override { return reader_->Read(out); }

 private:
  std::unique_ptr<ArchiveReader> reader_;
};

ProbedStream::ProbedStream(ByteStream& stream) : bytes_(&stream) {
  if (stream.size()) return;
  rewindable_ = std::make_unique<RewindStream>(stream, kMostProbed);
  bytes_ = rewindable_.get();
}
ProbedStream::ProbedStream(ProbedStream&&) noexcept = default;
ProbedStream& ProbedStream::operator=(ProbedStream&&) noexcept = default;
ProbedStream::~ProbedStream() = default;

Result<ProbedStream> ProbedStream::Open(ByteStream& stream, const std::string& name, bool zeros) {
  ProbedStream probed(stream);
  auto start = Start(*probed.bytes_);
  if (!start) return PassOn(std::move(start));
  probed.empty_ = start->empty();
  probed.compression_ = CompressionOf(*start);
  if (auto rewound = probed.Rewind(); !rewound) return PassOn(std::move(rewound));
  if (probed.compression_ != Compression::kNone)
    probed.LookInside(name, zeros);
  else
    probed.format_ = FormatOf(*start, zeros);
  if (probed.format_ == ArchiveFormat::kNone)
    if (auto rewound = probed.Rewind(); !rewound) return PassOn(std::move(rewound));
  if (probed.rewindable_) probed.rewindable_->Release();
  if (probed.format_ == ArchiveFormat::kNone) return probed;
  ByteStream& from = probed.content_ ? static_cast<ByteStream&>(*probed.content_) : *probed.bytes_;
  auto archive = ArchiveReader::Open(from, probed.format_, name);
  if (!archive) return PassOn(std::move(archive));
  probed.archive_ = std::move(*archive);
  return probed;
}

// Whether what is compressed is an archive. What cannot be decompressed is none.
void ProbedStream::LookInside(const std::string& name, bool zeros) {
  if (compression_ == Compression::kGzip) {
    decompressed_ = std::make_unique<GzipStream>(*bytes_, name);
  } else {
    auto reader = ArchiveReader::OpenCompressed(*bytes_, compression_, name);
    if (!reader) {
      fault_ = std::move(reader.error());
      return;
    }
    decompressed_ = std::make_unique<Decompressed>(std::move(*reader));
  }
  content_ = std::make_unique<RewindStream>(*decompressed_, kProbeBytes);
  auto start = Start(*content_);
  if (!start) {
    fault_ = std::move(start.error());
  } else {
    format_ = FormatOf(*start, zeros);
    content_->Rewind();
    content_->Release();
  }
  if (format_ != ArchiveFormat::kNone) return;
  content_.reset();
  decompressed_.reset();
}

Result<void> ProbedStream::Rewind() {
  if (!rewindable_) return bytes_->Seek(0);
  rewindable_->Rewind();
  return {};
}

Result<Bytes> ProbedStream::Start(ByteStream& stream) {
  Bytes start(kProbeBytes);
  auto got = stream.Read(start);
  if (!got) return PassOn(std::move(got));
  start.resize(*got);
  return start;
}

ArchiveFormat ProbedStream::FormatOf(ByteSpan start, bool zeros) {
  const bool blank =
      start.size() == kProbeBytes && std::all_of(start.begin(), start.end(), [](auto b) { return b == 0; });
  return zeros && blank ? ArchiveFormat::kTar : ArchiveFormatOf(start);
}

}  // namespace pcrfs
