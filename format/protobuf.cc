#include "format/protobuf.h"

#include <google/protobuf/message_lite.h>

#include <algorithm>
#include <climits>
#include <string>
#include <vector>

namespace pcrfs {
namespace {

constexpr uint64_t kMaxFieldNumber = (uint64_t{1} << 29) - 1;

tl::unexpected<Error> Malformed(std::string_view what) {
  return Fail(ErrorCode::kDamaged, std::string(what) + " is not a well-formed protobuf message");
}

}  // namespace

bool FieldScanner::Next(Field& field) {
  if (!ok() || reader_.remaining() == 0) return false;
  const uint64_t tag = reader_.Varint();
  field = Field{.number = tag >> 3, .type = static_cast<WireType>(tag & 7), .value = 0, .content = {}};
  switch (field.type) {
    case WireType::kVarint:
      field.value = reader_.Varint();
      break;
    case WireType::kFixed64:
      field.value = reader_.U64();
      break;
    case WireType::kFixed32:
      field.value = reader_.U32();
      break;
    case WireType::kLengthDelimited:
      field.content = reader_.Take(reader_.Varint());
      break;
    default:
      well_formed_ = false;
  }
  if (field.number == 0 || field.number > kMaxFieldNumber) well_formed_ = false;
  return ok();
}

uint64_t CountPacked(ByteSpan content) {
  // A varint ends with its only byte below 0x80.
  return static_cast<uint64_t>(std::count_if(content.begin(), content.end(), [](uint8_t b) { return b < 0x80; }));
}

Result<void> CheckFieldCounts(ByteSpan message, std::string_view what, std::initializer_list<FieldLimit> limits) {
  std::vector<uint64_t> counts(limits.size());
  FieldScanner scanner(message);
  for (Field field; scanner.Next(field);) {
    const auto* limit = std::find_if(limits.begin(), limits.end(),
                                     [&](const FieldLimit& candidate) { return candidate.number == field.number; });
    if (limit == limits.end()) continue;
    uint64_t& count = counts[static_cast<size_t>(limit - limits.begin())];
    count += limit->packed && field.type == WireType::kLengthDelimited ? CountPacked(field.content) : 1;
    if (count > limit->most) {
      return Fail(ErrorCode::kLimit, std::string(what) + " has more than " + std::to_string(limit->most) +
                                         " items in field " + std::to_string(limit->number));
    }
  }
  if (!scanner.ok()) return Malformed(what);
  return {};
}

Result<void> ParseMessage(ByteSpan bytes, std::string_view what, google::protobuf::MessageLite& message) {
  if (bytes.size() > INT_MAX || !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Malformed(what);
  }
  return {};
}

Result<Bytes> SerializeMessage(const google::protobuf::MessageLite& message, std::string_view what, uint64_t limit) {
  const size_t size = message.ByteSizeLong();
  if (size > std::min<uint64_t>(limit, INT_MAX)) {
    return Fail(ErrorCode::kLimit, std::string(what) + " would have " + std::to_string(size) +
                                       " bytes, more than the limit of " + std::to_string(limit));
  }
  Bytes bytes(size);
  message.SerializeWithCachedSizesToArray(bytes.data());
  return bytes;
}

}  // namespace pcrfs
