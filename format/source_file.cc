#include "format/source_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "format/jpeg_parser.h"
#include "format/source_tree.h"

namespace pcrfs {

Result<std::unique_ptr<SourceFile>> SourceFile::Open(int source, const std::string& path) {
  auto file = FileSource::OpenAt(source, path, FileSource::Access::kSequential);
  if (!file) return PassOn(std::move(file));
  if ((*file)->size() > kMaxSourceBytes)
    return Fail(ErrorCode::kLimit, Quoted(path) + " is larger than the format holds, 4 TiB");
  return std::unique_ptr<SourceFile>(new SourceFile(std::move(*file)));
}

Result<void> SourceFile::ReadAt(uint64_t offset, MutableByteSpan out) const {
  if (auto read = file_->ReadAt(offset, out); !read) return read;
  if (offset + out.size() < size()) return {};
  const struct stat& before = file_->status();
  struct stat after;
  if (fstat(file_->fd(), &after) != 0) return SystemFail("looking at " + Quoted(name()), errno);
  const bool same = after.st_size == before.st_size && after.st_mtim.tv_sec == before.st_mtim.tv_sec &&
                    after.st_mtim.tv_nsec == before.st_mtim.tv_nsec;
  if (!same) return Fail(ErrorCode::kStale, Quoted(name()) + " was changed while it was read");
  return CheckEnd();
}

// A file of /proc has a size of 0 whatever it holds, and tells only when it is read whether it can be.
Result<void> SourceFile::CheckEnd() const {
  uint8_t byte = 0;
  ssize_t got = -1;
  do got = pread(file_->fd(), &byte, 1, static_cast<off_t>(size()));
  while (got < 0 && errno == EINTR);
  if (got < 0) return SystemFail("reading " + Quoted(name()) + " at its end", errno);
  if (got == 0) return {};
  return Fail(ErrorCode::kStale, Quoted(name()) + " holds more than its size says, " + std::to_string(size()) +
                                     " bytes: it grew while it was read, or is no ordinary file");
}

Attributes SourceFile::attributes() const { return AttributesOf(file_->status()); }

Result<Bytes> SourceFile::ReadWhole() const {
  Bytes bytes(static_cast<size_t>(size()));
  if (auto read = ReadAt(0, bytes); !read) return PassOn(std::move(read));
  return bytes;
}

Result<bool> SourceFile::StartsLikeJpeg() const { return StartsWithSoi(*file_, 0, size()); }

}  // namespace pcrfs
