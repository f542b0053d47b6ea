// What the kernel asks, and above all what it does not: requests are counted.
#include <fcntl.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>

#include "format/file.h"
#include "mount/mount_point.h"
#include "tests/support/mount_fixture.h"

namespace pcrfs {
namespace {

using testing::PackedPhotos;
using testing::ReadFile;
using testing::SessionMount;

// The kernel drops what it keeps when memory is short or a program tells it to, as another test does; what it asks then
// says nothing. So whatever is not as it should be is tried again, on a mount of its own, and fails when it is never
// so.
class RequestsTest : public ::testing::Test {
 protected:
  static constexpr int kTries = 20;

  PackedPhotos photos_;

  void Undisturbed(const std::function<void(const SessionMount&)>& attempt) const {
    for (int tries = 1; tries < kTries; ++tries) {
      ::testing::TestPartResultArray failures;
      {
        const ::testing::ScopedFakeTestPartResultReporter reporter(&failures);
        attempt(SessionMount(photos_));
      }
      if (failures.size() == 0) return;
    }
    attempt(SessionMount(photos_));
  }
};

TEST_F(RequestsTest, AMissingNameIsAskedForOnce) {
  Undisturbed([](const SessionMount& mount) {
    struct stat seen {};
    ASSERT_EQ(stat((mount / "scan2/n00").c_str(), &seen), 0);
    const uint64_t before = mount.requests(RequestKind::kLookup);
    for (int i = 0; i < 1000; ++i) {
      EXPECT_EQ(stat((mount / "scan2/n00/missing.jpg").c_str(), &seen), -1);
      EXPECT_EQ(errno, ENOENT);
    }
    EXPECT_EQ(mount.requests(RequestKind::kLookup), before + 1);
  });
}

TEST_F(RequestsTest, AFileIsLookedUpOnceAndNeverOpened) {
  Undisturbed([](const SessionMount& mount) {
    struct stat seen {};
    for (int i = 0; i < 100; ++i) {
      ASSERT_EQ(stat((mount / "scan2/n00/0.jpg").c_str(), &seen), 0);
      EXPECT_EQ(ReadFile(mount / "scan2/n00/0.jpg").size(), static_cast<size_t>(seen.st_size));
    }
    EXPECT_EQ(mount.requests(RequestKind::kLookup), 3u);   // scan2, n00, 0.jpg
    EXPECT_LE(mount.requests(RequestKind::kGetAttr), 1u);  // of the root, by the kernel's own choice
    EXPECT_EQ(mount.requests(RequestKind::kOpen), 1u);     // answered ENOSYS; never again for any file
    EXPECT_FALSE(ReadFile(mount / "scan2/n00/4.jpg").empty());
    EXPECT_EQ(mount.requests(RequestKind::kOpen), 1u);
  });
}

TEST_F(RequestsTest, DataStaysInThePageCache) {
  Undisturbed([](const SessionMount& mount) {
    const Bytes first = ReadFile(mount / "scan9/n00/0.jpg");
    const uint64_t reads = mount.requests(RequestKind::kRead);
    EXPECT_GE(reads, 1u);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(ReadFile(mount / "scan9/n00/0.jpg"), first);
    EXPECT_EQ(mount.requests(RequestKind::kRead), reads);
  });
}

TEST_F(RequestsTest, AListingBringsAttributesAndIsKept) {
  Undisturbed([](const SessionMount& mount) {
    EXPECT_EQ(testing::RunProgram({"ls", "-l", mount / "scan7/n00"}).status, 0);
    const uint64_t lookups = mount.requests(RequestKind::kLookup), attributes = mount.requests(RequestKind::kGetAttr),
                   listings = mount.requests(RequestKind::kReadDirPlus), opens = mount.requests(RequestKind::kOpenDir);
    EXPECT_LE(lookups, 2u);  // scan7, n00
    EXPECT_LE(attributes, 1u);
    EXPECT_GE(listings, 1u);
    EXPECT_EQ(opens, 1u);  // answered ENOSYS
    EXPECT_EQ(mount.requests(RequestKind::kReadDir), 0u);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(testing::RunProgram({"ls", "-l", mount / "scan7/n00"}).status, 0);
    EXPECT_EQ(mount.requests(RequestKind::kLookup), lookups);
    EXPECT_EQ(mount.requests(RequestKind::kGetAttr), attributes);
    EXPECT_EQ(mount.requests(RequestKind::kReadDirPlus), listings);
    EXPECT_EQ(mount.requests(RequestKind::kOpenDir), opens);
  });
}

TEST_F(RequestsTest, TheSymlinkIsReadOnce) {
  Undisturbed([](const SessionMount& mount) {
    for (int i = 0; i < 10; ++i) EXPECT_FALSE(ReadFile(mount / "current/n00/0.jpg").empty());
    EXPECT_EQ(mount.requests(RequestKind::kReadLink), 1u);
  });
}

TEST_F(RequestsTest, StopEndsServingAlsoWhileAFileIsOpen) {
  SessionMount mount(photos_);
  const UniqueFd fd(open((mount / "scan1/n00/0.jpg").c_str(), O_RDONLY));
  ASSERT_TRUE(fd.valid());
  mount.Stop();
  char byte = 0;
  EXPECT_EQ(read(fd.get(), &byte, 1), -1);
  EXPECT_FALSE(FindMount(photos_.mount_point()));
}

}  // namespace
}  // namespace pcrfs
