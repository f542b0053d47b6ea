// What is known of each path that has come by, in memory as far as it fits and else in a temporary file: an archive may
// have more members than memory has room for, and they come in any order.
//
// Paths are told apart by the first 16 bytes of their SHA-256. Memory: 32 MiB or what the constructor says. The
// temporary file has no name and goes with the object. One thread. Errors: kNoSpace, kIo.
#ifndef PCRFS_FORMAT_PATH_TABLE_H_
#define PCRFS_FORMAT_PATH_TABLE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "format/bytes.h"
#include "format/entry.h"
#include "format/error.h"
#include "format/file.h"

namespace pcrfs {

struct PathFacts {
  enum class Kind : uint8_t { kUnknown, kFolder, kFile, kLink, kDropped };
  Kind kind = Kind::kUnknown;
  bool has_items = false;  // of a folder: something below it is packed
  Attributes attributes;
  uint64_t number = 0;   // of the member that it comes from, 0 = none
  uint64_t content = 0;  // of the member that has its bytes
  uint64_t size = 0;

  friend bool operator==(const PathFacts&, const PathFacts&) = default;
};

class PathTable {
 public:
  // `path` names what the table is for; the temporary file is made in its folder.
  explicit PathTable(std::string path, size_t memory = size_t{32} << 20);

  // kUnknown for a path that was never put in.
  [[nodiscard]] Result<PathFacts> Find(std::string_view path) const;
  // `facts` of a kind other than kUnknown, in place of what was there.
  [[nodiscard]] Result<void> Put(std::string_view path, const PathFacts& facts);

 private:
  using Key = std::string_view;  // 16 bytes

  Result<uint64_t> SlotOf(Key key, MutableByteSpan slot) const;
  Result<void> Grow();
  Result<void> ReadSlot(uint64_t slot, MutableByteSpan out) const;
  Result<void> WriteSlot(uint64_t slot, ByteSpan bytes);
  Result<void> MakeRoom(uint64_t slots);

  std::string path_;
  size_t memory_;
  Bytes in_memory_;  // all slots, or nothing
  UniqueFd file_;    // all slots, when they are not in memory
  uint64_t slots_ = 0;
  uint64_t used_ = 0;
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_PATH_TABLE_H_
