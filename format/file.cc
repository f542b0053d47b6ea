#include "format/file.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

namespace pcrfs {
namespace {

constexpr std::string_view kTemporarySuffix = ".tmp";

// One call of POSIX_FADV_WILLNEED reads no more than the device's own readahead, 128 KiB on most; smaller steps all
// arrive.
constexpr uint64_t kWillNeedStep = 128 << 10;

constexpr size_t kMaxParts = 4;

// At most kMaxParts buffers as the system calls want them.
struct PartVector {
  explicit PartVector(std::span<const MutableByteSpan> parts) {
    for (const MutableByteSpan part : parts) {
      vector[static_cast<size_t>(count++)] = {part.data(), part.size()};
      bytes += part.size();
    }
  }
  [[nodiscard]] const iovec* data() const { return vector.data(); }

  std::array<iovec, kMaxParts> vector;
  int count = 0;
  size_t bytes = 0;
};

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool IsNamed(int fd, const std::string& path) {
  struct stat opened, named;
  return fstat(fd, &opened) == 0 && stat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

std::string At(std::string_view what, const std::string& path, uint64_t offset) {
  return std::string(what) + " " + Quoted(path) + " at offset " + std::to_string(offset);
}

Result<void> PwriteAll(int fd, const std::string& path, uint64_t offset, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemFail(At("writing", path, offset), errno);
    if (written == 0) return Fail(ErrorCode::kIo, At("writing", path, offset) + ": the system wrote nothing");
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return {};
}

Result<void> Sync(int fd, const std::string& path) {
  while (fsync(fd) != 0) {
    if (errno == EINVAL) break;  // of a directory, on file systems without a notion of it
    if (errno != EINTR) return SystemFail("syncing " + Quoted(path), errno);
  }
  return {};
}

Result<void> CheckWithinSource(const ByteSource& source, uint64_t offset, size_t size) {
  if (offset <= source.size() && size <= source.size() - offset) return {};
  return Fail(ErrorCode::kInvalidArgument, At("reading", source.name(), offset) + ": " + std::to_string(size) +
                                               " bytes asked for, but the source ends at " +
                                               std::to_string(source.size()));
}

}  // namespace

void UniqueFd::reset() {
  // Not repeated on EINTR: Linux has closed the descriptor by then, and its number may be someone else's.
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

FileSource::FileSource(std::string path, UniqueFd fd, const struct stat& status)
    : path_(std::move(path)), fd_(std::move(fd)), status_(status), size_(static_cast<uint64_t>(status.st_size)) {}

Result<std::unique_ptr<FileSource>> FileSource::Open(const std::string& path, Access access) {
  return OpenAt(AT_FDCWD, path, access);
}

namespace {

// Another process (a file server, mostly) has a lease on the file: the kernel asks for it back, and whoever does not
// insist on an answer at once gets the file when it was given back or has run out.
UniqueFd OpenLeased(int folder, const std::string& path) {
  const UniqueFd named(openat(folder, path.c_str(), O_PATH | O_CLOEXEC));
  struct stat status;
  if (!named.valid() || fstat(named.get(), &status) != 0) return {};
  if (!S_ISREG(status.st_mode)) {
    errno = EWOULDBLOCK;
    return {};
  }
  return UniqueFd(open(("/proc/self/fd/" + std::to_string(named.get())).c_str(), O_RDONLY | O_CLOEXEC));
}

}  // namespace

Result<std::unique_ptr<FileSource>> FileSource::OpenAt(int folder, const std::string& path, Access access) {
  // O_NONBLOCK so that a FIFO without a writer is opened, seen and refused instead of waited for.
  UniqueFd fd(openat(folder, path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid() && errno == EWOULDBLOCK) fd = OpenLeased(folder, path);
  if (!fd.valid()) return SystemFail("opening " + Quoted(path), errno);
  struct stat status;
  if (fstat(fd.get(), &status) != 0) return SystemFail("looking at " + Quoted(path), errno);
  if (S_ISDIR(status.st_mode)) return Fail(ErrorCode::kIsDirectory, Quoted(path) + " is a directory, not a file");
  if (!S_ISREG(status.st_mode)) return Fail(ErrorCode::kInvalidArgument, Quoted(path) + " is not a regular file");
  // Advice only: a file system that refuses it still reads.
  posix_fadvise(fd.get(), 0, 0, access == Access::kRandom ? POSIX_FADV_RANDOM : POSIX_FADV_SEQUENTIAL);
  return std::unique_ptr<FileSource>(new FileSource(path, std::move(fd), status));
}

Result<void> FileSource::ReadAt(uint64_t offset, MutableByteSpan out) const {
  if (auto within = CheckWithinSource(*this, offset, out.size()); !within) return within;
  while (!out.empty()) {
    const ssize_t got = pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemFail(At("reading", path_, offset), errno);
    if (got == 0) {
      return Fail(ErrorCode::kStale, At("reading", path_, offset) + ": the file ends there now, it had " +
                                         std::to_string(size_) + " bytes when it was opened");
    }
    out = out.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return {};
}

Result<void> ByteSource::ReadParts(uint64_t offset, std::span<const MutableByteSpan> parts) const {
  for (const MutableByteSpan part : parts) {
    if (auto read = ReadAt(offset, part); !read) return read;
    offset += part.size();
  }
  return {};
}

bool ByteSource::ReadPartsAtHand(uint64_t, std::span<const MutableByteSpan>) const { return false; }

Result<void> FileSource::ReadParts(uint64_t offset, std::span<const MutableByteSpan> parts) const {
  if (parts.size() > kMaxParts) return ByteSource::ReadParts(offset, parts);
  const PartVector vector(parts);
  if (auto within = CheckWithinSource(*this, offset, vector.bytes); !within) return within;
  const ssize_t got = preadv(fd_.get(), vector.data(), vector.count, static_cast<off_t>(offset));
  if (got == static_cast<ssize_t>(vector.bytes)) return {};
  return ByteSource::ReadParts(offset, parts);  // interrupted, failed or short, all of them rare: ReadAt tells which
}

bool FileSource::ReadPartsAtHand(uint64_t offset, std::span<const MutableByteSpan> parts) const {
  if (parts.size() > kMaxParts || !tells_at_hand_.load(std::memory_order_relaxed)) return false;
  const PartVector vector(parts);
  if (!CheckWithinSource(*this, offset, vector.bytes)) return false;
  const ssize_t got = preadv2(fd_.get(), vector.data(), vector.count, static_cast<off_t>(offset), RWF_NOWAIT);
  if (got < 0 && errno == EOPNOTSUPP) tells_at_hand_.store(false, std::memory_order_relaxed);
  return got == static_cast<ssize_t>(vector.bytes);
}

void FileSource::WillNeed(uint64_t offset, uint64_t size) const {
  if (offset >= size_) return;
  const uint64_t end = offset + std::min(size, size_ - offset);
  for (; offset < end; offset += std::min(kWillNeedStep, end - offset)) {
    const uint64_t step = std::min(kWillNeedStep, end - offset);
    posix_fadvise(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(step), POSIX_FADV_WILLNEED);
  }
}

void FileSource::Refresh(uint64_t offset, uint64_t size) const {
  // Only whole pages are dropped.
  static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t begin = offset / page * page, end = (offset + size + page - 1) / page * page;
  posix_fadvise(fd_.get(), static_cast<off_t>(begin), static_cast<off_t>(end - begin), POSIX_FADV_DONTNEED);
}

Result<void> MemorySource::ReadAt(uint64_t offset, MutableByteSpan out) const {
  if (auto within = CheckWithinSource(*this, offset, out.size()); !within) return within;
  std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
  return {};
}

Result<Bytes> ReadWholeFile(const std::string& path, uint64_t limit) {
  auto file = FileSource::Open(path, FileSource::Access::kSequential);
  if (!file) return PassOn(std::move(file));
  const uint64_t size = (*file)->size();
  if (size > limit) {
    return Fail(ErrorCode::kLimit, Quoted(path) + " has " + std::to_string(size) + " bytes, more than the limit of " +
                                       std::to_string(limit));
  }
  Bytes bytes(static_cast<size_t>(size));
  if (auto read = (*file)->ReadAt(0, bytes); !read) return PassOn(std::move(read));
  return bytes;
}

AtomicFile::AtomicFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

AtomicFile::~AtomicFile() {
  if (fd_.valid()) unlink((path_ + std::string(kTemporarySuffix)).c_str());
}

Result<AtomicFile> AtomicFile::Create(const std::string& path) {
  const std::string temporary = path + std::string(kTemporarySuffix);
  // What a killed writer left behind goes first, so that O_EXCL can refuse to write through a link of someone else's.
  if (unlink(temporary.c_str()) != 0 && errno != ENOENT) return SystemFail("removing " + Quoted(temporary), errno);
  UniqueFd fd(open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd.valid()) return SystemFail("creating " + Quoted(temporary), errno);
  return AtomicFile(path, std::move(fd));
}

Result<void> AtomicFile::Write(ByteSpan bytes) {
  if (auto written = PwriteAll(fd_.get(), path_, size_, bytes); !written) return written;
  size_ += bytes.size();
  return {};
}

Result<void> AtomicFile::WriteAt(uint64_t offset, ByteSpan bytes) {
  if (offset > size_ || bytes.size() > size_ - offset) {
    return Fail(ErrorCode::kInvalidArgument, At("writing", path_, offset) + ": " + std::to_string(bytes.size()) +
                                                 " bytes would reach past the end at " + std::to_string(size_));
  }
  return PwriteAll(fd_.get(), path_, offset, bytes);
}

Result<void> AtomicFile::Truncate(uint64_t size) {
  if (size > size_) return Fail(ErrorCode::kInvalidArgument, At("truncating", path_, size) + ": that is past the end");
  while (ftruncate(fd_.get(), static_cast<off_t>(size)) != 0)
    if (errno != EINTR) return SystemFail(At("truncating", path_, size), errno);
  size_ = size;
  return {};
}

Result<void> AtomicFile::Commit() {
  if (auto synced = Sync(fd_.get(), path_); !synced) return synced;
  const std::string temporary = path_ + std::string(kTemporarySuffix);
  if (!IsNamed(fd_.get(), temporary)) {
    fd_.reset();  // what is there now is not ours to remove
    return Fail(ErrorCode::kBusy, Quoted(temporary) + " was removed or replaced while it was written");
  }
  if (rename(temporary.c_str(), path_.c_str()) != 0) {
    return SystemFail("renaming " + Quoted(temporary) + " to " + Quoted(path_), errno);
  }
  fd_.reset();
  return SyncDirectory(DirectoryOf(path_));
}

Result<void> SyncDirectory(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return SystemFail("opening " + Quoted(path), errno);
  return Sync(fd.get(), path);
}

Result<UniqueFd> MakeNamelessFile(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  UniqueFd file(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.valid()) return file;
  const std::string name = path + ".sort.tmp";  // for file systems that cannot do that
  unlink(name.c_str());
  file = UniqueFd(open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) return SystemFail("making the temporary file " + Quoted(name), errno);
  unlink(name.c_str());
  return file;
}

}  // namespace pcrfs
