// The kernel's side of a FUSE session without a kernel: requests go straight into libfuse, answers are caught.
//
// One thread sends; answers may come from others. What it sends is laid out as <linux/fuse.h> says.
#ifndef PCRFS_TESTS_MOUNT_FAKE_KERNEL_H_
#define PCRFS_TESTS_MOUNT_FAKE_KERNEL_H_

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <sys/uio.h>

#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "format/bytes.h"

namespace pcrfs::testing {

class FakeKernel {
 public:
  struct Answer {
    int error = 0;  // positive errno
    uint64_t unique = 0;
    Bytes body;

    template <typename T>
    [[nodiscard]] T As() const {
      T value{};
      EXPECT_GE(body.size(), sizeof value);
      std::memcpy(&value, body.data(), std::min(body.size(), sizeof value));
      return value;
    }
  };

  FakeKernel(const fuse_lowlevel_ops& ops, void* userdata) {
    char name[] = "test";
    char* words[] = {name, nullptr};
    fuse_args arguments = FUSE_ARGS_INIT(1, words);
    session_ = fuse_session_new(&arguments, &ops, sizeof ops, userdata);
    fuse_opt_free_args(&arguments);
    // libfuse gives the session's userdata to these; the answers belong to the one FakeKernel there is at a time.
    current_ = this;
    static const fuse_custom_io io = [] {
      fuse_custom_io made{};
      made.read = [](int, void*, size_t, void*) -> ssize_t { return 0; };
      made.writev = [](int, iovec* parts, int count, void*) -> ssize_t { return current_->Catch(parts, count); };
      return made;
    }();
    EXPECT_EQ(fuse_session_custom_io(session_, &io, open("/dev/null", O_RDWR | O_CLOEXEC)), 0);
  }
  ~FakeKernel() { fuse_session_destroy(session_); }
  FakeKernel(const FakeKernel&) = delete;
  FakeKernel& operator=(const FakeKernel&) = delete;

  fuse_init_out Init(uint32_t flags) {
    fuse_init_in in{};
    in.major = FUSE_KERNEL_VERSION;
    in.minor = 38;
    in.max_readahead = 128 << 10;
    in.flags = flags;
    return Send(FUSE_INIT, 0, BytesOf(in)).As<fuse_init_out>();
  }

  // Sends a request that must get exactly one answer, and returns that.
  Answer Send(uint32_t opcode, uint64_t node, ByteSpan body = {}) {
    {
      const std::lock_guard lock(mutex_);
      answers_.clear();
    }
    Process(opcode, ++unique_, node, body);
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(answers_.size(), 1u) << "answers to opcode " << opcode;
    if (answers_.empty()) return {};
    EXPECT_EQ(answers_[0].unique, unique_);
    return answers_[0];
  }

  // While a request is being served: that whoever sent it was interrupted.
  void Interrupt() {
    fuse_interrupt_in in{};
    in.unique = unique_;
    Process(FUSE_INTERRUPT, 0, 0, BytesOf(in));
  }
  [[nodiscard]] size_t answered() {
    const std::lock_guard lock(mutex_);
    return answers_.size();
  }

  Answer Lookup(uint64_t parent, std::string_view name) {
    Bytes body(name.begin(), name.end());
    body.push_back(0);
    return Send(FUSE_LOOKUP, parent, body);
  }

  Answer Read(uint64_t node, uint64_t offset, uint32_t size, uint32_t opcode = FUSE_READ) {
    fuse_read_in in{};
    in.offset = offset;
    in.size = size;
    return Send(opcode, node, BytesOf(in));
  }

  template <typename T>
  static Bytes BytesOf(const T& value) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    return {bytes, bytes + sizeof value};
  }

  // `in` is what the command passes; `flags` as in fuse_ioctl_in.
  Answer Ioctl(uint64_t node, uint32_t command, ByteSpan in, uint32_t room, uint32_t flags = FUSE_IOCTL_DIR) {
    fuse_ioctl_in head{};
    head.cmd = command;
    head.flags = flags;
    head.in_size = static_cast<uint32_t>(in.size());
    head.out_size = room;
    Bytes body = BytesOf(head);
    body.insert(body.end(), in.begin(), in.end());
    return Send(FUSE_IOCTL, node, body);
  }

  // Whose requests the next ones are; root's unless told.
  void ActAs(uint32_t user) { caller_ = user; }
  // Which thread's; nobody's unless told.
  void ActAsThread(pid_t thread) { thread_ = thread; }

  // The next answer cannot be delivered: write gives this errno.
  void FailNextWrite(int number) { fail_ = number; }

 private:
  void Process(uint32_t opcode, uint64_t unique, uint64_t node, ByteSpan body) {
    fuse_in_header header{};
    header.len = static_cast<uint32_t>(sizeof header + body.size());
    header.opcode = opcode;
    header.unique = unique;
    header.nodeid = node;
    header.uid = caller_;
    header.pid = static_cast<uint32_t>(thread_);
    Bytes message = BytesOf(header);
    message.insert(message.end(), body.begin(), body.end());
    fuse_buf buffer{};
    buffer.size = message.size();
    buffer.mem = message.data();
    fuse_session_process_buf(session_, &buffer);
  }

  ssize_t Catch(const iovec* parts, int count) {
    Bytes message;
    for (int i = 0; i < count; ++i) {
      const auto* bytes = static_cast<const uint8_t*>(parts[i].iov_base);
      message.insert(message.end(), bytes, bytes + parts[i].iov_len);
    }
    fuse_out_header header{};
    EXPECT_GE(message.size(), sizeof header);
    std::memcpy(&header, message.data(), sizeof header);
    EXPECT_EQ(header.len, message.size());
    const std::lock_guard lock(mutex_);
    answers_.push_back({-header.error, header.unique, Bytes(message.begin() + sizeof header, message.end())});
    if (fail_ != 0) {
      errno = std::exchange(fail_, 0);
      return -1;
    }
    return static_cast<ssize_t>(message.size());
  }

  static inline FakeKernel* current_ = nullptr;
  fuse_session* session_;
  uint64_t unique_ = 0;
  uint32_t caller_ = 0;
  pid_t thread_ = 0;
  int fail_ = 0;
  std::mutex mutex_;  // of answers_
  std::vector<Answer> answers_;
};

}  // namespace pcrfs::testing

#endif  // PCRFS_TESTS_MOUNT_FAKE_KERNEL_H_
