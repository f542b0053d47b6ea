// Inode numbers: node * 32 + level, the same on every mount of a data set, on every machine, for ever.
//
// Level 0 is the `original` tree, 1..31 are the levels. Node 0 is the mount itself: 1 = its root (FUSE_ROOT_ID),
// 31 = the symlink `current`. Node 1 is the data set's root, shown as scanK at 32 + K. Every other node is an entry
// or a directory of the data set, numbered by the catalog in storage order.
#ifndef PCRFS_FS_INO_H_
#define PCRFS_FS_INO_H_

#include <compare>
#include <cstdint>

namespace pcrfs {

using Node = uint64_t;  // 1 = the data set's root

class Ino {
 public:
  static constexpr uint64_t kLevels = 32;
  static constexpr Node kMaxNode = (uint64_t{1} << 58) - 1;

  constexpr Ino() = default;
  constexpr explicit Ino(uint64_t number) : number_(number) {}
  constexpr Ino(Node node, int level) : number_(node * kLevels + static_cast<uint64_t>(level)) {}

  [[nodiscard]] constexpr uint64_t number() const { return number_; }
  [[nodiscard]] constexpr Node node() const { return number_ / kLevels; }
  // 0 = original, else the number of a Level.
  [[nodiscard]] constexpr int level() const { return static_cast<int>(number_ % kLevels); }

  friend constexpr auto operator<=>(Ino, Ino) = default;

 private:
  uint64_t number_ = 0;
};

inline constexpr Ino kMountRoot{1};
inline constexpr Ino kCurrentLink{31};

static_assert(Ino(1, 3).number() == 35 && Ino(35).node() == 1 && Ino(35).level() == 3);

}  // namespace pcrfs

#endif  // PCRFS_FS_INO_H_
