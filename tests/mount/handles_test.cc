// File handles, as an NFS server keeps them, through a real mount: they outlive the kernel's caches.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

#include "format/file.h"
#include "mount/fuse_ops.h"
#include "tests/support/mount_fixture.h"

namespace pcrfs {
namespace {

using testing::BackgroundMount;
using testing::PackedPhotos;
using testing::ReadFile;
using testing::SessionMount;

// What the kernel gives for a FUSE inode: its number, upper half first, its generation, and those of the parent when a
// connectable handle was asked for.
class Handle {
 public:
  explicit Handle(const std::string& path) {
    get()->handle_bytes = kRoom;
    int mount_id = 0;
    EXPECT_EQ(name_to_handle_at(AT_FDCWD, path.c_str(), get(), &mount_id, 0), 0) << path << std::strerror(errno);
  }

  file_handle* get() { return reinterpret_cast<file_handle*>(memory_.data()); }
  [[nodiscard]] uint64_t number() {
    const auto words = Words();
    return uint64_t{words[0]} << 32 | words[1];
  }
  [[nodiscard]] uint32_t generation() { return Words()[2]; }
  void Forge(uint64_t number, uint32_t generation) {
    const Parts words = {static_cast<uint32_t>(number >> 32), static_cast<uint32_t>(number), generation};
    std::memcpy(get()->f_handle, words.data(), sizeof words);
  }

 private:
  using Parts = std::array<uint32_t, 3>;
  static constexpr unsigned kRoom = 128;

  Parts Words() {
    Parts words{};
    std::memcpy(words.data(), get()->f_handle, sizeof words);
    return words;
  }

  alignas(file_handle) std::array<unsigned char, sizeof(file_handle) + kRoom> memory_{};
};

// Directory entries and inodes that nobody uses.
void DropCaches() {
  std::ofstream file("/proc/sys/vm/drop_caches");
  file << 2 << std::flush;
  ASSERT_TRUE(file.good()) << "this test lets the kernel drop its caches, so it must run as root";
}

template <typename Mount>
class OneMountTest : public ::testing::Test {
 protected:
  PackedPhotos photos_;
  Mount mount_{photos_};
  const UniqueFd root_{open((mount_ / "").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};

  UniqueFd Open(Handle& handle, int flags = O_RDONLY) const {
    return UniqueFd(open_by_handle_at(root_.get(), handle.get(), flags | O_CLOEXEC));
  }
};

using HandlesTest = OneMountTest<BackgroundMount>;
using CountedHandlesTest = OneMountTest<SessionMount>;

TEST_F(CountedHandlesTest, AreGoodAfterTheKernelForgotTheInodes) {
  const std::string path = mount_ / "scan4/n01/3.jpg";
  const Bytes expected = ReadFile(path);
  Handle handle(path);
  const uint64_t before = mount_.requests(RequestKind::kLookup);
  DropCaches();
  const UniqueFd fd = Open(handle);
  ASSERT_TRUE(fd.valid()) << std::strerror(errno);
  EXPECT_GT(mount_.requests(RequestKind::kLookup), before) << "the kernel still had it, so this proves nothing";
  Bytes bytes(expected.size() + 1);
  EXPECT_EQ(read(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(expected.size()));
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), bytes.begin()));
}

TEST_F(HandlesTest, OfDirectoriesLeadUpAndDown) {
  for (const char* folder : {"scan4/n01", "scan4", "scan10/empty"}) {
    Handle handle(mount_ / folder);
    DropCaches();
    const UniqueFd fd = Open(handle, O_RDONLY | O_DIRECTORY);
    ASSERT_TRUE(fd.valid()) << folder << ": " << std::strerror(errno);
    struct stat by_handle {
    }, by_path{}, above{}, above_by_path{};
    EXPECT_EQ(fstat(fd.get(), &by_handle), 0);
    EXPECT_EQ(stat((mount_ / folder).c_str(), &by_path), 0);
    EXPECT_EQ(by_handle.st_ino, by_path.st_ino) << folder;
    EXPECT_EQ(fstatat(fd.get(), "..", &above, 0), 0) << folder;
    EXPECT_EQ(stat((mount_ / folder + "/..").c_str(), &above_by_path), 0);
    EXPECT_EQ(above.st_ino, above_by_path.st_ino) << folder;
    std::array<char, 4096> link{};
    const std::string self = "/proc/self/fd/" + std::to_string(fd.get());
    const ssize_t size = readlink(self.c_str(), link.data(), link.size());
    EXPECT_EQ(std::string(link.data(), static_cast<size_t>(std::max<ssize_t>(size, 0))), mount_ / folder);
  }
}

TEST_F(HandlesTest, OfTheRootAndOfCurrentAreGood) {
  Handle root(mount_ / ""), current(mount_ / "current");
  DropCaches();
  struct stat seen {};
  const UniqueFd root_fd = Open(root, O_PATH), current_fd = Open(current, O_PATH | O_NOFOLLOW);
  ASSERT_TRUE(root_fd.valid()) << std::strerror(errno);
  ASSERT_TRUE(current_fd.valid()) << std::strerror(errno);
  EXPECT_EQ(fstat(root_fd.get(), &seen), 0);
  EXPECT_EQ(seen.st_ino, 1u);
  EXPECT_EQ(fstat(current_fd.get(), &seen), 0);
  EXPECT_TRUE(S_ISLNK(seen.st_mode));
  std::array<char, 16> target{};
  EXPECT_EQ(readlinkat(current_fd.get(), "", target.data(), target.size()), 6);
  EXPECT_STREQ(target.data(), "scan10");
}

TEST_F(HandlesTest, ForgedOnesAreStaleWhateverTheyName) {
  Handle handle(mount_ / "scan4/n01/3.jpg");
  const uint64_t number = handle.number();
  const uint32_t generation = handle.generation();
  const uint64_t nodes = number / 32 + 1000;
  for (const uint64_t forged :
       {uint64_t{0}, uint64_t{2}, uint64_t{30}, uint64_t{33} + 10, nodes * 32, number + 7, number | 31, nodes * 32 + 4,
        uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 31, number | uint64_t{1} << 32}) {
    handle.Forge(forged, generation);
    EXPECT_FALSE(Open(handle).valid()) << forged;
    EXPECT_EQ(errno, ESTALE) << forged;
  }
  handle.Forge(number, generation + 1);  // of another generation
  EXPECT_FALSE(Open(handle).valid());
  EXPECT_EQ(errno, ESTALE);
  handle.Forge(number, generation);
  EXPECT_TRUE(Open(handle).valid());
}

// An NFS client keeps a handle, and what it has read by it, for longer than the mount it came from lives.
TEST(RemountedHandlesTest, AreGoodAfterAnAppendAndStaleWhereTheirNumberMeansAnotherFile) {
  const PackedPhotos photos;
  std::optional<Handle> early, late;
  const auto open_both = [&](bool late_is_good) {
    const BackgroundMount mount(photos);
    const UniqueFd root(open(mount.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!early) early.emplace(mount / "scan4/n00/0.jpg"), late.emplace(mount / "scan4/n02/3.jpg");
    EXPECT_TRUE(UniqueFd(open_by_handle_at(root.get(), early->get(), O_RDONLY)).valid() || !late_is_good);
    EXPECT_EQ(UniqueFd(open_by_handle_at(root.get(), late->get(), O_RDONLY)).valid(), late_is_good);
  };
  open_both(true);
  testing::WriteFile(photos.source() + "/n00/new.txt", "new");
  ASSERT_EQ(photos.Pcrfs({"pack", "--append", photos.source(), photos.dataset()}).status, 0);
  open_both(true);
  ASSERT_EQ(photos.Pcrfs({"remove", photos.dataset(), "n00/1.jpg"}).status, 0);
  open_both(false);
}

}  // namespace
}  // namespace pcrfs
