// A flipped byte on disk: EIO where that byte is needed, the right bytes everywhere else, and one line in the log.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "format/dataset.h"
#include "tests/support/mount_fixture.h"

namespace pcrfs {
namespace {

using ::testing::AllOf;
using testing::BackgroundMount;
using ::testing::ElementsAre;
using testing::FilesBelow;
using ::testing::HasSubstr;
using testing::PackedPhotos;

// The file's bytes, or nothing when reading it gave EIO; anything else fails the test.
std::optional<Bytes> ReadOrEio(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY));
  EXPECT_TRUE(fd.valid()) << path;
  Bytes bytes, part(65536);
  while (true) {
    const ssize_t size = read(fd.get(), part.data(), part.size());
    if (size < 0) {
      EXPECT_EQ(errno, EIO) << path;
      return std::nullopt;
    }
    if (size == 0) return bytes;
    bytes.insert(bytes.end(), part.begin(), part.begin() + size);
  }
}

void FlipByte(const std::string& path, uint64_t offset) {
  const UniqueFd fd(open(path.c_str(), O_RDWR));
  uint8_t byte = 0;
  ASSERT_EQ(pread(fd.get(), &byte, 1, static_cast<off_t>(offset)), 1);
  byte ^= 1;
  ASSERT_EQ(pwrite(fd.get(), &byte, 1, static_cast<off_t>(offset)), 1);
}

// Lines of a daemon's log but those of its start and end: umount does not wait for the daemon to write its last one.
std::vector<std::string> Faults(const std::string& log) {
  const Bytes text = testing::ReadFile(log);
  std::istringstream in{std::string(AsText(text))};
  std::vector<std::string> faults;
  for (std::string line; std::getline(in, line);)
    if (line.find(" info ") == std::string::npos) faults.push_back(line);
  return faults;
}

// The first colour image in the first shard: its path and layout.
struct Victim {
  std::string path;
  EntryLayout layout;
};

Victim FindVictim(const PackedPhotos& photos) {
  const auto dataset = Dataset::Open(photos.dataset());
  const auto shard = dataset->OpenShard(0);
  const auto index = dataset->ReadShardIndex(0, **shard);
  for (const Entry& entry : index->entries)
    if (entry.layout.kind == EntryKind::kImage && entry.layout.extents[3].size > 0)
      return {EntryPath(*index, entry), entry.layout};
  ADD_FAILURE() << "no colour image";
  return {};
}

TEST(DamageTest, AFlippedByteIsAnErrorOnlyWhereItIsNeeded) {
  const PackedPhotos photos;
  const Victim victim = FindVictim(photos);
  std::vector<std::vector<Bytes>> expected(kShardLevels);
  const std::vector<std::string> files = FilesBelow(photos.source());
  {
    const BackgroundMount mount(photos);
    for (int k = 1; k <= kShardLevels; ++k)
      for (const std::string& file : files)
        expected[static_cast<size_t>(k - 1)].push_back(
            testing::ReadFile(mount / ("scan" + std::to_string(k) + "/" + file)));
  }
  for (const int group : {1, 4, 10}) {
    const Extent& extent = victim.layout.extents[static_cast<size_t>(group - 1)];
    const uint64_t offset = extent.offset + extent.size / 2;
    FlipByte(photos.dataset() + "/PCR_0.pcr", offset);
    const std::string log = photos / ("log" + std::to_string(group));
    {
      const BackgroundMount mount(photos, {"--log-file", log});
      for (int round = 0; round < 3; ++round)
        for (int k = 1; k <= kShardLevels; ++k)
          for (size_t i = 0; i < files.size(); ++i) {
            const auto bytes = ReadOrEio(mount / ("scan" + std::to_string(k) + "/" + files[i]));
            if (files[i] == victim.path && k >= group) {
              EXPECT_FALSE(bytes) << files[i] << " at level " << k << ", byte of group " << group << " flipped";
            } else {
              EXPECT_TRUE(bytes == expected[static_cast<size_t>(k - 1)][i]) << files[i] << " at level " << k;
            }
          }
      EXPECT_EQ(photos.Pcrfs({"umount", mount.path()}).status, 0);
    }
    EXPECT_THAT(Faults(log), ElementsAre(AllOf(HasSubstr(" error "), HasSubstr("PCR_0.pcr"))));
    FlipByte(photos.dataset() + "/PCR_0.pcr", offset);
  }
}

TEST(DamageTest, ACatalogThatGoesBadUnderTheMountIsToldOnceAndBuiltAnew) {
  const PackedPhotos photos;
  const std::string log = photos / "log";
  {
    const BackgroundMount mount(photos, {"--log-file", log});
    for (const std::string& file : FilesBelow(photos.cache())) {
      if (!file.ends_with("catalog.mdb")) continue;
      const Bytes catalog = testing::ReadFile(photos.cache() + "/" + file);
      const std::string_view text = AsText(catalog);
      for (size_t at = text.find("0.jpg"); at != std::string_view::npos; at = text.find("0.jpg", at + 1))
        FlipByte(photos.cache() + "/" + file, at);
    }
    for (int k = 1; k <= kShardLevels; ++k)
      for (const char* folder : {"/n00", "/n01"}) {
        const std::string path = mount / ("scan" + std::to_string(k) + folder + "/0.jpg");
        EXPECT_EQ(access(path.c_str(), F_OK), -1) << path;
        EXPECT_EQ(errno, EIO) << path;
      }
    EXPECT_EQ(photos.Pcrfs({"umount", mount.path()}).status, 0);
  }
  EXPECT_THAT(Faults(log), ElementsAre(HasSubstr(" error ")));
  const BackgroundMount again(photos);
  EXPECT_EQ(access((again / "scan1/n00/0.jpg").c_str(), F_OK), 0);
}

TEST(DamageTest, AShardThatShrinksUnderTheMountIsAnErrorAndNeverAShortRead) {
  const PackedPhotos photos;
  const Victim victim = FindVictim(photos);
  const BackgroundMount mount(photos);
  const std::string shard = photos.dataset() + "/PCR_0.pcr";
  const Bytes level1 = testing::ReadFile(mount / ("scan1/" + victim.path));
  ASSERT_EQ(truncate(shard.c_str(), static_cast<off_t>(victim.layout.extents[4].offset)), 0);
  const UniqueFd fd(open((mount / ("scan10/" + victim.path)).c_str(), O_RDONLY));
  Bytes part(1 << 20);
  EXPECT_EQ(read(fd.get(), part.data(), part.size()), -1);
  EXPECT_TRUE(errno == EIO || errno == ESTALE) << errno;
  EXPECT_EQ(testing::ReadFile(mount / ("scan1/" + victim.path)), level1);
}

TEST(DamageTest, AShardUnlinkedWhileInUseStillReads) {
  const PackedPhotos photos;
  const Victim victim = FindVictim(photos);
  const BackgroundMount mount(photos);
  ASSERT_TRUE(ReadOrEio(mount / ("scan1/" + victim.path)));
  const Bytes source = testing::ReadFile(photos.dataset() + "/PCR_0.pcr");
  ASSERT_EQ(unlink((photos.dataset() + "/PCR_0.pcr").c_str()), 0);
  const auto bytes = ReadOrEio(mount / ("scan10/" + victim.path));
  ASSERT_TRUE(bytes);
  EXPECT_TRUE(std::search(source.begin(), source.end(), bytes->begin() + 2, bytes->begin() + 50) != source.end());
}

}  // namespace
}  // namespace pcrfs
