#include "mount/reply.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>

#include "tests/mount/fake_kernel.h"

namespace pcrfs {
namespace {

using testing::FakeKernel;

// A session whose GETATTR runs `work` with the Reply.
class ReplyTest : public ::testing::Test {
 protected:
  ReplyTest() : kernel_(Ops(), &work_) { kernel_.Init(0); }

  FakeKernel::Answer Run(std::function<void(Reply)> work) {
    work_ = std::move(work);
    return kernel_.Send(FUSE_GETATTR, 1, FakeKernel::BytesOf(fuse_getattr_in{}));
  }

  FakeKernel& kernel() { return kernel_; }

 private:
  using Work = std::function<void(Reply)>;
  static const fuse_lowlevel_ops& Ops() {
    static const fuse_lowlevel_ops ops = [] {
      fuse_lowlevel_ops made{};
      made.getattr = [](fuse_req_t request, fuse_ino_t, fuse_file_info*) {
        Reply reply(request);
        try {
          (*static_cast<Work*>(fuse_req_userdata(request)))(std::move(reply));
        } catch (const std::exception&) {
        }
      };
      return made;
    }();
    return ops;
  }

  Work work_;
  FakeKernel kernel_;
};

TEST_F(ReplyTest, SendsWhatItIsTold) {
  EXPECT_EQ(Run([](Reply reply) { reply.Error(ENOENT); }).error, ENOENT);
  const Bytes data = {1, 2, 3};
  EXPECT_EQ(Run([&](Reply reply) { reply.Data(data); }).body, data);
}

TEST_F(ReplyTest, DroppedUnansweredIsAnIoError) {
  EXPECT_EQ(Run([](Reply) {}).error, EIO);
  EXPECT_EQ(Run([](Reply) { throw std::runtime_error("lost"); }).error, EIO);
  EXPECT_EQ(Run([](Reply reply) { Reply other(std::move(reply)); }).error, EIO);
}

TEST_F(ReplyTest, OnlyTheFirstAnswerGoesOut) {
  EXPECT_EQ(Run([](Reply reply) {
              reply.Error(ENOENT);
              reply.Error(EACCES);
            }).error,
            ENOENT);
  EXPECT_EQ(Run([](Reply reply) {
              Reply other(std::move(reply));
              other.Error(ENOENT);
              reply.Error(EACCES);  // NOLINT: moved from on purpose
            }).error,
            ENOENT);
}

TEST_F(ReplyTest, AnAnswerThatCannotBeDeliveredIsNotAnsweredAgain) {
  // ENOENT is what the kernel says of a request that was interrupted meanwhile.
  kernel().FailNextWrite(ENOENT);
  EXPECT_EQ(Run([](Reply reply) { reply.Data(Bytes{1}); }).body, Bytes{1});
  kernel().FailNextWrite(EINVAL);
  EXPECT_EQ(Run([](Reply reply) { reply.Error(EIO); }).error, EIO);
  EXPECT_EQ(Run([](Reply reply) { reply.Error(EIO); }).error, EIO);
}

}  // namespace
}  // namespace pcrfs
