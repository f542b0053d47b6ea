#include "format/pack_options.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "format/pack_plan.h"
#include "format/parse_number.h"
#include "format/shard_index.h"

namespace pcrfs {
namespace {

template <typename Value>
bool Take(std::optional<Value> parsed, Value& value) {
  if (parsed) value = *parsed;
  return parsed.has_value();
}

std::string Escaped(std::string_view value) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (const char c : value) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte >= 0x20 && byte != 0x7F && c != '%')
      text += c;
    else
      text.append({'%', kHex[byte >> 4], kHex[byte & 15]});
  }
  return text;
}

std::optional<std::string> Unescaped(std::string_view text) {
  std::string value;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      value += text[i];
      continue;
    }
    const auto byte = text.size() - i < 3 ? std::nullopt : ParseNumber<uint8_t>(text.substr(i + 1, 2), 0, 255, 16);
    if (!byte) return std::nullopt;
    value += static_cast<char>(*byte);
    i += 2;
  }
  return value;
}

// False when the option or its value is not known. Of `exclude` there may be many, gathered in `globs`.
bool TakeOption(std::string_view name, std::string_view value, PackOptions& options, std::vector<std::string>& globs) {
  if (name == "exclude") {
    auto glob = Unescaped(value);
    if (glob) globs.push_back(*std::move(glob));
    return glob.has_value();
  }
  if (name == "order" && value == "archive") return options.order.archive = true;
  if (name == "order") return Take(ParsePackOrder(value), options.order);
  if (name == "record-images") return Take(ParseNumber<uint32_t>(value), options.record_images);
  if (name == "record-bytes") return Take(ParseNumber<uint64_t>(value), options.record_bytes);
  if (value != "1") return false;
  if (name == "nested") return options.nested = true;
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
  if (PackOptionsText(options).size() > kMaxPlanTextBytes)
    return Fail(ErrorCode::kInvalidArgument, "the globs of what to exclude are longer than 4,000 bytes altogether");
  return {};
}

std::string PackOrderText(const PackOrder& order) {
  if (order.shuffle) return "shuffle:" + std::to_string(order.seed);
  return order.archive ? "archive" : "path";
}

std::string PackOptionsText(const PackOptions& options) {
  std::string excludes;
  for (const std::string& glob : options.exclude.globs()) excludes += "exclude=" + Escaped(glob) + "\n";
  return (options.encode.exact ? "exact=1\n" : "") + excludes + (options.nested ? "nested=1\n" : "") +
         ("order=" + PackOrderText(options.order)) + "\nrecord-bytes=" + std::to_string(options.record_bytes) +
         "\nrecord-images=" + std::to_string(options.record_images) + "\n" +
         (options.encode.rescan ? "rescan=1\n" : "");
}

Result<PackOptions> ParsePackOptions(std::string_view text) {
  PackOptions options;
  std::vector<std::string> globs;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos ||
        !TakeOption(line.substr(0, equals), line.substr(equals + 1), options, globs))
      return Fail(ErrorCode::kUnsupported, "this release does not know the pack option " + Quoted(std::string(line)));
  }
  auto exclude = ExcludeList::Of(std::move(globs));
  if (!exclude) return PassOn(std::move(exclude));
  options.exclude = *std::move(exclude);
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
