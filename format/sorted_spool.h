// Records that come in any order and leave sorted by key, in memory as far as they fit and else in a temporary file.
//
// For lists that may be longer than memory: the paths of a source, the catalog's tables whose keys do not ascend as
// shards are read. Memory: 32 MiB or what the constructor says, and 256 KiB for each so many bytes of records while
// they are given out.
//
// Ownership: the temporary file has no name and goes with the object. One thread. Errors: kNoSpace, kIo; kDamaged when
// the file does not read back as written.
#ifndef PCRFS_FORMAT_SORTED_SPOOL_H_
#define PCRFS_FORMAT_SORTED_SPOOL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "format/bytes.h"
#include "format/error.h"
#include "format/file.h"

namespace pcrfs {

class SortedSpool {
 public:
  // `path` names what the records are for; the temporary file is made in its folder. `memory` is a number of bytes.
  explicit SortedSpool(std::string path, size_t memory = size_t{32} << 20);
  SortedSpool(SortedSpool&&) noexcept;
  SortedSpool& operator=(SortedSpool&&) noexcept;
  ~SortedSpool();

  [[nodiscard]] Result<void> Add(ByteSpan key, ByteSpan value);

  struct Record {
    ByteSpan key, value;
  };
  // The next record, ascending by key and those of equal keys in the order they came in; nothing after the last. What
  // it points to stays until the next call. From the first call on nothing may be added.
  [[nodiscard]] Result<std::optional<Record>> Next();
  // All records, each given to `visit`.
  [[nodiscard]] Result<void> Drain(const std::function<Result<void>(ByteSpan key, ByteSpan value)>& visit);

 private:
  struct Place {
    size_t offset;  // in buffer_
    uint32_t key_size, value_size;
  };
  struct Run {
    uint64_t begin, end;  // in the file
  };
  class RunReader;
  class Merger;

  [[nodiscard]] ByteSpan Key(const Place& r) const { return ByteSpan(buffer_).subspan(r.offset, r.key_size); }
  [[nodiscard]] ByteSpan Value(const Place& r) const {
    return ByteSpan(buffer_).subspan(r.offset + r.key_size, r.value_size);
  }
  void SortBuffer();
  Result<void> OpenFile();
  Result<void> WriteRun();
  Result<void> StartGivingOut();

  std::string path_;
  size_t memory_;
  Bytes buffer_;  // keys and values, one after the other
  std::vector<Place> places_;
  std::vector<Run> runs_;
  UniqueFd file_;
  bool giving_out_ = false;
  size_t next_place_ = 0;           // when all is in memory
  std::unique_ptr<Merger> merger_;  // when it is not
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_SORTED_SPOOL_H_
