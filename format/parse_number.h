// Decimal and other numbers in text, taken whole or not at all. Pure.
#ifndef PCRFS_FORMAT_PARSE_NUMBER_H_
#define PCRFS_FORMAT_PARSE_NUMBER_H_

#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

namespace pcrfs {

// `text` as a number of that base within the bounds; nothing when it is anything else: empty, with a plus sign, blanks
// or a unit, too large.
template <typename Number>
[[nodiscard]] std::optional<Number> ParseNumber(std::string_view text,
                                                Number smallest = std::numeric_limits<Number>::min(),
                                                Number largest = std::numeric_limits<Number>::max(), int base = 10) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (number < smallest || number > largest) return std::nullopt;
  return number;
}

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_PARSE_NUMBER_H_
