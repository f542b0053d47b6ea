#include "format/source_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "format/jpeg_parser.h"
#include "format/source_tree.h"

namespace pcrfs {
namespace {

class FileOfFolder final : public SourceFile {
 public:
  explicit FileOfFolder(std::unique_ptr<FileSource> file) : file_(std::move(file)) {}

  [[nodiscard]] const std::string& name() const override { return file_->name(); }
  [[nodiscard]] uint64_t size() const override { return file_->size(); }
  [[nodiscard]] Attributes attributes() const override { return AttributesOf(file_->status()); }

  [[nodiscard]] Result<void> ReadAt(uint64_t offset, MutableByteSpan out) const override {
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

 private:
  // A file of /proc has a size of 0 whatever it holds, and tells only when it is read whether it can be.
  [[nodiscard]] Result<void> CheckEnd() const {
    uint8_t byte = 0;
    ssize_t got = -1;
    do got = pread(file_->fd(), &byte, 1, static_cast<off_t>(size()));
    while (got < 0 && errno == EINTR);
    if (got < 0) return SystemFail("reading " + Quoted(name()) + " at its end", errno);
    if (got == 0) return {};
    return Fail(ErrorCode::kStale, Quoted(name()) + " holds more than its size says, " + std::to_string(size()) +
                                       " bytes: it grew while it was read, or is no ordinary file");
  }

  std::unique_ptr<FileSource> file_;
};

}  // namespace

Result<std::unique_ptr<SourceFile>> SourceFile::Open(int source, const std::string& path) {
  auto file = FileSource::OpenAt(source, path, FileSource::Access::kSequential);
  if (!file) return PassOn(std::move(file));
  if ((*file)->size() > kMaxSourceBytes)
    return Fail(ErrorCode::kLimit, Quoted(path) + " is larger than the format holds, 4 TiB");
  return std::make_unique<FileOfFolder>(std::move(*file));
}

Result<Bytes> SourceFile::ReadWhole() const {
  Bytes bytes(static_cast<size_t>(size()));
  if (auto read = ReadAt(0, bytes); !read) return PassOn(std::move(read));
  return bytes;
}

Result<bool> SourceFile::StartsLikeJpeg() const { return StartsWithSoi(*this, 0, size()); }

}  // namespace pcrfs
