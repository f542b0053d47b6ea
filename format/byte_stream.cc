#include "format/byte_stream.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace pcrfs {

Result<void> ByteStream::Seek(uint64_t /*offset*/) {
  return Fail(ErrorCode::kUnsupported, "a stream can only be read from front to back");
}

FdStream::FdStream(int fd, std::string name, Access access) : fd_(fd), name_(std::move(name)) {
  struct stat status;
  if (access == Access::kAnywhere && fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
    size_ = static_cast<uint64_t>(status.st_size);
}

Result<size_t> FdStream::Read(MutableByteSpan out) {
  if (size_) out = out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), *size_ - offset_)));
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = size_ ? pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(offset_ + done))
                              : read(fd_, out.data() + done, out.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemFail("reading " + Quoted(name_) + " at offset " + std::to_string(offset_ + done), errno);
    if (got == 0 && size_) return Fail(ErrorCode::kStale, Quoted(name_) + " has shrunk while it was read");
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  offset_ += done;
  return done;
}

Result<void> FdStream::Seek(uint64_t offset) {
  if (!size_ || offset > *size_) return ByteStream::Seek(offset);
  offset_ = offset;
  return {};
}

Result<size_t> RewindStream::Read(MutableByteSpan out) {
  const size_t from_kept = std::min(out.size(), kept_.size() - position_);
  std::copy_n(kept_.begin() + static_cast<std::ptrdiff_t>(position_), from_kept, out.begin());
  position_ += from_kept;
  out = out.subspan(from_kept);
  if (keeping_) out = out.first(std::min(out.size(), most_ - kept_.size()));
  if (!keeping_ && position_ == kept_.size()) Bytes().swap(kept_), position_ = 0;
  if (out.empty()) return from_kept;
  auto got = stream_.Read(out);
  if (!got) return got;
  if (keeping_) {
    kept_.insert(kept_.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(*got));
    position_ = kept_.size();
  }
  return from_kept + *got;
}

}  // namespace pcrfs
