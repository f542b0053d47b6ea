// The sources' own bytes through a real mount, and by the commands that need none.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "format/checksum.h"
#include "format/dataset.h"
#include "format/file.h"
#include "tests/support/jpeg_surgery.h"
#include "tests/support/mount_fixture.h"
#include "tests/support/test_jpeg.h"

namespace pcrfs {
namespace {

using testing::BackgroundMount;
using testing::FilesBelow;
using ::testing::HasSubstr;
using testing::MakeJpeg;
using testing::PackedPhotos;
using testing::ProgramResult;
using testing::ReadFile;
using testing::RunProgram;

PackOptions Exact() {
  PackOptions options;
  options.record_images = 7;
  options.encode.exact = true;
  return options;
}

// Half of its luma blocks only fill up MCUs and hold a picture all the same: converted, but not restorable.
constexpr const char* kNotRestorable = "n00/not restorable.jpg";
void AddNotRestorable(const std::string& source) {
  const Bytes jpeg = MakeJpeg({.width = 80, .height = 16});
  testing::WriteFile(source + "/" + kNotRestorable, testing::WithFrameSize(jpeg, 80, 8));
}

// A photo whose restore takes a few milliseconds and which is read in several requests.
constexpr const char* kLarge = "n00/large.jpg";
void AddLarge(const std::string& source) {
  testing::WriteFile(source + "/" + kLarge, MakeJpeg({.width = 1600, .height = 1200, .quality = 95}));
}

class OriginalTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    photos_ = std::make_unique<PackedPhotos>(testing::PhotoFolder{}, Exact(), [](const std::string& source) {
      AddLarge(source);
      AddNotRestorable(source);  // opaque, then
    });
    mount_ = std::make_unique<BackgroundMount>(*photos_);
  }
  static void TearDownTestSuite() {
    mount_.reset();
    photos_.reset();
  }
  [[nodiscard]] static std::string Shown(const std::string& file) { return *mount_ / ("original/" + file); }
  [[nodiscard]] static Bytes Source(const std::string& file) { return ReadFile(photos_->source() + "/" + file); }
  static void ForgetPages(const std::string& file) {
    const UniqueFd fd(open(Shown(file).c_str(), O_RDONLY));
    posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  }

  static inline std::unique_ptr<PackedPhotos> photos_;
  static inline std::unique_ptr<BackgroundMount> mount_;
};

TEST_F(OriginalTest, EveryFileIsItsSourceByteForByte) {
  EXPECT_EQ(FilesBelow(*mount_ / "original"), FilesBelow(photos_->source()));
  for (const std::string& file : FilesBelow(photos_->source())) {
    const Bytes source = Source(file);
    EXPECT_EQ(std::filesystem::file_size(Shown(file)), source.size()) << file;
    EXPECT_EQ(Sha256::Of(ReadFile(Shown(file))), Sha256::Of(source)) << file;
    EXPECT_EQ(std::filesystem::last_write_time(Shown(file)),
              std::filesystem::last_write_time(photos_->source() + "/" + file))
        << file;
  }
}

TEST_F(OriginalTest, DiffFindsNothing) {
  const ProgramResult diff = RunProgram({"diff", "-r", photos_->source(), Shown("")});
  EXPECT_EQ(diff.status, 0) << diff.out << diff.err;
}

TEST_F(OriginalTest, NumbersAreTheLevelsWithLevelNought) {
  struct stat level {
  }, original{};
  ASSERT_EQ(stat((*mount_ / "scan3/n01/0.jpg").c_str(), &level), 0);
  ASSERT_EQ(stat(Shown("n01/0.jpg").c_str(), &original), 0);
  EXPECT_EQ(original.st_ino, level.st_ino - 3);
  EXPECT_EQ(original.st_mode, level.st_mode);
  ASSERT_EQ(stat(Shown("").c_str(), &original), 0);
  EXPECT_EQ(original.st_ino, 32u);
}

TEST_F(OriginalTest, StatfsAddsUpTheSources) {
  uint64_t bytes = 0;
  for (const std::string& file : FilesBelow(photos_->source()))
    bytes += std::filesystem::file_size(photos_->source() + "/" + file);
  struct statvfs shown {};
  ASSERT_EQ(statvfs(Shown("").c_str(), &shown), 0);
  EXPECT_EQ(shown.f_blocks, (bytes + shown.f_frsize - 1) / shown.f_frsize);
}

TEST_F(OriginalTest, ReadsAnywhereInAnyOrder) {
  const Bytes source = Source(kLarge);
  const UniqueFd fd(open(Shown(kLarge).c_str(), O_RDONLY));
  std::minstd_rand random(5);
  for (int i = 0; i < 300; ++i) {
    if (i % 30 == 0) ForgetPages(kLarge);
    const size_t offset = random() % (source.size() + 100), size = 1 + random() % 70'000;
    Bytes part(size);
    const ssize_t got = pread(fd.get(), part.data(), size, static_cast<off_t>(offset));
    const size_t expected = offset >= source.size() ? 0 : std::min(size, source.size() - offset);
    ASSERT_EQ(got, static_cast<ssize_t>(expected)) << offset;
    ASSERT_TRUE(std::equal(part.begin(), part.begin() + got,
                           source.begin() + static_cast<std::ptrdiff_t>(std::min(offset, source.size()))));
  }
}

TEST_F(OriginalTest, CanBeMapped) {
  ForgetPages(kLarge);
  const Bytes source = Source(kLarge);
  const UniqueFd fd(open(Shown(kLarge).c_str(), O_RDONLY));
  void* mapped = mmap(nullptr, source.size(), PROT_READ, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const auto* bytes = static_cast<const uint8_t*>(mapped);
  for (size_t page = source.size() / 4096; page-- > 0;) ASSERT_EQ(bytes[page * 4096], source[page * 4096]);
  EXPECT_TRUE(std::equal(source.begin(), source.end(), bytes));
  munmap(mapped, source.size());
}

TEST_F(OriginalTest, ManyReadersOfOneImageAllGetIt) {
  ForgetPages(kLarge);
  const Bytes source = Source(kLarge);
  std::vector<std::thread> readers;
  for (int i = 0; i < 16; ++i) readers.emplace_back([&] { EXPECT_TRUE(ReadFile(Shown(kLarge)) == source); });
  for (std::thread& reader : readers) reader.join();
}

TEST_F(OriginalTest, AsTheMountsRoot) {
  const PackedPhotos photos({}, Exact());
  const BackgroundMount mount(photos, {"-o", "level=original"});
  const ProgramResult diff = RunProgram({"diff", "-r", photos.source(), mount.path()});
  EXPECT_EQ(diff.status, 0) << diff.out << diff.err;
  EXPECT_THAT(photos.Pcrfs({"list"}).out, HasSubstr(" original "));
}

TEST_F(OriginalTest, MoreReadersThanTheBudgetHasRoomForAllGetTheirImages) {
  const PackedPhotos photos({.classes = 4, .images_per_class = 8}, Exact(), AddLarge);
  for (const char* memory : {"restore_memory=1", "restore_memory=20MiB"}) {
    const BackgroundMount mount(photos, {"-o", memory});
    const std::vector<std::string> files = FilesBelow(photos.source());
    std::vector<std::thread> readers;
    for (size_t reader = 0; reader < 12; ++reader)
      readers.emplace_back([&, reader] {
        for (size_t i = 0; i < files.size(); ++i) {
          const std::string& file = files[(i * 5 + reader * 7) % files.size()];
          EXPECT_TRUE(ReadFile(mount / ("original/" + file)) == ReadFile(photos.source() + "/" + file)) << file;
        }
      });
    for (std::thread& reader : readers) reader.join();
  }
}

TEST_F(OriginalTest, WhatCannotBeRestoredIsShownAsAtTheHighestLevel) {
  const PackedPhotos photos({.classes = 1}, {}, AddNotRestorable);
  const BackgroundMount mount(photos);
  const std::string shown = mount / (std::string("original/") + kNotRestorable);
  const Bytes highest = ReadFile(mount / (std::string("scan10/") + kNotRestorable));
  EXPECT_TRUE(highest != ReadFile(photos.source() + "/" + kNotRestorable));
  EXPECT_EQ(std::filesystem::file_size(shown), highest.size());
  EXPECT_TRUE(ReadFile(shown) == highest);
}

TEST_F(OriginalTest, CatAndLsAndExtractGiveTheSources) {
  for (const std::string& file : {std::string(kLarge), std::string("n00/3.jpg"), std::string("notes.txt")}) {
    const Bytes source = Source(file);
    const ProgramResult cat = photos_->Pcrfs({"cat", photos_->dataset(), file, "--original"});
    EXPECT_EQ(cat.status, 0) << cat.err;
    EXPECT_TRUE(cat.out == AsText(source)) << file;
    EXPECT_THAT(photos_->Pcrfs({"ls", "-l", "--original", photos_->dataset(), file}).out,
                HasSubstr(" " + std::to_string(source.size()) + " "));
  }
  const ProgramResult extracted = photos_->Pcrfs({"extract", photos_->dataset(), *photos_ / "out", "--original"});
  EXPECT_EQ(extracted.status, 0) << extracted.err;
  const ProgramResult diff = RunProgram({"diff", "-r", photos_->source(), *photos_ / "out"});
  EXPECT_EQ(diff.status, 0) << diff.out << diff.err;
  for (const std::string& file : FilesBelow(photos_->source())) {
    struct stat source {
    }, copy{};
    ASSERT_EQ(stat((photos_->source() + "/" + file).c_str(), &source), 0);
    ASSERT_EQ(stat((*photos_ / "out/" + file).c_str(), &copy), 0);
    EXPECT_EQ(copy.st_mode, source.st_mode) << file;
    EXPECT_EQ(copy.st_mtim.tv_nsec, source.st_mtim.tv_nsec) << file;
  }
  EXPECT_THAT(photos_->Pcrfs({"cat", photos_->dataset(), "original/notes.txt"}).err, HasSubstr("say --original"));
}

// Byte `offset` of the first shard is another one while this is there.
class FlippedByte {
 public:
  FlippedByte(const PackedPhotos& photos, uint64_t offset)
      : fd_(open((photos.dataset() + "/PCR_0.pcr").c_str(), O_RDWR)), offset_(static_cast<off_t>(offset)) {
    Flip();
  }
  ~FlippedByte() { Flip(); }
  FlippedByte(const FlippedByte&) = delete;
  FlippedByte& operator=(const FlippedByte&) = delete;

 private:
  void Flip() const {
    uint8_t byte = 0;
    EXPECT_EQ(pread(fd_.get(), &byte, 1, offset_), 1);
    byte ^= 0x10;
    EXPECT_EQ(pwrite(fd_.get(), &byte, 1, offset_), 1);
  }
  UniqueFd fd_;
  off_t offset_;
};

TEST_F(OriginalTest, DamageIsAnErrorAndToldOnce) {
  const PackedPhotos photos({.classes = 1});
  EntryLayout layout;
  std::string path;
  {
    const auto dataset = Dataset::Open(photos.dataset());
    const auto shard = dataset->OpenShard(0);
    const auto index = dataset->ReadShardIndex(0, **shard);
    for (const Entry& entry : index->entries)
      if (NeedsRestoring(entry.layout)) {
        layout = entry.layout;
        path = EntryPath(*index, entry);
      }
  }
  ASSERT_FALSE(path.empty());
  const uint64_t places[] = {layout.restore.offset + layout.restore.size / 2, layout.extents[0].offset + 30,
                             layout.extents[9].offset + 3};
  for (const uint64_t place : places) {
    const FlippedByte flipped(photos, place);
    const std::string log = photos / ("log" + std::to_string(place));
    {
      const BackgroundMount mount(photos, {"--log-file", log});
      for (int i = 0; i < 3; ++i) {
        const UniqueFd fd(open((mount / ("original/" + path)).c_str(), O_RDONLY));
        Bytes bytes(100);
        EXPECT_EQ(read(fd.get(), bytes.data(), bytes.size()), -1);
        EXPECT_EQ(errno, EIO);
      }
      for (const std::string& file : FilesBelow(photos.source()))
        EXPECT_TRUE(file == path || ReadFile(mount / ("original/" + file)) == ReadFile(photos.source() + "/" + file));
      EXPECT_EQ(photos.Pcrfs({"umount", mount.path()}).status, 0);
    }
    const Bytes text = ReadFile(log);
    const std::string lines{AsText(text)};
    const size_t first = lines.find(" error ");
    EXPECT_THAT(lines, HasSubstr("CRC-32 expected"));
    EXPECT_THAT(lines, HasSubstr(path));
    EXPECT_EQ(lines.find(" error ", first + 1), std::string::npos) << lines;
    const ProgramResult cat = photos.Pcrfs({"cat", photos.dataset(), path, "--original"});
    EXPECT_EQ(cat.status, 1);
    EXPECT_EQ(cat.out, "");
    const ProgramResult extracted = photos.Pcrfs({"extract", photos.dataset(), photos / "out", "--original"});
    EXPECT_EQ(extracted.status, 1);
    EXPECT_THAT(extracted.err, HasSubstr("left out '" + path + "'"));
    EXPECT_EQ(FilesBelow(photos / "out").size(), FilesBelow(photos.source()).size() - 1);
    std::filesystem::remove_all(photos / "out");
  }
}

}  // namespace
}  // namespace pcrfs
