// Every way a program can read a file, through a real mount: the same bytes, the same ends, the same complaints.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "format/file.h"
#include "tests/support/mount_fixture.h"

namespace pcrfs {
namespace {

using testing::BackgroundMount;
using testing::Eventually;
using testing::PackedPhotos;
using testing::ReadFile;

constexpr size_t kPage = 4096;

// errno of a call that failed, or 0.
template <typename T>
int Errno(T result) {
  return result == static_cast<T>(-1) ? errno : 0;
}

Bytes Pattern(size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 31 + i / 251);
  return bytes;
}

// An image whose bytes come from many fragments, and opaque files whose sizes lie on the edges of pages, checksum
// blocks and the kernel's largest request.
class ReadingTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    photos_ = std::make_unique<PackedPhotos>(testing::PhotoFolder{}, PackOptions{}, [](const std::string& source) {
      for (const size_t size : {size_t{0}, kPage, 2 * kPage, kPage + 1, kPage - 1, size_t{128} << 10,
                                (size_t{1} << 20) + 5, (size_t{3} << 20) + 777})
        testing::WriteFile(source + "/sizes/" + std::to_string(size), Pattern(size));
    });
    mount_ = std::make_unique<BackgroundMount>(*photos_);
  }
  static void TearDownTestSuite() {
    mount_.reset();
    photos_.reset();
  }

  static std::string At(const std::string& path) { return *mount_ / path; }
  static std::string Large() { return At("scan3/sizes/3146505"); }
  static std::string Image() { return At("scan10/n01/5.jpg"); }
  static UniqueFd Open(const std::string& path, int flags = O_RDONLY) {
    UniqueFd fd(open(path.c_str(), flags | O_CLOEXEC));
    EXPECT_TRUE(fd.valid()) << path << ": " << std::strerror(errno);
    return fd;
  }
  // What the kernel has of it is let go.
  static void Forget(const UniqueFd& fd) { EXPECT_EQ(posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED), 0); }
  static std::vector<std::string> Files() {
    std::vector<std::string> files;
    for (const std::string& file : testing::FilesBelow(At("scan10"))) files.push_back(At("scan10/" + file));
    return files;
  }

  static inline std::unique_ptr<PackedPhotos> photos_;
  static inline std::unique_ptr<BackgroundMount> mount_;
};

class Mapping {
 public:
  Mapping(const UniqueFd& fd, size_t size, int protection, int flags, off_t offset = 0)
      : size_(size),
        at_(mmap(nullptr, size, protection, flags, fd.get(), offset)),
        failed_(at_ == MAP_FAILED ? errno : 0) {}
  ~Mapping() {
    if (failed_ == 0) munmap(at_, size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  [[nodiscard]] int failed() const { return failed_; }
  [[nodiscard]] uint8_t* bytes() const { return static_cast<uint8_t*>(at_); }

 private:
  size_t size_;
  void* at_;
  int failed_;
};

sigjmp_buf after_fault;

// Whether touching a byte is answered with SIGBUS.
bool TouchEndsInSigbus(const volatile uint8_t* byte) {
  struct sigaction jump {
  }, before{};
  jump.sa_handler = [](int) { siglongjmp(after_fault, 1); };
  sigaction(SIGBUS, &jump, &before);
  volatile bool faulted = true;
  if (sigsetjmp(after_fault, 1) == 0) {
    (void)*byte;
    faulted = false;
  }
  sigaction(SIGBUS, &before, nullptr);
  return faulted;
}

TEST_F(ReadingTest, MappedFilesEndInZerosAndThenInSigbus) {
  for (const std::string& path : Files()) {
    const Bytes expected = ReadFile(path);
    const UniqueFd fd = Open(path);
    Forget(fd);
    const size_t in_pages = (expected.size() + kPage - 1) / kPage * kPage;
    const Mapping mapped(fd, in_pages + kPage, PROT_READ, MAP_SHARED);
    ASSERT_EQ(mapped.failed(), 0) << path;
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), mapped.bytes())) << path;
    for (size_t i = expected.size(); i < in_pages; ++i) ASSERT_EQ(mapped.bytes()[i], 0) << path << " at " << i;
    EXPECT_TRUE(TouchEndsInSigbus(mapped.bytes() + in_pages)) << path;
  }
}

TEST_F(ReadingTest, MappedPagesReadRightBackwardsAndFromOffsets) {
  const Bytes expected = ReadFile(Large());
  const UniqueFd fd = Open(Large());
  Forget(fd);
  const Mapping mapped(fd, expected.size(), PROT_READ, MAP_PRIVATE);
  ASSERT_EQ(mapped.failed(), 0);
  ASSERT_EQ(madvise(mapped.bytes(), expected.size(), MADV_RANDOM), 0);
  for (size_t page = expected.size() / kPage + 1; page-- > 0;)
    ASSERT_EQ(mapped.bytes()[page * kPage], expected[page * kPage]) << page;
  const size_t offset = 77 * kPage;
  const Mapping behind(fd, kPage, PROT_READ, MAP_SHARED | MAP_POPULATE, static_cast<off_t>(offset));
  EXPECT_EQ(std::memcmp(behind.bytes(), expected.data() + offset, kPage), 0);
  EXPECT_EQ(Mapping(fd, kPage, PROT_READ, MAP_SHARED, 1).failed(), EINVAL);
}

TEST_F(ReadingTest, AdviceOnMappedPagesIsTaken) {
  const Bytes expected = ReadFile(Large());
  const UniqueFd fd = Open(Large());
  const Mapping mapped(fd, expected.size(), PROT_READ, MAP_SHARED);
  for (const int advice : {MADV_WILLNEED, MADV_SEQUENTIAL, MADV_DONTNEED, MADV_NORMAL, MADV_COLD, MADV_PAGEOUT})
    EXPECT_EQ(madvise(mapped.bytes(), expected.size(), advice), 0) << advice;
  EXPECT_EQ(std::memcmp(mapped.bytes(), expected.data(), expected.size()), 0);
  EXPECT_EQ(msync(mapped.bytes(), expected.size(), MS_SYNC), 0);
  std::vector<unsigned char> resident(expected.size() / kPage + 1);
  ASSERT_EQ(mincore(mapped.bytes(), expected.size(), resident.data()), 0);
  EXPECT_EQ(std::count_if(resident.begin(), resident.end(), [](unsigned char page) { return (page & 1) != 0; }),
            static_cast<ptrdiff_t>(resident.size()));
}

TEST_F(ReadingTest, WhatIsWrittenToAPrivateMappingStaysThere) {
  const Bytes expected = ReadFile(Image());
  const UniqueFd fd = Open(Image());
  {
    const Mapping mapped(fd, expected.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE);
    ASSERT_EQ(mapped.failed(), 0);
    std::memset(mapped.bytes(), 0x5A, expected.size());
    EXPECT_EQ(mapped.bytes()[0], 0x5A);
    EXPECT_TRUE(ReadFile(Image()) == expected);
  }
  EXPECT_TRUE(ReadFile(Image()) == expected);
  const Mapping again(fd, expected.size(), PROT_READ, MAP_SHARED);
  EXPECT_EQ(std::memcmp(again.bytes(), expected.data(), expected.size()), 0);
  EXPECT_EQ(Errno(mprotect(again.bytes(), kPage, PROT_READ | PROT_WRITE)), EACCES);
  EXPECT_EQ(Mapping(fd, expected.size(), PROT_READ | PROT_WRITE, MAP_SHARED).failed(), EACCES);
}

TEST_F(ReadingTest, DirectReadsTakeAnyOffsetSizeAndBuffer) {
  constexpr size_t kRoom = (size_t{1} << 20) + 4096 + 512;
  const std::unique_ptr<uint8_t, void (*)(void*)> room(static_cast<uint8_t*>(std::aligned_alloc(kPage, 2 << 20)),
                                                       std::free);
  for (const std::string& path : {Large(), Image(), At("scan1/sizes/4096"), At("scan2/sizes/0")}) {
    const Bytes expected = ReadFile(path);
    const UniqueFd fd = Open(path, O_RDONLY | O_DIRECT);
    const size_t end = expected.size();
    for (const size_t offset :
         {size_t{0}, size_t{1}, size_t{511}, size_t{512}, size_t{4095}, size_t{4097}, size_t{131071},
          end - std::min<size_t>(end, 4097), end - std::min<size_t>(end, 1), end, end + 1, end + kPage})
      for (const size_t size : {size_t{1}, size_t{511}, size_t{512}, size_t{5000}, size_t{131072}, size_t{1} << 20})
        for (const size_t shift : {size_t{0}, size_t{1}, size_t{512}}) {
          uint8_t* const buffer = room.get() + shift;
          std::memset(buffer, 0xEE, std::min(size + 16, kRoom));
          const ssize_t got = pread(fd.get(), buffer, size, static_cast<off_t>(offset));
          const size_t due = offset < end ? std::min(size, end - offset) : 0;
          ASSERT_EQ(got, static_cast<ssize_t>(due)) << path << " " << offset << "+" << size << ": " << errno;
          ASSERT_TRUE(
              std::equal(buffer, buffer + due, expected.begin() + static_cast<ptrdiff_t>(std::min(offset, end))))
              << path << " " << offset;
          ASSERT_EQ(buffer[due], 0xEE) << path << " " << offset << "+" << size;
        }
  }
}

TEST_F(ReadingTest, DirectAndCachedReadersOfOneFileAgree) {
  const Bytes expected = ReadFile(Large());
  const UniqueFd cached = Open(Large()), direct = Open(Large(), O_RDONLY | O_DIRECT);
  Bytes a(70'000), b(70'000);
  for (size_t offset = 0; offset < expected.size(); offset += 500'001) {
    Forget(cached);
    const ssize_t one = pread(cached.get(), a.data(), a.size(), static_cast<off_t>(offset));
    const ssize_t other = pread(direct.get(), b.data(), b.size(), static_cast<off_t>(offset));
    ASSERT_EQ(one, other) << offset;
    EXPECT_TRUE(std::equal(a.begin(), a.begin() + one, b.begin())) << offset;
  }
}

// Moves all of `path` into a pipe or socket by `move(fd of the file, fd of the channel, bytes left)`, and reads it out.
void ExpectMoved(const std::string& path, bool socket, const std::function<ssize_t(int, int, size_t)>& move) {
  const Bytes expected = ReadFile(path);
  int ends[2];
  ASSERT_EQ(socket ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) : pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC)), reader(ends[0]);
  UniqueFd writer(ends[1]);
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  Bytes arrived;
  std::thread drain([&] {
    std::array<uint8_t, 65536> part;
    for (ssize_t size = 0; (size = read(reader.get(), part.data(), part.size())) > 0;)
      arrived.insert(arrived.end(), part.begin(), part.begin() + size);
  });
  size_t done = 0;
  ssize_t moved = 1;
  while (done < expected.size() && (moved = move(file.get(), writer.get(), expected.size() - done)) > 0)
    done += static_cast<size_t>(moved);
  EXPECT_GE(moved, 0) << path << " at " << done << ": " << std::strerror(errno);
  EXPECT_EQ(move(file.get(), writer.get(), kPage), 0) << "at the end";
  writer.reset();
  drain.join();
  EXPECT_TRUE(arrived == expected) << path;
}

TEST_F(ReadingTest, SendfileAndSpliceMoveTheSameBytes) {
  for (const std::string& path : {Large(), Image(), At("scan4/sizes/1048581")})
    for (const bool socket : {false, true}) {
      ExpectMoved(path, socket, [](int from, int to, size_t left) { return sendfile(to, from, nullptr, left); });
      off_t at = 0;
      ExpectMoved(path, socket, [&](int from, int to, size_t) { return sendfile(to, from, &at, 10'007); });
    }
  for (const size_t part : {size_t{1} << 20, size_t{4095}, size_t{10'007}})
    ExpectMoved(Image(), false,
                [&](int from, int to, size_t) { return splice(from, nullptr, to, nullptr, part, SPLICE_F_MOVE); });
}

TEST_F(ReadingTest, TeeDoublesWhatWasSpliced) {
  const Bytes expected = ReadFile(Image());
  const UniqueFd file = Open(Image());
  int first[2], second[2];
  ASSERT_EQ(pipe2(first, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(second, O_CLOEXEC), 0);
  const UniqueFd out(first[0]), in(first[1]), copy_out(second[0]), copy_in(second[1]);
  Forget(file);
  loff_t offset = 100;
  const ssize_t spliced = splice(file.get(), &offset, in.get(), nullptr, 5000, 0);
  ASSERT_GT(spliced, 0);
  EXPECT_EQ(offset, 100 + spliced);
  ASSERT_EQ(tee(out.get(), copy_in.get(), 5000, 0), spliced);
  for (const int end : {out.get(), copy_out.get()}) {
    Bytes part(static_cast<size_t>(spliced));
    ASSERT_EQ(read(end, part.data(), part.size()), spliced);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + 100));
  }
}

TEST_F(ReadingTest, CopyFileRangeIsLeftToTheProgram) {
  const UniqueFd from = Open(Image());
  const std::string copy = *photos_ / "copy";
  const UniqueFd to(open(copy.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  EXPECT_EQ(Errno(copy_file_range(from.get(), nullptr, to.get(), nullptr, 100, 0)), EXDEV);
  EXPECT_EQ(Errno(ioctl(to.get(), FICLONE, from.get())), EXDEV);
  EXPECT_EQ(lseek(from.get(), 0, SEEK_CUR), 0);
}

TEST_F(ReadingTest, ReadaheadFillsThePageCache) {
  const Bytes expected = ReadFile(Large());
  const UniqueFd fd = Open(Large());
  constexpr size_t kOffset = 2 << 20, kSize = 64 << 10;
  Forget(fd);
  const Mapping mapped(fd, kSize, PROT_READ, MAP_SHARED, kOffset);
  std::array<unsigned char, kSize / kPage> resident{};
  const auto is_resident = [&] {
    EXPECT_EQ(mincore(mapped.bytes(), kSize, resident.data()), 0);
    return std::all_of(resident.begin(), resident.end(), [](unsigned char page) { return (page & 1) != 0; });
  };
  EXPECT_FALSE(is_resident());
  EXPECT_EQ(readahead(fd.get(), kOffset, kSize), 0);
  EXPECT_TRUE(Eventually(is_resident));
  EXPECT_EQ(std::memcmp(mapped.bytes(), expected.data() + kOffset, kSize), 0);
}

// The kernel does not offer it for FUSE yet; if it does, what it gives must be right.
TEST_F(ReadingTest, ReadsThatMustNotWaitAreRefusedOrRight) {
  const Bytes expected = ReadFile(Large());
  const UniqueFd fd = Open(Large());
  Bytes part(kPage);
  const iovec vector = {part.data(), part.size()};
  const ssize_t got = preadv2(fd.get(), &vector, 1, 5, RWF_NOWAIT);
  EXPECT_TRUE(got == ssize_t{kPage} || errno == EOPNOTSUPP || errno == EAGAIN) << got << " " << errno;
  EXPECT_EQ(preadv2(fd.get(), &vector, 1, 5, RWF_HIPRI), ssize_t{kPage});
  EXPECT_EQ(std::memcmp(part.data(), expected.data() + 5, kPage), 0);
}

TEST_F(ReadingTest, AdviceOnFilesIsTakenAndChangesNoByte) {
  const Bytes expected = ReadFile(Large());
  const UniqueFd fd = Open(Large());
  for (const int advice : {POSIX_FADV_NORMAL, POSIX_FADV_SEQUENTIAL, POSIX_FADV_RANDOM, POSIX_FADV_NOREUSE,
                           POSIX_FADV_WILLNEED, POSIX_FADV_DONTNEED}) {
    EXPECT_EQ(posix_fadvise(fd.get(), 0, 0, advice), 0) << advice;
    EXPECT_EQ(posix_fadvise(fd.get(), 4097, 100'000, advice), 0) << advice;
    Bytes part(300'000);
    ASSERT_EQ(pread(fd.get(), part.data(), part.size(), 999), static_cast<ssize_t>(part.size()));
    EXPECT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + 999)) << advice;
  }
}

TEST_F(ReadingTest, VectorsOfAnySizesAreFilledInOrder) {
  const Bytes expected = ReadFile(Large());
  const UniqueFd fd = Open(Large());
  Forget(fd);
  std::vector<Bytes> parts;
  for (size_t i = 0; i < 200; ++i) parts.emplace_back(i * 53 % 4099);
  std::vector<iovec> vectors;
  size_t all = 0;
  for (Bytes& part : parts) {
    vectors.push_back({part.data(), part.size()});
    all += part.size();
  }
  ASSERT_EQ(preadv(fd.get(), vectors.data(), static_cast<int>(vectors.size()), 12'345), static_cast<ssize_t>(all));
  Bytes joined;
  for (const Bytes& part : parts) joined.insert(joined.end(), part.begin(), part.end());
  EXPECT_TRUE(std::equal(joined.begin(), joined.end(), expected.begin() + 12'345));
}

TEST_F(ReadingTest, OffsetsPastTheEndReadNothingAndBadOnesAreRefused) {
  const UniqueFd fd = Open(Image()), path_only = Open(Image(), O_PATH), folder = Open(At("scan10/n01"));
  const auto size = static_cast<off_t>(ReadFile(Image()).size());
  std::array<char, 16> part{};
  EXPECT_EQ(pread(fd.get(), part.data(), part.size(), size), 0);
  EXPECT_EQ(pread(fd.get(), part.data(), part.size(), off_t{1} << 62), 0);
  EXPECT_EQ(pread(fd.get(), part.data(), 0, 0), 0);
  EXPECT_EQ(pread(fd.get(), part.data(), part.size(), size - 2), 2);
  EXPECT_EQ(Errno(pread(fd.get(), part.data(), part.size(), -1)), EINVAL);
  const Mapping closed(UniqueFd(), kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS);
  EXPECT_EQ(Errno(pread(fd.get(), closed.bytes(), 16, 0)), EFAULT);
  EXPECT_EQ(Errno(read(path_only.get(), part.data(), part.size())), EBADF);
  EXPECT_EQ(Errno(read(folder.get(), part.data(), part.size())), EISDIR);
  EXPECT_EQ(Errno(write(fd.get(), "x", 1)), EBADF);
  EXPECT_EQ(Errno(ftruncate(fd.get(), 0)), EINVAL);
  EXPECT_EQ(Errno(fallocate(fd.get(), 0, 0, 100)), EBADF);
  EXPECT_EQ(fsync(fd.get()), 0);
  EXPECT_EQ(syncfs(fd.get()), 0);
}

TEST_F(ReadingTest, FilesHaveNoHolesAndSeekingEndsWhereTheyEnd) {
  for (const std::string& path : Files()) {
    struct stat seen {};
    ASSERT_EQ(lstat(path.c_str(), &seen), 0);
    const UniqueFd fd = Open(path);
    EXPECT_EQ(lseek(fd.get(), 0, SEEK_END), seen.st_size) << path;
    EXPECT_EQ(Errno(lseek(fd.get(), seen.st_size, SEEK_DATA)), ENXIO) << path;
    EXPECT_EQ(Errno(lseek(fd.get(), seen.st_size + 1, SEEK_HOLE)), ENXIO) << path;
    EXPECT_EQ(Errno(lseek(fd.get(), -1, SEEK_SET)), EINVAL) << path;
    EXPECT_EQ(lseek(fd.get(), 10, SEEK_END), seen.st_size + 10) << path;
    if (seen.st_size == 0) continue;
    EXPECT_EQ(lseek(fd.get(), 0, SEEK_DATA), 0) << path;
    EXPECT_EQ(lseek(fd.get(), 0, SEEK_HOLE), seen.st_size) << path;
    EXPECT_EQ(lseek(fd.get(), seen.st_size - 1, SEEK_DATA), seen.st_size - 1) << path;
  }
}

}  // namespace
}  // namespace pcrfs
