#include "format/pack_options.h"

#include <algorithm>

#include "format/parse_number.h"
#include "format/shard_index.h"

namespace pcrfs {
namespace {

template <typename Value>
bool Take(std::optional<Value> parsed, Value& value) {
  if (parsed) value = *parsed;
  return parsed.has_value();
}

// False when the option or its value is not known.
bool TakeOption(std::string_view name, std::string_view value, PackOptions& options) {
  if (name == "order") return Take(ParsePackOrder(value), options.order);
  if (name == "record-images") return Take(ParseNumber<uint32_t>(value), options.record_images);
  if (name == "record-bytes") return Take(ParseNumber<uint64_t>(value), options.record_bytes);
  if (value != "1") return false;
  if (name == "exact") return options.encode.exact = true;
  if (name == "rescan") return options.encode.rescan = true;
  return false;
}

}  // namespace

Result<void> CheckPackOptions(const PackOptions& options) {
  if (options.record_images < 1 || options.record_images > kMaxShardEntries)
    return Fail(ErrorCode::kInvalidArgument,
                "a shard holds 1 to 65,536 items, not " + std::to_string(options.record_images));
  if (options.record_bytes < 1 || options.record_bytes > kMaxRecordBytes)
    return Fail(ErrorCode::kInvalidArgument,
                "a shard closes after 1 byte to 1 GiB of source, not " + std::to_string(options.record_bytes));
  return {};
}

std::string PackOptionsText(const PackOptions& options) {
  const std::string order = options.order.shuffle ? "shuffle:" + std::to_string(options.order.seed) : "path";
  return (options.encode.exact ? "exact=1\n" : "") + ("order=" + order) +
         "\nrecord-bytes=" + std::to_string(options.record_bytes) +
         "\nrecord-images=" + std::to_string(options.record_images) + "\n" +
         (options.encode.rescan ? "rescan=1\n" : "");
}

Result<PackOptions> ParsePackOptions(std::string_view text) {
  PackOptions options;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos || !TakeOption(line.substr(0, equals), line.substr(equals + 1), options))
      return Fail(ErrorCode::kUnsupported, "this release does not know the pack option " + Quoted(std::string(line)));
  }
  if (auto checked = CheckPackOptions(options); !checked) return PassOn(std::move(checked));
  return options;
}

std::optional<PackOrder> ParsePackOrder(std::string_view text) {
  constexpr std::string_view kShuffle = "shuffle:";
  if (text == "path") return PackOrder{};
  if (text == "shuffle") return PackOrder{true, 0};
  if (!text.starts_with(kShuffle)) return std::nullopt;
  const auto seed = ParseNumber<uint64_t>(text.substr(kShuffle.size()));
  return seed ? std::optional(PackOrder{true, *seed}) : std::nullopt;
}

}  // namespace pcrfs
