// A level of fidelity: how many leading scan groups of a data set are shown. `scanK` is the directory of level K.
//
// A type of its own, so that a level, a group number and a count cannot be mixed up. Always in 1..31: our own shards
// have levels 1..10, published ones as many as their records have groups, and 31 shows all the rest.
#ifndef PCRFS_FORMAT_LEVEL_H_
#define PCRFS_FORMAT_LEVEL_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace pcrfs {

class Level {
 public:
  static constexpr int kMaximum = 31;

  // The level of that number, or nothing when it is outside 1..31.
  static constexpr std::optional<Level> FromNumber(int64_t number) {
    if (number < 1 || number > kMaximum) return std::nullopt;
    return Level(static_cast<uint8_t>(number));
  }
  // For numbers known when compiling: Level::Of<5>().
  template <int kNumber>
  static constexpr Level Of() {
    static_assert(kNumber >= 1 && kNumber <= kMaximum);
    return Level(kNumber);
  }

  [[nodiscard]] constexpr int number() const { return number_; }
  // Position in an array with one item a level.
  [[nodiscard]] constexpr size_t index() const { return static_cast<size_t>(number_ - 1); }

  friend constexpr auto operator<=>(Level, Level) = default;

 private:
  constexpr explicit Level(uint8_t number) : number_(number) {}
  uint8_t number_;
};

// How many scan groups, and so levels, each shard that pcrfs writes has (format/FORMAT.md).
inline constexpr int kShardLevels = 10;

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_LEVEL_H_
