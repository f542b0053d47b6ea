// The callbacks against libfuse itself, with the kernel's side played by the test: what no mount here can show, such
// as an old kernel, and each answer to the byte.
#include "mount/fuse_ops.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/mount/fake_kernel.h"
#include "tests/support/mount_fixture.h"

namespace pcrfs {
namespace {

using testing::FakeKernel;

constexpr uint64_t kScan3 = 35;
constexpr uint64_t kYear = 365 * 24 * 3600;

class FuseOpsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    photos_ = std::make_unique<testing::PackedPhotos>();
    files_ = testing::OpenFileSystem(*photos_, {});
  }
  static void TearDownTestSuite() {
    files_.reset();
    photos_.reset();
  }

  static inline std::unique_ptr<testing::PackedPhotos> photos_;
  static inline std::unique_ptr<FileSystem> files_;
  MountState state_{*files_};
  FakeKernel kernel_{FuseOps(), &state_};
};

TEST_F(FuseOpsTest, InitAsksForWhatAnImmutableMountWants) {
  const fuse_init_out out = kernel_.Init(~uint32_t{0} & ~uint32_t{FUSE_INIT_EXT});
  EXPECT_EQ(out.max_background, 512);
  EXPECT_EQ(out.congestion_threshold, 384);
  EXPECT_EQ(out.max_readahead, 128u << 10);
  // (FUSE_PARALLEL_DIROPS is wanted as well; libfuse before 3.17 does not pass it on.)
  for (const int wanted : {FUSE_ASYNC_READ, FUSE_EXPORT_SUPPORT, FUSE_DO_READDIRPLUS, FUSE_CACHE_SYMLINKS,
                           FUSE_EXPLICIT_INVAL_DATA, FUSE_ASYNC_DIO, FUSE_MAX_PAGES})
    EXPECT_TRUE(out.flags & static_cast<uint32_t>(wanted)) << wanted;
  for (const int unwanted : {FUSE_READDIRPLUS_AUTO, FUSE_AUTO_INVAL_DATA, FUSE_SPLICE_READ, FUSE_SPLICE_WRITE,
                             FUSE_SPLICE_MOVE, FUSE_WRITEBACK_CACHE, FUSE_POSIX_ACL})
    EXPECT_FALSE(out.flags & static_cast<uint32_t>(unwanted)) << unwanted;
  EXPECT_TRUE(state_.initialised);
}

TEST_F(FuseOpsTest, OpenIsLeftToTheKernelWhereItCan) {
  kernel_.Init(FUSE_NO_OPEN_SUPPORT | FUSE_NO_OPENDIR_SUPPORT);
  EXPECT_EQ(kernel_.Send(FUSE_OPEN, kScan3, FakeKernel::BytesOf(fuse_open_in{})).error, ENOSYS);
  EXPECT_EQ(kernel_.Send(FUSE_OPENDIR, kScan3, FakeKernel::BytesOf(fuse_open_in{})).error, ENOSYS);
}

TEST_F(FuseOpsTest, AnOldKernelGetsOpenFilesThatKeepTheirCache) {
  kernel_.Init(0);
  const auto file = kernel_.Send(FUSE_OPEN, kScan3, FakeKernel::BytesOf(fuse_open_in{}));
  EXPECT_EQ(file.error, 0);
  EXPECT_EQ(file.As<fuse_open_out>().open_flags, uint32_t{FOPEN_KEEP_CACHE});
  const auto folder = kernel_.Send(FUSE_OPENDIR, kScan3, FakeKernel::BytesOf(fuse_open_in{}));
  EXPECT_EQ(folder.error, 0);
  EXPECT_EQ(folder.As<fuse_open_out>().open_flags, uint32_t{FOPEN_KEEP_CACHE | FOPEN_CACHE_DIR});
  EXPECT_EQ(kernel_.Send(FUSE_RELEASE, kScan3, FakeKernel::BytesOf(fuse_release_in{})).error, 0);
}

TEST_F(FuseOpsTest, WhatIsFoundAndWhatIsNotStaysKnownForAYear) {
  kernel_.Init(0);
  const auto found = kernel_.Lookup(kScan3, "n00").As<fuse_entry_out>();
  EXPECT_EQ(found.nodeid, found.attr.ino);
  EXPECT_EQ(found.nodeid % 32, 3u);
  EXPECT_EQ(found.entry_valid, kYear);
  EXPECT_EQ(found.attr_valid, kYear);
  EXPECT_TRUE(S_ISDIR(found.attr.mode));

  const auto missing = kernel_.Lookup(kScan3, "missing");
  EXPECT_EQ(missing.error, 0);
  EXPECT_EQ(missing.As<fuse_entry_out>().nodeid, 0u);
  EXPECT_EQ(missing.As<fuse_entry_out>().entry_valid, kYear);

  const auto attributes = kernel_.Send(FUSE_GETATTR, kScan3, FakeKernel::BytesOf(fuse_getattr_in{}));
  EXPECT_EQ(attributes.As<fuse_attr_out>().attr_valid, kYear);
}

TEST_F(FuseOpsTest, ErrorsThatAreNotAbsenceAreErrors) {
  kernel_.Init(0);
  const uint64_t file =
      kernel_.Lookup(kernel_.Lookup(kScan3, "n00").As<fuse_entry_out>().nodeid, "0.jpg").As<fuse_entry_out>().nodeid;
  EXPECT_EQ(kernel_.Lookup(file, "x").error, ENOTDIR);
  EXPECT_EQ(kernel_.Lookup(uint64_t{1} << 50, "x").error, ESTALE);
  EXPECT_EQ(kernel_.Send(FUSE_GETATTR, 2, FakeKernel::BytesOf(fuse_getattr_in{})).error, ESTALE);
  EXPECT_EQ(kernel_.Read(kScan3, 0, 4096).error, EISDIR);
  EXPECT_EQ(kernel_.Send(FUSE_READLINK, file).error, EINVAL);
}

TEST_F(FuseOpsTest, ReadGivesWhatIsThereAndNothingBehindTheEnd) {
  kernel_.Init(0);
  const auto entry =
      kernel_.Lookup(kernel_.Lookup(kScan3, "n00").As<fuse_entry_out>().nodeid, "0.jpg").As<fuse_entry_out>();
  const auto whole = kernel_.Read(entry.nodeid, 0, 1 << 20);
  EXPECT_EQ(whole.body.size(), entry.attr.size);
  ASSERT_GT(whole.body.size(), 500u);
  const auto part = kernel_.Read(entry.nodeid, 100, 300);
  EXPECT_EQ(part.body, Bytes(whole.body.begin() + 100, whole.body.begin() + 400));
  EXPECT_EQ(kernel_.Read(entry.nodeid, entry.attr.size, 4096).body.size(), 0u);
  EXPECT_EQ(kernel_.Read(entry.nodeid, entry.attr.size - 1, 4096).body.size(), 1u);
  EXPECT_EQ(kernel_.Read(entry.nodeid, uint64_t{1} << 62, 4096).body.size(), 0u);
  EXPECT_EQ(kernel_.Read(entry.nodeid, uint64_t{1} << 63, 4096).error, EINVAL);  // negative to the kernel
  EXPECT_EQ(kernel_.Read(entry.nodeid, 0, UINT32_MAX).error, EINVAL);            // never a short answer instead
}

struct Listed {
  uint64_t ino, node, next;
};

// One READDIR or READDIRPLUS answer taken apart.
std::map<std::string, Listed> TakeApart(const Bytes& body, bool plus, uint64_t& next) {
  std::map<std::string, Listed> names;
  for (size_t at = 0; at < body.size();) {
    fuse_entry_out entry{};
    if (plus) std::memcpy(&entry, &body[at], sizeof entry);
    const size_t start = at + (plus ? sizeof entry : 0);
    fuse_dirent head{};
    std::memcpy(&head, &body[start], offsetof(fuse_dirent, name));
    const auto* name = reinterpret_cast<const char*>(&body[start + offsetof(fuse_dirent, name)]);
    names[std::string(name, head.namelen)] = {head.ino, entry.nodeid, head.off};
    next = head.off;
    at = start + FUSE_DIRENT_ALIGN(offsetof(fuse_dirent, name) + head.namelen);
  }
  return names;
}

TEST_F(FuseOpsTest, AListingInSmallPartsIsTheWholeListing) {
  kernel_.Init(0);
  const uint64_t folder = kernel_.Lookup(kScan3, "n00").As<fuse_entry_out>().nodeid;
  for (const uint32_t opcode : {FUSE_READDIR, FUSE_READDIRPLUS}) {
    const bool plus = opcode == FUSE_READDIRPLUS;
    uint64_t next = 0;
    const auto whole = TakeApart(kernel_.Read(folder, 0, 65536, opcode).body, plus, next);
    EXPECT_EQ(whole.size(), 2 + 6u);
    for (const auto& [name, item] : whole) {
      const bool dots = name == "." || name == "..";
      EXPECT_EQ(item.node, plus && !dots ? item.ino : 0) << name;
      if (!dots) {
        EXPECT_EQ(item.ino, kernel_.Lookup(folder, name).As<fuse_entry_out>().nodeid) << name;
      }
    }
    std::map<std::string, Listed> parts;
    next = 0;
    for (int i = 0; i < 20; ++i) {
      const auto part = TakeApart(kernel_.Read(folder, next, 200, opcode).body, plus, next);
      if (part.empty()) break;
      for (const auto& item : part) EXPECT_TRUE(parts.insert(item).second) << item.first;
    }
    EXPECT_EQ(parts.size(), whole.size());
  }
}

TEST_F(FuseOpsTest, IoctlIsNoTerminalAndTheRestIsNotAskedAgain) {
  kernel_.Init(0);
  fuse_ioctl_in in{};
  in.cmd = 0x5401;  // TCGETS
  EXPECT_EQ(kernel_.Send(FUSE_IOCTL, kScan3, FakeKernel::BytesOf(in)).error, ENOTTY);
  Bytes xattr = FakeKernel::BytesOf(fuse_getxattr_in{});
  for (const char c : std::string_view("security.capability\0", 20)) xattr.push_back(static_cast<uint8_t>(c));
  EXPECT_EQ(kernel_.Send(FUSE_GETXATTR, kScan3, xattr).error, ENOSYS);
  EXPECT_EQ(kernel_.Send(FUSE_FLUSH, kScan3, FakeKernel::BytesOf(fuse_flush_in{})).error, ENOSYS);
  EXPECT_EQ(kernel_.Send(FUSE_ACCESS, kScan3, FakeKernel::BytesOf(fuse_access_in{})).error, ENOSYS);
}

TEST_F(FuseOpsTest, StatfsIsNeverEmpty) {
  kernel_.Init(0);
  const auto numbers = kernel_.Send(FUSE_STATFS, 1).As<fuse_statfs_out>();
  EXPECT_GT(numbers.st.blocks, 0u);
  EXPECT_GT(numbers.st.files, 0u);
  EXPECT_EQ(numbers.st.namelen, 255u);
}

TEST_F(FuseOpsTest, RequestsAreCounted) {
  kernel_.Init(0);
  (void)kernel_.Lookup(kScan3, "n00");
  (void)kernel_.Lookup(kScan3, "missing");
  EXPECT_EQ(state_.requests[RequestKind::kLookup], 2u);
  EXPECT_EQ(state_.requests[RequestKind::kRead], 0u);
}

}  // namespace
}  // namespace pcrfs
