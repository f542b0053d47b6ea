// Messages in and out of libprotobuf, and a look over an encoded message's fields before objects are made of them.
//
// libprotobuf turns each empty item of a repeated field (2 bytes in a file) into an object of 30 to 40, so 16 MiB of a
// hostile file become 500 MiB of memory. A decoder therefore first walks the tags with FieldScanner, counts what
// repeats, and refuses too much of it; only then does it parse. The walk allocates nothing.
//
// FieldScanner does not own its bytes. Groups (wire types 3 and 4), which no message of ours has, count as damage.
// Thread safety: one scanner a thread.
#ifndef PCRFS_FORMAT_PROTOBUF_H_
#define PCRFS_FORMAT_PROTOBUF_H_

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "format/bytes.h"
#include "format/error.h"

namespace google::protobuf {
class MessageLite;
}

namespace pcrfs {

// Wire types that messages of ours have.
enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

struct Field {
  uint64_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t value = 0;  // of a varint
  ByteSpan content;    // of a length-delimited field
};

class FieldScanner {
 public:
  explicit FieldScanner(ByteSpan message) : reader_(message) {}

  // The next field; false at the end and at the first thing that is no field.
  [[nodiscard]] bool Next(Field& field);
  // After Next has returned false: whether that was the end of a well-formed message.
  [[nodiscard]] bool ok() const { return reader_.ok() && well_formed_; }

 private:
  ByteReader reader_;
  bool well_formed_ = true;
};

// How many numbers a packed field holds.
[[nodiscard]] uint64_t CountPacked(ByteSpan content);

// At most how often a field may occur in a message (numbers of packed fields counted one by one).
struct FieldLimit {
  uint64_t number;
  uint64_t most;
  bool packed = false;
};

// Walks `message`, called `what` in messages. kDamaged when it is malformed, kLimit when a field of `limits` occurs too
// often.
[[nodiscard]] Result<void> CheckFieldCounts(ByteSpan message, std::string_view what,
                                            std::initializer_list<FieldLimit> limits);

// Fills `message` from `bytes`. kDamaged when they are not such a message.
[[nodiscard]] Result<void> ParseMessage(ByteSpan bytes, std::string_view what, google::protobuf::MessageLite& message);

// The encoding of `message`, fields in number order. kLimit when it has more than `limit` bytes.
[[nodiscard]] Result<Bytes> SerializeMessage(const google::protobuf::MessageLite& message, std::string_view what,
                                             uint64_t limit);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_PROTOBUF_H_
