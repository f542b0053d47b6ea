// Which tree of a data set a path lies in: that of a level, or `original`, which shows the sources' own bytes.
//
// A type of its own, so that `original` is never taken for a level, nor its number 0 for one. A plain value.
#ifndef PCRFS_FS_TREE_H_
#define PCRFS_FS_TREE_H_

#include <compare>
#include <cstdint>
#include <optional>

#include "format/entry.h"
#include "format/level.h"

namespace pcrfs {

class Tree {
 public:
  // Each level is a tree.
  constexpr Tree(Level level) : number_(static_cast<uint8_t>(level.number())) {}  // NOLINT(google-explicit-constructor)
  static constexpr Tree Original() { return Tree(); }

  // As in inode numbers: 0 = original, 1..31 = that level; nothing for others.
  static constexpr std::optional<Tree> FromNumber(int64_t number) {
    if (number == 0) return Original();
    const auto level = Level::FromNumber(number);
    return level ? std::optional<Tree>(*level) : std::nullopt;
  }
  [[nodiscard]] constexpr int number() const { return number_; }

  [[nodiscard]] constexpr bool is_original() const { return number_ == 0; }
  // The level whose stored bytes it shows; `original` shows those of the highest, or what is restored from them.
  [[nodiscard]] constexpr Level LevelOr(Level highest) const { return Level::FromNumber(number_).value_or(highest); }

  friend constexpr bool operator==(Tree, Tree) = default;

 private:
  constexpr Tree() = default;
  uint8_t number_ = 0;
};

// Whether a data set of so many levels has that tree. All have `original` that pcrfs packed, and there are no others
// yet; a published one, which holds no restore records and no sources' checksums, will have none.
[[nodiscard]] constexpr bool HasTree(int levels, Tree tree) { return tree.number() <= levels; }

// Bytes of the file that `tree` shows for an entry.
[[nodiscard]] inline uint64_t SizeInTree(const EntryLayout& layout, uint64_t source_size, Tree tree, Level highest) {
  if (tree.is_original()) return OriginalSize(layout, source_size, highest);
  return SizeAtLevel(layout, tree.LevelOr(highest), highest.number());
}

}  // namespace pcrfs

#endif  // PCRFS_FS_TREE_H_
