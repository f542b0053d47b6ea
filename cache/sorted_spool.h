// Records that come in any order and leave sorted by key, in memory as far as they fit and else in a temporary file.
//
// For the catalog's tables whose keys do not ascend as shards are read: put into LMDB one by one they would leave pages
// half full and cost several times as long. Memory: 32 MiB, and 256 KiB for each 32 MiB of records while draining.
//
// Ownership: the temporary file has no name and goes with the object. One thread. Errors: kNoSpace, kIo; kDamaged when
// the file does not read back as written.
#ifndef PCRFS_CACHE_SORTED_SPOOL_H_
#define PCRFS_CACHE_SORTED_SPOOL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "format/bytes.h"
#include "format/error.h"
#include "format/file.h"

namespace pcrfs {

class SortedSpool {
 public:
  // `path` is where the temporary file may be made (and at once unlinked). `memory` is for tests.
  explicit SortedSpool(std::string path, size_t memory = size_t{32} << 20) : path_(std::move(path)), memory_(memory) {}

  [[nodiscard]] Result<void> Add(ByteSpan key, ByteSpan value);
  // All records, ascending by key and those of equal keys in the order they came in, each with its value. Once.
  [[nodiscard]] Result<void> Drain(const std::function<Result<void>(ByteSpan key, ByteSpan value)>& visit);

 private:
  struct Record {
    size_t offset;  // in buffer_
    uint32_t key_size, value_size;
  };
  struct Run {
    uint64_t begin, end;  // in the file
  };
  class RunReader;

  [[nodiscard]] ByteSpan Key(const Record& r) const { return ByteSpan(buffer_).subspan(r.offset, r.key_size); }
  [[nodiscard]] ByteSpan Value(const Record& r) const {
    return ByteSpan(buffer_).subspan(r.offset + r.key_size, r.value_size);
  }
  void SortBuffer();
  Result<void> WriteRun();
  Result<void> Merge(const std::function<Result<void>(ByteSpan key, ByteSpan value)>& visit);

  std::string path_;
  size_t memory_;
  Bytes buffer_;  // keys and values, one after the other
  std::vector<Record> records_;
  std::vector<Run> runs_;
  UniqueFd file_;
};

}  // namespace pcrfs

#endif  // PCRFS_CACHE_SORTED_SPOOL_H_
