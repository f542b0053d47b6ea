// The answer to one FUSE request: given exactly once.
//
// A Reply owns the request until it is answered. The first answering call consumes it, whether or not libfuse could
// write the answer (it frees the request either way, so a failure must never lead to a second answer); later ones do
// nothing. A Reply that is dropped unanswered, by an early return or an exception, answers EIO.
// One thread at a time. Included by what answers requests and its tests only.
#ifndef PCRFS_MOUNT_REPLY_H_
#define PCRFS_MOUNT_REPLY_H_

#ifndef FUSE_USE_VERSION
#error "define FUSE_USE_VERSION as mount/CMakeLists.txt does"
#endif
#include <fuse_lowlevel.h>

#include <cerrno>
#include <utility>

#include "format/bytes.h"
#include "format/error.h"

namespace pcrfs {

class Reply {
 public:
  explicit Reply(fuse_req_t request) : request_(request) {}
  ~Reply() { Error(EIO); }
  Reply(Reply&& other) noexcept : request_(std::exchange(other.request_, nullptr)) {}
  Reply& operator=(Reply&&) = delete;

  // `number` is an errno value, positive.
  void Error(int number) {
    Answer([&](fuse_req_t request) { return fuse_reply_err(request, number); });
  }
  void Entry(const fuse_entry_param& entry) {
    Answer([&](fuse_req_t request) { return fuse_reply_entry(request, &entry); });
  }
  void Attributes(const struct stat& attributes, double timeout) {
    Answer([&](fuse_req_t request) { return fuse_reply_attr(request, &attributes, timeout); });
  }
  void Link(const char* target) {
    Answer([&](fuse_req_t request) { return fuse_reply_readlink(request, target); });
  }
  void Open(const fuse_file_info& info) {
    Answer([&](fuse_req_t request) { return fuse_reply_open(request, &info); });
  }
  void Data(ByteSpan bytes) {
    Answer([&](fuse_req_t request) {
      return fuse_reply_buf(request, reinterpret_cast<const char*>(bytes.data()), bytes.size());
    });
  }
  void Ioctl(ByteSpan answer) {
    Answer([&](fuse_req_t request) { return fuse_reply_ioctl(request, 0, answer.data(), answer.size()); });
  }
  void StatFs(const struct statvfs& numbers) {
    Answer([&](fuse_req_t request) { return fuse_reply_statfs(request, &numbers); });
  }

 private:
  template <typename Function>
  void Answer(Function answer) {
    if (fuse_req_t request = std::exchange(request_, nullptr)) (void)answer(request);
  }

  fuse_req_t request_;
};

// Answers with the errno of what FileSystem has told its observer of.
void AnswerError(Reply& reply, const Error& error);

// This thread's buffer for answers, grown to the largest that was needed.
[[nodiscard]] MutableByteSpan ReplyBuffer(size_t size);

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_REPLY_H_
