#include "format/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>

#include "tests/support/fork.h"
#include "tests/support/temp_dir.h"

namespace pcrfs {
namespace {

using ::testing::HasSubstr;
using testing::ReadFile;
using testing::TempDir;
using testing::WriteFile;

Bytes Pattern(size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 7 + i / 251);
  return bytes;
}

TEST(FileSourceTest, ReadsAnyPart) {
  const TempDir dir;
  const Bytes bytes = Pattern(300'000);
  WriteFile(dir / "f", bytes);
  const auto file = FileSource::Open(dir / "f", FileSource::Access::kRandom);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ((*file)->size(), bytes.size());
  EXPECT_EQ((*file)->name(), dir / "f");
  EXPECT_EQ((*file)->status().st_size, 300'000);
  Bytes part(1000);
  ASSERT_TRUE((*file)->ReadAt(299'000, part).has_value());
  EXPECT_EQ(part, Bytes(bytes.end() - 1000, bytes.end()));
  EXPECT_TRUE((*file)->ReadAt(300'000, {}).has_value()) << "nothing, at the end";
}

TEST(FileSourceTest, RefusesRequestsBeyondTheEnd) {
  const TempDir dir;
  WriteFile(dir / "f", "0123456789");
  const auto file = FileSource::Open(dir / "f", FileSource::Access::kRandom);
  ASSERT_TRUE(file.has_value());
  Bytes part(2);
  for (const uint64_t offset : {uint64_t{9}, uint64_t{11}, UINT64_MAX}) {
    const auto read = (*file)->ReadAt(offset, part);
    ASSERT_FALSE(read.has_value()) << offset;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(FileSourceTest, AShrunkenFileIsStaleNotShort) {
  const TempDir dir;
  WriteFile(dir / "f", Pattern(10'000));
  const auto file = FileSource::Open(dir / "f", FileSource::Access::kRandom);
  ASSERT_TRUE(file.has_value());
  ASSERT_EQ(truncate((dir / "f").c_str(), 6000), 0);
  Bytes part(2000);
  EXPECT_TRUE((*file)->ReadAt(4000, part).has_value());
  const auto read = (*file)->ReadAt(5000, part);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, ErrorCode::kStale);
  EXPECT_THAT(read.error().message, HasSubstr("at offset 6000"));
  EXPECT_THAT(read.error().message, HasSubstr("10000 bytes"));
}

TEST(FileSourceTest, ReadsPartsOneBehindTheOther) {
  const TempDir dir;
  const Bytes bytes = Pattern(300'000);
  WriteFile(dir / "f", bytes);
  const auto file = FileSource::Open(dir / "f", FileSource::Access::kRandom);
  ASSERT_TRUE(file.has_value());
  const MemorySource memory("m", bytes);
  for (const ByteSource* source :
       {static_cast<const ByteSource*>(file->get()), static_cast<const ByteSource*>(&memory)})
    for (const size_t count : {size_t{1}, size_t{2}, size_t{3}, size_t{7}}) {
      Bytes all(count * 100);
      std::vector<MutableByteSpan> parts;
      for (size_t i = 0; i < count; ++i) parts.push_back(MutableByteSpan(all).subspan(i * 100, i == 1 ? 0 : 100));
      Bytes expected;
      for (size_t i = 0; i < count; ++i) {
        const auto begin = bytes.begin() + 1000 + static_cast<std::ptrdiff_t>(expected.size() - (i > 1 ? 100 : 0));
        expected.insert(expected.end(), i == 1 ? 100 : 0, 0);
        if (i != 1) expected.insert(expected.end(), begin, begin + 100);
      }
      ASSERT_TRUE(source->ReadParts(1000, parts).has_value());
      EXPECT_EQ(all, expected) << count;
      EXPECT_EQ(source->ReadParts(300'000 - 10, parts).error().code, ErrorCode::kInvalidArgument);
    }
  EXPECT_TRUE((*file)->ReadParts(5, {}).has_value());
}

TEST(FileSourceTest, PartsOfAShrunkenFileAreStale) {
  const TempDir dir;
  WriteFile(dir / "f", Pattern(10'000));
  const auto file = FileSource::Open(dir / "f", FileSource::Access::kRandom);
  ASSERT_TRUE(file.has_value());
  ASSERT_EQ(truncate((dir / "f").c_str(), 6000), 0);
  Bytes first(500), second(1000);
  const std::vector<MutableByteSpan> parts = {first, second};
  const auto read = (*file)->ReadParts(5000, parts);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, ErrorCode::kStale);
}

TEST(FileSourceTest, GivesAtHandWhatIsCachedAndWaitsForNothingElse) {
  const TempDir dir;
  const Bytes bytes = Pattern(1 << 20);
  WriteFile(dir / "f", bytes);
  const auto file = FileSource::Open(dir / "f", FileSource::Access::kRandom);
  ASSERT_TRUE(file.has_value());
  Bytes first(1000), second(2000);
  const std::vector<MutableByteSpan> parts = {first, second};
  iovec one{first.data(), 1};
  if (preadv2((*file)->fd(), &one, 1, 0, RWF_NOWAIT) < 0 && errno == EOPNOTSUPP) {
    EXPECT_FALSE((*file)->ReadPartsAtHand(500'000, parts));
    GTEST_SKIP() << "NOT TESTED: this file system cannot be asked for what is cached alone";
  }
  EXPECT_TRUE((*file)->ReadPartsAtHand(500'000, parts)) << "just written";
  EXPECT_TRUE(std::equal(first.begin(), first.end(), bytes.begin() + 500'000));
  EXPECT_TRUE(std::equal(second.begin(), second.end(), bytes.begin() + 501'000));
  EXPECT_FALSE((*file)->ReadPartsAtHand((1 << 20) - 1500, parts)) << "beyond the end";
  ASSERT_EQ(fsync((*file)->fd()), 0);
  ASSERT_EQ(posix_fadvise((*file)->fd(), 0, 0, POSIX_FADV_DONTNEED), 0);
  EXPECT_FALSE((*file)->ReadPartsAtHand(500'000, parts));
  ASSERT_TRUE((*file)->ReadParts(500'000, parts).has_value());
  EXPECT_TRUE((*file)->ReadPartsAtHand(500'000, parts));
}

TEST(FileSourceTest, OutlivesItsName) {
  const TempDir dir;
  WriteFile(dir / "f", "still here");
  const auto file = FileSource::Open(dir / "f", FileSource::Access::kRandom);
  ASSERT_TRUE(file.has_value());
  std::filesystem::remove(dir / "f");
  Bytes part(10);
  ASSERT_TRUE((*file)->ReadAt(0, part).has_value());
  EXPECT_EQ(AsText(part), "still here");
}

TEST(FileSourceTest, RefusesWhatIsNoRegularFile) {
  const TempDir dir;
  ASSERT_EQ(mkfifo((dir / "fifo").c_str(), 0600), 0);
  const auto fifo = FileSource::Open(dir / "fifo", FileSource::Access::kSequential);  // would hang without O_NONBLOCK
  ASSERT_FALSE(fifo.has_value());
  EXPECT_EQ(fifo.error().code, ErrorCode::kInvalidArgument);
  const auto folder = FileSource::Open(dir.path(), FileSource::Access::kSequential);
  ASSERT_FALSE(folder.has_value());
  EXPECT_EQ(folder.error().code, ErrorCode::kIsDirectory);
  const auto missing = FileSource::Open(dir / "no\nsuch", FileSource::Access::kSequential);
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("no\\x0asuch"));
}

TEST(FileSourceTest, FollowsLinks) {
  const TempDir dir;
  WriteFile(dir / "f", "target");
  std::filesystem::create_symlink("f", dir / "link");
  const auto file = FileSource::Open(dir / "link", FileSource::Access::kRandom);
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ((*file)->size(), 6u);
}

// How many pages of the file are in the page cache.
size_t CachedPages(const FileSource& file) {
  void* map = mmap(nullptr, file.size(), PROT_READ, MAP_SHARED, file.fd(), 0);
  if (map == MAP_FAILED) return 0;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident((file.size() + page - 1) / page);
  const int failed = mincore(map, file.size(), resident.data());
  munmap(map, file.size());
  size_t count = 0;
  for (const unsigned char bits : resident) count += bits & 1u;
  return failed == 0 ? count : 0;
}

TEST(FileSourceTest, WillNeedBringsTheWholeRange) {
  const TempDir dir;
  WriteFile(dir / "f", Pattern(3'000'000));
  const auto file = FileSource::Open(dir / "f", FileSource::Access::kRandom);
  ASSERT_TRUE(file.has_value());
  ASSERT_EQ(fsync((*file)->fd()), 0);
  posix_fadvise((*file)->fd(), 0, 0, POSIX_FADV_DONTNEED);
  const size_t pages = (3'000'000 + 4095) / 4096;
  (*file)->WillNeed(3'000'000, 1);  // nothing there, nothing asked for
  (*file)->WillNeed(UINT64_MAX, UINT64_MAX);
  (*file)->WillNeed(0, UINT64_MAX);
  for (int i = 0; i < 500 && CachedPages(**file) < pages; ++i) usleep(10'000);
  EXPECT_EQ(CachedPages(**file), pages);
}

TEST(MemorySourceTest, ReadsAndRefusesLikeAFile) {
  const Bytes bytes = Pattern(100);
  const MemorySource source("memory", bytes);
  Bytes part(10);
  ASSERT_TRUE(source.ReadAt(90, part).has_value());
  EXPECT_EQ(part, Bytes(bytes.end() - 10, bytes.end()));
  for (const uint64_t offset : {uint64_t{91}, uint64_t{101}, UINT64_MAX}) {
    const auto read = source.ReadAt(offset, part);
    ASSERT_FALSE(read.has_value()) << offset;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(ReadWholeFileTest, ReadsUpToTheLimit) {
  const TempDir dir;
  WriteFile(dir / "f", "0123456789");
  WriteFile(dir / "empty", "");
  EXPECT_EQ(AsText(ReadWholeFile(dir / "f", 10).value()), "0123456789");
  EXPECT_TRUE(ReadWholeFile(dir / "empty", 0).value().empty());
  const auto large = ReadWholeFile(dir / "f", 9);
  ASSERT_FALSE(large.has_value());
  EXPECT_EQ(large.error().code, ErrorCode::kLimit);
}

TEST(AtomicFileTest, AppearsOnlyWhenCommitted) {
  const TempDir dir;
  auto file = AtomicFile::Create(dir / "out");
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(file->Write(AsBytes("hello ")).has_value());
  ASSERT_TRUE(file->Write(AsBytes("world")).has_value());
  ASSERT_TRUE(file->WriteAt(0, AsBytes("J")).has_value());
  EXPECT_EQ(file->size(), 11u);
  EXPECT_FALSE(std::filesystem::exists(dir / "out"));
  ASSERT_TRUE(file->Commit().has_value());
  EXPECT_EQ(AsText(ReadFile(dir / "out")), "Jello world");
  EXPECT_FALSE(std::filesystem::exists(dir / "out.tmp"));
}

TEST(AtomicFileTest, LeavesTheOldFileWhenDropped) {
  const TempDir dir;
  WriteFile(dir / "out", "old");
  {
    auto file = AtomicFile::Create(dir / "out");
    ASSERT_TRUE(file.has_value());
    const AtomicFile moved = std::move(*file);
    EXPECT_TRUE(std::filesystem::exists(dir / "out.tmp"));
  }
  EXPECT_FALSE(std::filesystem::exists(dir / "out.tmp"));
  EXPECT_EQ(AsText(ReadFile(dir / "out")), "old");
}

TEST(AtomicFileTest, ReplacesWhatAKilledWriterLeft) {
  const TempDir dir;
  WriteFile(dir / "victim", "untouched");
  std::filesystem::create_symlink("victim", dir / "out.tmp");
  auto file = AtomicFile::Create(dir / "out");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  ASSERT_TRUE(file->Write(AsBytes("new")).has_value());
  ASSERT_TRUE(file->Commit().has_value());
  EXPECT_EQ(AsText(ReadFile(dir / "victim")), "untouched");
  EXPECT_EQ(AsText(ReadFile(dir / "out")), "new");
}

TEST(AtomicFileTest, NeverPutsAnotherWritersUnfinishedFileUnderTheName) {
  TempDir dir;
  auto file = AtomicFile::Create(dir / "out");
  ASSERT_TRUE(file && file->Write(AsBytes("whole")));
  auto other = AtomicFile::Create(dir / "out");
  ASSERT_TRUE(other && other->Write(AsBytes("ha")));
  EXPECT_EQ(file->Commit().error().code, ErrorCode::kBusy);
  EXPECT_FALSE(std::filesystem::exists(dir / "out"));
  ASSERT_TRUE(other->Write(AsBytes("lf")) && other->Commit());
  EXPECT_EQ(ReadFile(dir / "out"), (Bytes{'h', 'a', 'l', 'f'}));
}

TEST(AtomicFileTest, RefusesToPatchPastTheEnd) {
  const TempDir dir;
  auto file = AtomicFile::Create(dir / "out");
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(file->Write(AsBytes("1234")).has_value());
  for (const uint64_t offset : {uint64_t{3}, uint64_t{5}, UINT64_MAX}) {
    const auto written = file->WriteAt(offset, AsBytes("xx"));
    ASSERT_FALSE(written.has_value()) << offset;
    EXPECT_EQ(written.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(AtomicFileTest, TakesBackWhatWasWritten) {
  const TempDir dir;
  auto file = AtomicFile::Create(dir / "out");
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(file->Write(AsBytes("keep, drop")).has_value());
  EXPECT_FALSE(file->Truncate(11).has_value());
  ASSERT_TRUE(file->Truncate(5).has_value());
  ASSERT_TRUE(file->Write(AsBytes("!")).has_value());
  ASSERT_TRUE(file->Commit().has_value());
  EXPECT_EQ(AsText(ReadFile(dir / "out")), "keep,!");
}

TEST(AtomicFileTest, SaysWhyItCannotWrite) {
  const TempDir dir;
  const auto missing = AtomicFile::Create(dir / "no/folder/out");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  auto file = AtomicFile::Create(dir / "out");
  ASSERT_TRUE(file.has_value());
  ASSERT_EQ(mkdir((dir / "out").c_str(), 0700), 0);
  EXPECT_FALSE(file->Commit().has_value()) << "a folder is in the way";
}

TEST(SyncDirectoryTest, NeedsAFolder) {
  const TempDir dir;
  EXPECT_TRUE(SyncDirectory(dir.path()).has_value());
  WriteFile(dir / "f", "x");
  EXPECT_FALSE(SyncDirectory(dir / "f").has_value());
}

// As a file server has while one of its clients has the file open.
TEST(FileSourceTest, AFileThatAnotherProcessHasALeaseOnIsOpenedWhenThatGivesItBack) {
  TempDir dir;
  WriteFile(dir / "leased", "text");
  std::array<int, 2> ready{};
  ASSERT_EQ(pipe(ready.data()), 0);
  const pid_t holder = testing::Fork();
  if (holder == 0) {
    const int fd = open((dir / "leased").c_str(), O_RDWR);
    sigset_t asked;
    sigemptyset(&asked);
    sigaddset(&asked, SIGIO);
    sigprocmask(SIG_BLOCK, &asked, nullptr);
    const char leased = fcntl(fd, F_SETLEASE, F_WRLCK) == 0 ? 'y' : 'n';
    if (write(ready[1], &leased, 1) != 1) _exit(1);
    int signal = 0;
    sigwait(&asked, &signal);
    fcntl(fd, F_SETLEASE, F_UNLCK);
    _exit(0);
  }
  char leased = 0;
  ASSERT_EQ(read(ready[0], &leased, 1), 1);
  if (leased == 'y') {
    const auto file = FileSource::Open(dir / "leased", FileSource::Access::kSequential);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ((*file)->size(), 4U);
  }
  kill(holder, SIGKILL);
  waitpid(holder, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  if (leased != 'y') GTEST_SKIP() << "no leases on this file system";
}

}  // namespace
}  // namespace pcrfs
