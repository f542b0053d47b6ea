// Reading and writing files: positioned reads that are complete or an error, and writes that are whole or not there.
//
// ByteSource is what every decoder and the read path read from, so that tests put memory, delays and faults in a
// file's place and a remote object can follow. AtomicFile is how every file of a data set comes to be.
#ifndef PCRFS_FORMAT_FILE_H_
#define PCRFS_FORMAT_FILE_H_

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "format/bytes.h"
#include "format/error.h"

namespace pcrfs {

// A file descriptor that is closed when its owner goes.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

// An unchanging run of bytes with random access. All methods may be called from many threads at once.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // What the source is called in messages: a path, a URL.
  [[nodiscard]] virtual const std::string& name() const = 0;
  // Bytes, as of opening.
  [[nodiscard]] virtual uint64_t size() const = 0;
  // Fills all of `out` from `offset`, or fails: kIo when reading failed, kStale when the source has shrunk. A request
  // beyond size() is kInvalidArgument: callers check lengths before they ask.
  [[nodiscard]] virtual Result<void> ReadAt(uint64_t offset, MutableByteSpan out) const = 0;
  // As ReadAt, into several buffers one after the other; by one request where the source can.
  [[nodiscard]] virtual Result<void> ReadParts(uint64_t offset, std::span<const MutableByteSpan> parts) const;
  // As ReadParts where that need not wait for a device or a network, as for bytes in the page cache; false when it
  // would have to, or fails: ReadParts tells. What the buffers then hold is worth nothing.
  [[nodiscard]] virtual bool ReadPartsAtHand(uint64_t offset, std::span<const MutableByteSpan> parts) const;
  // Advice that [offset, offset + size) will be read soon; may block for as long as the device takes requests.
  virtual void WillNeed(uint64_t /*offset*/, uint64_t /*size*/) const {}
  // Lets go of what is cached of [offset, offset + size) on this side, so that the next read asks where the bytes are
  // kept. As far as that can be had.
  virtual void Refresh(uint64_t /*offset*/, uint64_t /*size*/) const {}
};

// A regular file on a mounted file system, read by pread(2). Kept open, so it can be unlinked meanwhile.
class FileSource final : public ByteSource {
 public:
  enum class Access {
    kSequential,  // read from front to back
    kRandom,      // POSIX_FADV_RANDOM: no readahead of the device's choosing
  };
  // Refuses all but regular files (kInvalidArgument; a FIFO is never waited for).
  [[nodiscard]] static Result<std::unique_ptr<FileSource>> Open(const std::string& path, Access access);
  // The same with `path` relative to an open folder: the whole path may then be longer than the system's limit.
  [[nodiscard]] static Result<std::unique_ptr<FileSource>> OpenAt(int folder, const std::string& path, Access access);

  [[nodiscard]] const std::string& name() const override { return path_; }
  [[nodiscard]] uint64_t size() const override { return size_; }
  [[nodiscard]] Result<void> ReadAt(uint64_t offset, MutableByteSpan out) const override;
  [[nodiscard]] Result<void> ReadParts(uint64_t offset, std::span<const MutableByteSpan> parts) const override;
  [[nodiscard]] bool ReadPartsAtHand(uint64_t offset, std::span<const MutableByteSpan> parts) const override;
  void WillNeed(uint64_t offset, uint64_t size) const override;
  void Refresh(uint64_t offset, uint64_t size) const override;

  [[nodiscard]] int fd() const { return fd_.get(); }
  // As fstat(2) gave it at opening.
  [[nodiscard]] const struct stat& status() const { return status_; }

 private:
  FileSource(std::string path, UniqueFd fd, const struct stat& status);

  std::string path_;
  UniqueFd fd_;
  struct stat status_;
  uint64_t size_;
  mutable std::atomic<bool> tells_at_hand_{true};  // the file system can be asked for what is cached alone
};

// Bytes in memory, for tests, fuzz targets and small files.
class MemorySource final : public ByteSource {
 public:
  MemorySource(std::string name, Bytes bytes) : name_(std::move(name)), bytes_(std::move(bytes)) {}
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] uint64_t size() const override { return bytes_.size(); }
  [[nodiscard]] Result<void> ReadAt(uint64_t offset, MutableByteSpan out) const override;

 private:
  std::string name_;
  Bytes bytes_;
};

// The whole of a file of at most `limit` bytes (kLimit when it is larger).
[[nodiscard]] Result<Bytes> ReadWholeFile(const std::string& path, uint64_t limit);

// A file that appears under its name whole and durable, or not at all: written to `path` + ".tmp", fsynced, renamed,
// and its directory fsynced. Dropped without Commit, the temporary file is removed. One thread at a time.
class AtomicFile {
 public:
  [[nodiscard]] static Result<AtomicFile> Create(const std::string& path);
  ~AtomicFile();
  AtomicFile(AtomicFile&&) noexcept = default;
  AtomicFile& operator=(AtomicFile&&) = delete;

  [[nodiscard]] Result<void> Write(ByteSpan bytes);                     // at the end
  [[nodiscard]] Result<void> WriteAt(uint64_t offset, ByteSpan bytes);  // over what is there already
  [[nodiscard]] Result<void> Truncate(uint64_t size);                   // drops what was written from there on
  [[nodiscard]] uint64_t size() const { return size_; }
  // For reading back what was written; stays valid until Commit.
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] Result<void> Commit();

 private:
  AtomicFile(std::string path, UniqueFd fd);

  std::string path_;
  UniqueFd fd_;
  uint64_t size_ = 0;
};

// A temporary file without a name, for reading and writing, in the folder of `path`.
[[nodiscard]] Result<UniqueFd> MakeNamelessFile(const std::string& path);

// fsync of a directory, so that renames in it survive a power cut.
[[nodiscard]] Result<void> SyncDirectory(const std::string& path);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_FILE_H_
