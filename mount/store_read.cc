#include "mount/store_read.h"

#include <atomic>
#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "mount/requester.h"

namespace pcrfs {
namespace {

class StoreRead final : public ReadQueue::Read {
 public:
  StoreRead(Reply reply, pid_t reader, const ReadArguments& arguments)
      : reply_(std::move(reply)), reader_(reader), arguments_(arguments) {}

  void Run() override {
    if (answered_) return;
    try {
      const MutableByteSpan buffer = ReplyBuffer(arguments_.size);
      const auto filled = arguments_.generation->files().Read(arguments_.ino, arguments_.offset, buffer);
      if (!Claim()) return;
      if (filled) return reply_.Data(buffer.first(*filled));
      AnswerError(reply_, filled.error());
    } catch (const std::bad_alloc&) {
      Cancel(ENOMEM);
    } catch (...) {
      Cancel(EIO);
    }
  }

  [[nodiscard]] bool Abandoned() const override { return !answered_ && IsBeingKilled(reader_); }

  void Cancel(int number) override {
    if (Claim()) reply_.Error(number);
  }

 private:
  // True for one caller, which alone may use the Reply from then on.
  bool Claim() { return !answered_.exchange(true); }

  Reply reply_;
  const pid_t reader_;
  const ReadArguments arguments_;
  std::atomic<bool> answered_{false};
};

}  // namespace

void ReadFromStore(MountState& mount, fuse_req_t request, Reply reply, const ReadArguments& arguments) {
  // All that libfuse may call back outlives every request, and it neither answers nor forgets this one: libfuse calls
  // it with the request locked, even from within this registration.
  fuse_req_interrupt_func(
      request, [](fuse_req_t, void* queue) { static_cast<ReadQueue*>(queue)->Look(); }, &mount.reads);
  const pid_t reader = fuse_req_ctx(request)->pid;
  mount.reads.Submit(std::make_shared<StoreRead>(std::move(reply), reader, arguments));
}

}  // namespace pcrfs
