#include "fs/errno_map.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace pcrfs {
namespace {

TEST(ErrnoMapTest, GivesTheErrnoThatAnOrdinaryFileSystemWould) {
  EXPECT_EQ(ErrnoOf(ErrorCode::kNotFound), ENOENT);
  EXPECT_EQ(ErrnoOf(ErrorCode::kNotDirectory), ENOTDIR);
  EXPECT_EQ(ErrnoOf(ErrorCode::kIsDirectory), EISDIR);
  EXPECT_EQ(ErrnoOf(ErrorCode::kStale), ESTALE);
  EXPECT_EQ(ErrnoOf(ErrorCode::kLimit), ENAMETOOLONG);
  EXPECT_EQ(ErrnoOf(ErrorCode::kInterrupted), EINTR);
}

TEST(ErrnoMapTest, CallsDamageAndFailedReadsIoErrors) {
  EXPECT_EQ(ErrnoOf(ErrorCode::kIo), EIO);
  EXPECT_EQ(ErrnoOf(ErrorCode::kDamaged), EIO);
}

TEST(ErrnoMapTest, NeverSaysSuccess) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kShortage) + 1; ++code)
    EXPECT_GT(ErrnoOf(static_cast<ErrorCode>(code)), 0) << code;
}

}  // namespace
}  // namespace pcrfs
