// What the kernel asks, and above all what it does not: requests are counted.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/file.h"
#include "mount/mount_point.h"
#include "tests/support/mount_fixture.h"

namespace pcrfs {
namespace {

using testing::PackedPhotos;
using testing::ReadFile;
using testing::SessionMount;

class RequestsTest : public ::testing::Test {
 protected:
  PackedPhotos photos_;
  SessionMount mount_{photos_};

  [[nodiscard]] uint64_t Count(RequestKind kind) const { return mount_.requests(kind); }
};

TEST_F(RequestsTest, AMissingNameIsAskedForOnce) {
  struct stat seen {};
  ASSERT_EQ(stat((mount_ / "scan2/n00").c_str(), &seen), 0);
  const uint64_t before = Count(RequestKind::kLookup);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(stat((mount_ / "scan2/n00/missing.jpg").c_str(), &seen), -1);
    EXPECT_EQ(errno, ENOENT);
  }
  EXPECT_EQ(Count(RequestKind::kLookup), before + 1);
}

TEST_F(RequestsTest, AFileIsLookedUpOnceAndNeverOpened) {
  struct stat seen {};
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(stat((mount_ / "scan2/n00/0.jpg").c_str(), &seen), 0);
    EXPECT_EQ(ReadFile(mount_ / "scan2/n00/0.jpg").size(), static_cast<size_t>(seen.st_size));
  }
  EXPECT_EQ(Count(RequestKind::kLookup), 3u);   // scan2, n00, 0.jpg
  EXPECT_LE(Count(RequestKind::kGetAttr), 1u);  // of the root, by the kernel's own choice
  EXPECT_EQ(Count(RequestKind::kOpen), 1u);     // answered ENOSYS; never again for any file
  EXPECT_FALSE(ReadFile(mount_ / "scan2/n00/4.jpg").empty());
  EXPECT_EQ(Count(RequestKind::kOpen), 1u);
}

TEST_F(RequestsTest, DataStaysInThePageCache) {
  const Bytes first = ReadFile(mount_ / "scan9/n00/0.jpg");
  const uint64_t reads = Count(RequestKind::kRead);
  EXPECT_GE(reads, 1u);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(ReadFile(mount_ / "scan9/n00/0.jpg"), first);
  EXPECT_EQ(Count(RequestKind::kRead), reads);
}

TEST_F(RequestsTest, AListingBringsAttributesAndIsKept) {
  EXPECT_EQ(testing::RunProgram({"ls", "-l", mount_ / "scan7/n00"}).status, 0);
  const uint64_t lookups = Count(RequestKind::kLookup), attributes = Count(RequestKind::kGetAttr),
                 listings = Count(RequestKind::kReadDirPlus), opens = Count(RequestKind::kOpenDir);
  EXPECT_LE(lookups, 2u);  // scan7, n00
  EXPECT_LE(attributes, 1u);
  EXPECT_GE(listings, 1u);
  EXPECT_EQ(opens, 1u);  // answered ENOSYS
  EXPECT_EQ(Count(RequestKind::kReadDir), 0u);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(testing::RunProgram({"ls", "-l", mount_ / "scan7/n00"}).status, 0);
  EXPECT_EQ(Count(RequestKind::kLookup), lookups);
  EXPECT_EQ(Count(RequestKind::kGetAttr), attributes);
  EXPECT_EQ(Count(RequestKind::kReadDirPlus), listings);
  EXPECT_EQ(Count(RequestKind::kOpenDir), opens);
}

TEST_F(RequestsTest, TheSymlinkIsReadOnce) {
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(ReadFile(mount_ / "current/n00/0.jpg").empty());
  EXPECT_EQ(Count(RequestKind::kReadLink), 1u);
}

TEST_F(RequestsTest, StopEndsServingAlsoWhileAFileIsOpen) {
  const UniqueFd fd(open((mount_ / "scan1/n00/0.jpg").c_str(), O_RDONLY));
  ASSERT_TRUE(fd.valid());
  mount_.Stop();
  char byte = 0;
  EXPECT_EQ(read(fd.get(), &byte, 1), -1);
  EXPECT_FALSE(FindMount(photos_.mount_point()));
}

}  // namespace
}  // namespace pcrfs
