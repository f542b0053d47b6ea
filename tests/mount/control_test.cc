// The daemon's side of the control interface, with the kernel's side played by the test.
#include "mount/control.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "mount/fuse_ops.h"
#include "mount/logging.h"
#include "tests/mount/fake_kernel.h"
#include "tests/support/mount_fixture.h"

namespace pcrfs {
namespace {

using testing::FakeKernel;

constexpr uint64_t kScan3 = 35;
constexpr uint32_t kRoom = sizeof(MountDescription);
constexpr uint32_t kTcgets = 0x5401;

class ControlTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    photos_ = std::make_unique<testing::PackedPhotos>();
    files_ = testing::OpenFileSystem(*photos_, {});
  }
  static void TearDownTestSuite() {
    files_.reset();
    photos_.reset();
  }
  void SetUp() override { kernel_.Init(FUSE_NO_OPENDIR_SUPPORT); }

  static inline std::unique_ptr<testing::PackedPhotos> photos_;
  static inline std::unique_ptr<FileSystem> files_;
  MountState state_{*files_, {"/data/photos.pcr", 10, std::nullopt, 1'700'000'000'000'000'000}};
  FakeKernel kernel_{FuseOps(), &state_};

  FakeKernel::Answer SetLevel(LogLevelChange change) {
    return kernel_.Ioctl(FUSE_ROOT_ID, kSetLogLevel, FakeKernel::BytesOf(change), 0);
  }
  static MountDescription DescriptionIn(const FakeKernel::Answer& answer) {
    MountDescription description;
    EXPECT_EQ(answer.body.size(), sizeof(fuse_ioctl_out) + sizeof description);
    if (answer.body.size() == sizeof(fuse_ioctl_out) + sizeof description)
      std::memcpy(&description, &answer.body[sizeof(fuse_ioctl_out)], sizeof description);
    return description;
  }
};

TEST_F(ControlTest, DescribesTheMount) {
  SetLogLevel(LogLevel::kWarn);
  const auto answer = kernel_.Ioctl(FUSE_ROOT_ID, kDescribeMount, {}, kRoom);
  SetLogLevel(LogLevel::kInfo);
  ASSERT_EQ(answer.error, 0);
  EXPECT_EQ(answer.As<fuse_ioctl_out>().result, 0);
  const MountDescription description = DescriptionIn(answer);
  EXPECT_EQ(description.version, kControlVersion);
  EXPECT_EQ(description.levels, 10u);
  EXPECT_EQ(description.shown_level, kShowsAllLevels);
  EXPECT_EQ(LogLevelOfNumber(description.log_level), LogLevel::kWarn);
  EXPECT_EQ(description.pid, static_cast<uint64_t>(getpid()));
  EXPECT_EQ(description.pid_namespace, PidNamespace());
  EXPECT_NE(description.pid_namespace, 0u);
  EXPECT_EQ(description.started_ns, 1'700'000'000'000'000'000);
  EXPECT_STREQ(description.dataset, "/data/photos.pcr");
  EXPECT_NE(std::string(description.program), "");
}

TEST_F(ControlTest, APathTooLongIsCutAndEndsAllTheSame) {
  MountState state(*files_, {std::string(10'000, 'x'), 10, std::nullopt, 0});
  FakeKernel kernel(FuseOps(), &state);
  kernel.Init(0);
  const MountDescription description = DescriptionIn(kernel.Ioctl(FUSE_ROOT_ID, kDescribeMount, {}, kRoom));
  EXPECT_EQ(strnlen(description.dataset, sizeof description.dataset), sizeof description.dataset - 1);
}

TEST_F(ControlTest, AMountOfOneLevelSaysSoAlsoWhereItsRootGoesByTheTreesNumber) {
  MountState state(*files_, {"x", 10, Level::Of<3>(), 0});
  FakeKernel kernel(FuseOps(), &state);
  kernel.Init(0);
  EXPECT_EQ(DescriptionIn(kernel.Ioctl(FUSE_ROOT_ID, kDescribeMount, {}, kRoom)).shown_level, 3);
  EXPECT_EQ(DescriptionIn(kernel.Ioctl(kScan3, kDescribeMount, {}, kRoom)).shown_level, 3);
  EXPECT_EQ(kernel.Ioctl(kScan3 + 1, kDescribeMount, {}, kRoom).error, ENOTTY);
}

TEST_F(ControlTest, CommandsAreComparedWhole) {
  const uint32_t type = kControlType;
  const uint32_t strange[] = {0,
                              kTcgets,
                              _IO(type, 1),
                              _IOW(type, 1, MountDescription),
                              _IOWR(type, 1, MountDescription),
                              _IOR(type, 1, char),
                              _IOR(type, 2, LogLevelChange),
                              _IOR(type, 3, MountDescription),
                              _IOR(type + 1, 1, MountDescription),
                              UINT32_MAX};
  for (const uint32_t command : strange)
    EXPECT_EQ(kernel_.Ioctl(FUSE_ROOT_ID, command, {}, kRoom).error, ENOTTY) << std::hex << command;
}

TEST_F(ControlTest, OnlyTheRootOfTheMountIsAsked) {
  const uint64_t file =
      kernel_.Lookup(kernel_.Lookup(kScan3, "n00").As<fuse_entry_out>().nodeid, "0.jpg").As<fuse_entry_out>().nodeid;
  for (const uint64_t node : {uint64_t{0}, uint64_t{31}, kScan3, file, uint64_t{1} << 50}) {
    EXPECT_EQ(kernel_.Ioctl(node, kDescribeMount, {}, kRoom).error, ENOTTY) << node;
    EXPECT_EQ(kernel_.Ioctl(node, kSetLogLevel, FakeKernel::BytesOf(LogLevelChange{}), 0).error, ENOTTY) << node;
  }
}

TEST_F(ControlTest, A32BitCallerIsRefused) {
  EXPECT_EQ(kernel_.Ioctl(FUSE_ROOT_ID, kDescribeMount, {}, kRoom, FUSE_IOCTL_DIR | FUSE_IOCTL_COMPAT).error, ENOTTY);
}

TEST_F(ControlTest, SizesThatAreNotTheCommandsAreRefused) {
  const Bytes large(8192);
  EXPECT_EQ(kernel_.Ioctl(FUSE_ROOT_ID, kDescribeMount, {}, kRoom - 1).error, EINVAL);
  EXPECT_EQ(kernel_.Ioctl(FUSE_ROOT_ID, kDescribeMount, {}, 0).error, EINVAL);
  EXPECT_EQ(kernel_.Ioctl(FUSE_ROOT_ID, kDescribeMount, large, kRoom).error, EINVAL);
  for (const size_t size : {size_t{0}, sizeof(LogLevelChange) - 1, sizeof(LogLevelChange) + 1, large.size()})
    EXPECT_EQ(kernel_.Ioctl(FUSE_ROOT_ID, kSetLogLevel, ByteSpan(large).first(size), 0).error, EINVAL) << size;
}

TEST_F(ControlTest, SetsEveryLogLevelAndNoOther) {
  for (const LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn, LogLevel::kError}) {
    EXPECT_EQ(SetLevel({LogLevelNumber(level), 0}).error, 0);
    EXPECT_EQ(CurrentLogLevel(), level);
  }
  EXPECT_EQ(SetLevel({4, 0}).error, EINVAL);
  EXPECT_EQ(SetLevel({UINT32_MAX, 0}).error, EINVAL);
  EXPECT_EQ(SetLevel({LogLevelNumber(LogLevel::kInfo), 1}).error, EINVAL);
  EXPECT_EQ(CurrentLogLevel(), LogLevel::kError);
  SetLogLevel(LogLevel::kInfo);
}

TEST_F(ControlTest, OnlyRootAndTheDaemonsUserSetTheLogLevel) {
  kernel_.ActAs(geteuid() + 1);
  EXPECT_EQ(SetLevel({LogLevelNumber(LogLevel::kDebug), 0}).error, EPERM);
  EXPECT_EQ(CurrentLogLevel(), LogLevel::kInfo);
  EXPECT_EQ(kernel_.Ioctl(FUSE_ROOT_ID, kDescribeMount, {}, kRoom).error, 0);  // which is open to all
  kernel_.ActAs(geteuid());
  EXPECT_EQ(SetLevel({LogLevelNumber(LogLevel::kInfo), 0}).error, 0);
}

TEST_F(ControlTest, ARefreshIsAnsweredWhenItIsDoneAndOnlyToRootAndTheDaemonsUser) {
  constexpr uint32_t kOutcomeRoom = sizeof(RefreshOutcome);
  EXPECT_EQ(kernel_.Ioctl(FUSE_ROOT_ID, kRefreshMount, {}, kOutcomeRoom).error, ENOTTY) << "nobody refreshes it";
  int asked = 0;
  state_.refresh = [&](const RefreshDone& done) {
    ++asked;
    EXPECT_EQ(kernel_.answered(), 0u);
    RefreshOutcome outcome;
    outcome.status = 1;
    done(outcome);
  };
  kernel_.ActAs(geteuid() + 1);
  EXPECT_EQ(kernel_.Ioctl(FUSE_ROOT_ID, kRefreshMount, {}, kOutcomeRoom).error, EPERM);
  kernel_.ActAs(geteuid());
  EXPECT_EQ(kernel_.Ioctl(FUSE_ROOT_ID, kRefreshMount, {}, kOutcomeRoom - 1).error, EINVAL);
  EXPECT_EQ(kernel_.Ioctl(kScan3, kRefreshMount, {}, kOutcomeRoom).error, ENOTTY);
  EXPECT_EQ(asked, 0);
  const auto answer = kernel_.Ioctl(FUSE_ROOT_ID, kRefreshMount, {}, kOutcomeRoom);
  EXPECT_EQ(answer.error, 0);
  EXPECT_EQ(answer.body.size(), sizeof(fuse_ioctl_out) + kOutcomeRoom);
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace pcrfs
