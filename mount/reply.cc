#include "mount/reply.h"

#include <memory>

#include "fs/errno_map.h"
#include "mount/logging.h"

namespace pcrfs {

void AnswerError(Reply& reply, const Error& error) {
  Log(LogLevel::kDebug, error.message);
  reply.Error(ErrnoOf(error.code));
}

MutableByteSpan ReplyBuffer(size_t size) {
  thread_local std::unique_ptr<uint8_t[]> buffer;
  thread_local size_t capacity = 0;
  if (size > capacity) {
    buffer.reset();
    capacity = 0;
    buffer = std::make_unique_for_overwrite<uint8_t[]>(size);
    capacity = size;
  }
  return {buffer.get(), size};
}

}  // namespace pcrfs
