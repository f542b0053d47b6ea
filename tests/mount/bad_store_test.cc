// Disks that fail and shards that come and go under real mounts: cp gives the right bytes or an error, other files are
// not affected, and cp after cp gets through as soon as the shard is whole, without a remount.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "format/dataset.h"
#include "mount/mount_point.h"
#include "tests/support/mount_fixture.h"
#include "tests/support/sanitizers.h"

namespace pcrfs {
namespace {

using ::testing::AllOf;
using testing::BackgroundMount;
using ::testing::Each;
using testing::Eventually;
using testing::FaultInjector;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::PackedPhotos;
using testing::ReadFile;
using testing::RunProgram;
using testing::SessionMount;
using testing::WrappedSource;
using testing::WriteFile;
using namespace std::chrono_literals;

// Photos in several shards, and a large opaque file in the first.
class ManyShards : public PackedPhotos {
 public:
  ManyShards() : PackedPhotos({4, 12, true}, Options(), AddLargeFile) {}

  // An image in that shard, the first but `skip`.
  [[nodiscard]] std::string In(size_t shard, size_t skip = 0) const {
    const auto dataset = Dataset::Open(this->dataset());
    const auto index = dataset->ReadShardIndex(shard, **dataset->OpenShard(shard));
    return EntryPath(*index, index->entries.at(skip));
  }

 private:
  static void AddLargeFile(const std::string& source) {
    Bytes bytes(1'000'000);
    std::mt19937 random(5);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    WriteFile(source + "/n00/large.bin", bytes);
  }
  static PackOptions Options() {
    PackOptions options;
    options.record_images = 16;
    return options;
  }
};

// What a data set shows, learnt from the files of a mount while all is well.
class Contents {
 public:
  Contents(const PackedPhotos& photos, const std::string& mount_point) {
    for (const std::string& file : testing::FilesBelow(photos.source()))
      for (const int level : {1, 5, 10}) {
        const std::string path = "scan" + std::to_string(level) + "/" + file;
        files_.emplace_back(path, ReadFile(mount_point + "/" + path));
      }
  }

  // How many files of the mount are right, and how many give EIO; any other error, or wrong bytes, fails the test.
  struct Tally {
    size_t right = 0, refused = 0;
  };
  [[nodiscard]] Tally Check(const std::string& mount_point) const {
    Tally tally;
    for (const auto& [path, right] : files_) {
      const UniqueFd fd(open((mount_point + "/" + path).c_str(), O_RDONLY));
      EXPECT_TRUE(fd.valid()) << path;
      struct stat seen {};
      EXPECT_EQ(fstat(fd.get(), &seen), 0);
      EXPECT_EQ(static_cast<size_t>(seen.st_size), right.size());
      Bytes bytes(right.size() + 1);
      ssize_t size = 0, got = 0;
      do {
        got = read(fd.get(), bytes.data() + size, bytes.size() - static_cast<size_t>(size));
        size += std::max<ssize_t>(got, 0);
      } while (got > 0);
      if (got < 0) {
        EXPECT_TRUE(errno == EIO || errno == ESTALE) << path << ": " << errno;
        ++tally.refused;
        continue;
      }
      bytes.resize(static_cast<size_t>(size));
      EXPECT_TRUE(bytes == right) << path;
      ++tally.right;
    }
    return tally;
  }
  [[nodiscard]] bool AllRight(const std::string& mount_point) const {
    return Check(mount_point).right == files_.size();
  }

 private:
  std::vector<std::pair<std::string, Bytes>> files_;
};

// Lines of a daemon's log that tell of faults.
std::vector<std::string> Faults(const std::string& log) {
  const Bytes text = ReadFile(log);
  std::istringstream in{std::string(AsText(text))};
  std::vector<std::string> faults;
  for (std::string line; std::getline(in, line);)
    if (line.find(" error ") != std::string::npos) faults.push_back(line);
  return faults;
}

class ShardsComeAndGoTest : public ::testing::Test {
 protected:
  ShardsComeAndGoTest() {
    const BackgroundMount mount(photos_);
    contents_ = std::make_unique<Contents>(photos_, mount.path());
    EXPECT_EQ(photos_.Pcrfs({"umount", mount.path()}).status, 0);
  }

  [[nodiscard]] int Cp(const BackgroundMount& mount, const std::string& path) const {
    return RunProgram({"cp", mount / path, photos_ / "copy"}).status;
  }
  // cp after cp, until one gets through.
  void ExpectToHeal(const BackgroundMount& mount, const std::string& path) const {
    EXPECT_TRUE(Eventually([&] { return Cp(mount, path) == 0; }));
    EXPECT_EQ(ReadFile(photos_ / "copy"), ReadFile(mount / path));
  }

  ManyShards photos_;
  const std::string first_ = photos_.In(0), second_ = photos_.In(0, 1), other_ = photos_.In(1);
  const std::string shard_ = photos_.dataset() + "/PCR_0.pcr";
  const Bytes whole_ = ReadFile(shard_);
  const std::string log_ = photos_ / "log";
  std::unique_ptr<Contents> contents_;
};

TEST_F(ShardsComeAndGoTest, CutAndGrownAgain) {
  const BackgroundMount mount(photos_, {"--log-file", log_});
  EXPECT_EQ(Cp(mount, "scan1/" + second_), 0);
  ASSERT_EQ(truncate(shard_.c_str(), 2000), 0);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Cp(mount, "scan10/" + first_), 1);
  const auto faults = Faults(log_);
  EXPECT_EQ(faults.size(), 1u) << "though the file lies at ten places";
  EXPECT_THAT(faults, Each(AllOf(HasSubstr("'PCR_0.pcr', '" + first_ + "' at level 10"), HasSubstr("offset"),
                                 HasSubstr(std::to_string(whole_.size())))));
  EXPECT_EQ(Cp(mount, "scan10/" + other_), 0) << "in another shard";
  EXPECT_EQ(Cp(mount, "scan1/" + second_), 0) << "cached";
  EXPECT_GT(contents_->Check(mount.path()).refused, 30u);
  EXPECT_EQ(Faults(log_).size(), 1u) << "one line a shard, not one an entry";
  EXPECT_EQ(RunProgram({"ls", "-lR", mount / ""}).status, 0);
  WriteFile(shard_, whole_);
  ExpectToHeal(mount, "scan10/" + first_);
  EXPECT_TRUE(Eventually([&] { return contents_->AllRight(mount.path()); }));
}

TEST_F(ShardsComeAndGoTest, RemovedAndCopiedBack) {
  const BackgroundMount mount(photos_, {"--log-file", log_});
  ASSERT_EQ(rename(shard_.c_str(), (photos_ / "away").c_str()), 0);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Cp(mount, "scan10/" + first_), 1);
  EXPECT_EQ(Faults(log_).size(), 1u);
  EXPECT_THAT(Faults(log_), Each(AllOf(HasSubstr("PCR_0.pcr"), HasSubstr("missing"))));
  EXPECT_EQ(Cp(mount, "scan10/" + other_), 0);
  ASSERT_EQ(RunProgram({"cp", photos_ / "away", shard_}).status, 0);
  ExpectToHeal(mount, "scan10/" + first_);
  ASSERT_EQ(unlink(shard_.c_str()), 0);
  EXPECT_TRUE(contents_->AllRight(mount.path())) << "from what is open";
}

TEST_F(ShardsComeAndGoTest, ReplacedInEveryWay) {
  Bytes other(whole_.size());
  std::mt19937 random(1);
  for (uint8_t& byte : other) byte = static_cast<uint8_t>(random());
  const auto overwrite = [&](const Bytes& bytes) { WriteFile(shard_, bytes); };
  const auto rename_over = [&](const Bytes& bytes) {
    WriteFile(shard_ + ".new", bytes);
    ASSERT_EQ(rename((shard_ + ".new").c_str(), shard_.c_str()), 0);
  };
  for (const bool open_before : {true, false})
    for (const bool by_rename : {true, false}) {
      const BackgroundMount mount(photos_, {"--log-file", log_});
      if (open_before) {
        EXPECT_EQ(Cp(mount, "scan10/" + second_), 0);
      }
      by_rename ? rename_over(other) : overwrite(other);
      const auto tally = contents_->Check(mount.path());
      EXPECT_GT(tally.right, 0u) << "the other shard";
      if (open_before && by_rename)
        EXPECT_EQ(tally.refused, 0u) << "what is open is right";
      else
        EXPECT_GT(tally.refused, 0u);
      by_rename ? rename_over(whole_) : overwrite(whole_);
      ExpectToHeal(mount, "scan10/" + first_);
      EXPECT_TRUE(Eventually([&] { return contents_->AllRight(mount.path()); }));
      EXPECT_EQ(photos_.Pcrfs({"umount", mount.path()}).status, 0);
    }
}

// A descriptor a shard is more than the daemon may have, and there are more readers than that, too.
TEST(FewDescriptorsTest, AreEnoughForManyShardsAndReaders) {
  PCRFS_NOT_UNDER_ADDRESS_SANITIZER();
  PackOptions one_a_shard;
  one_a_shard.record_images = 1;
  const PackedPhotos photos({2, 30, true}, one_a_shard);
  const std::string log = photos / "log";
  std::vector<std::string> words = photos.Environment();
  for (const char* word : {"sh", "-c", "ulimit -n 16 && exec \"$@\"", "sh", PCRFS_PROGRAM, "mount"})
    words.emplace_back(word);
  words.insert(words.end(), {photos.dataset(), photos.mount_point(), "--log-file", log});
  const auto mounted = RunProgram(words);
  ASSERT_EQ(mounted.status, 0) << mounted.err;
  const std::vector<std::string> files = testing::FilesBelow(photos.source());
  ASSERT_GT(files.size(), 50u);
  std::atomic<size_t> failed{0};
  std::vector<std::thread> readers;
  for (size_t t = 0; t < 32; ++t)
    readers.emplace_back([&, t] {
      for (size_t i = 0; i < files.size(); ++i) {
        const std::string path = photos.mount_point() + "/current/" + files[(i * 7 + t * 2) % files.size()];
        const UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECT));
        Bytes some(5000);
        if (read(fd.get(), some.data(), some.size()) <= 0) ++failed;
      }
    });
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(failed, 0u);
  EXPECT_THAT(Faults(log), ::testing::IsEmpty());
  EXPECT_EQ(photos.Pcrfs({"umount", photos.mount_point()}).status, 0);
}

// Random reads past the page cache while one request in a hundred of the store goes wrong.
TEST(InjectedFaultsMountTest, EveryDirectReadIsRightOrAnError) {
  const char* asked = std::getenv("PCRFS_FAULT_READS");
  const uint64_t reads = asked == nullptr ? 20'000 : std::strtoull(asked, nullptr, 10) / 10;
  FaultInjector injector(100);
  const PackedPhotos photos;
  std::vector<std::pair<std::string, Bytes>> files;
  {
    const SessionMount mount(photos);
    for (const std::string& file : testing::FilesBelow(photos.source()))
      for (int level = 1; level <= 10; ++level) {
        const std::string path = "scan" + std::to_string(level) + "/" + file;
        files.emplace_back(path, ReadFile(mount / path));
      }
  }
  const SessionMount mount(photos, testing::OpenFileSystem(
                                       photos, {}, [](const Error&, auto) {}, injector.wrapper()));
  std::vector<UniqueFd> open_files;
  for (const auto& [path, right] : files) {
    open_files.emplace_back(open((mount / path).c_str(), O_RDONLY | O_DIRECT));
    struct stat seen {};
    ASSERT_EQ(fstat(open_files.back().get(), &seen), 0);
    EXPECT_EQ(static_cast<size_t>(seen.st_size), right.size());
  }
  std::atomic<uint64_t> right_reads{0}, refused{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      Bytes out(300'000);
      for (uint64_t i = 0; i < reads / 4; ++i) {
        const size_t number = random() % files.size();
        const Bytes& right = files[number].second;
        const size_t offset = random() % (right.size() + 100), size = 1 + random() % (i % 4 == 0 ? out.size() : 4096);
        const ssize_t got = pread(open_files[number].get(), out.data(), size, static_cast<off_t>(offset));
        if (got < 0) {
          ++refused;
          ASSERT_TRUE(errno == EIO || errno == ESTALE) << files[number].first << ": " << errno;
          continue;
        }
        ++right_reads;
        const size_t expected = offset >= right.size() ? 0 : std::min(size, right.size() - offset);
        ASSERT_EQ(static_cast<size_t>(got), expected);
        ASSERT_TRUE(std::equal(out.begin(), out.begin() + got,
                               right.end() - static_cast<ptrdiff_t>(expected) -
                                   static_cast<ptrdiff_t>(right.size() - offset - expected)) ||
                    expected == 0)
            << files[number].first << ", " << size << " bytes at " << offset;
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::printf("%lu direct reads with %lu faults: %lu right, %lu refused\n", reads, injector.injected(),
              right_reads.load(), refused.load());
  EXPECT_GT(right_reads, reads / 2);
  EXPECT_GT(injector.injected(), reads / 200);
}

// ---- Block devices

// A data set on an ext4 file system in an image file, mounted through a loop device.
class LoopTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access("/dev/loop-control", R_OK | W_OK) != 0 || RunProgram({"losetup", "-f"}).status != 0)
      GTEST_SKIP() << "NOT TESTED: real block devices that fail. This kernel or container has no free loop device";
    const std::string folder = photos_ / "content";
    std::filesystem::create_directory(folder);
    std::filesystem::copy(photos_.dataset(), folder + "/data set");
    const auto made =
        RunProgram({"mkfs.ext4", "-q", "-O", "^has_journal", "-m", "0", "-b", "4096", "-d", folder, image_, "16M"});
    ASSERT_EQ(made.status, 0) << made.err;
    std::filesystem::create_directory(disk_);
    const BackgroundMount mount(photos_);
    contents_ = std::make_unique<Contents>(photos_, mount.path());
    EXPECT_EQ(photos_.Pcrfs({"umount", mount.path()}).status, 0);
  }
  void TearDown() override {
    for (const std::string& path : {photos_.mount_point(), disk_})
      while (FindMount(path)) ASSERT_EQ(umount2(path.c_str(), MNT_DETACH), 0);
  }

  void MountDisk(const std::string& image) {
    const auto mounted = RunProgram({"mount", "-t", "ext4", "-o", "loop,ro,noload", image, disk_});
    ASSERT_EQ(mounted.status, 0) << mounted.err;
  }
  void MountDataset() {
    const auto mounted = photos_.Pcrfs({"mount", disk_ + "/data set", photos_.mount_point(), "--log-file", log_});
    ASSERT_EQ(mounted.status, 0) << mounted.err;
  }
  // Where in the image the 4 KiB begin that hold the byte of PCR_0.pcr at `offset`.
  [[nodiscard]] uint64_t InImage(uint64_t offset) const {
    const Bytes image = ReadFile(image_), shard = ReadFile(photos_.dataset() + "/PCR_0.pcr");
    const auto begin = shard.begin() + static_cast<ptrdiff_t>(offset / 4096 * 4096);
    for (auto at = image.begin();;) {
      at = std::search(at, image.end(), begin, begin + 4096);
      if (at == image.end()) std::abort();
      if ((at - image.begin()) % 4096 == 0) return static_cast<uint64_t>(at - image.begin());
      ++at;
    }
  }
  // Of the middle one of the scan groups of PCR_0.pcr.
  [[nodiscard]] uint64_t MiddleOfShard() const {
    const auto dataset = Dataset::Open(photos_.dataset());
    uint64_t end = 0;
    for (size_t part = 0; part <= 5; ++part) end += dataset->index().rows[0].part_sizes[part];
    return end;
  }

  [[nodiscard]] uint64_t MiddleOfLargeFile() const {
    const auto dataset = Dataset::Open(photos_.dataset());
    const auto index = dataset->ReadShardIndex(0, **dataset->OpenShard(0));
    for (const Entry& entry : index->entries)
      if (entry.name == "large.bin") return entry.layout.extents[0].offset + 500'000;
    std::abort();
  }

  ManyShards photos_;
  const std::string image_ = photos_ / "disk.img", disk_ = photos_ / "disk", log_ = photos_ / "log";
  std::unique_ptr<Contents> contents_;
};

TEST_F(LoopTest, ADiskThatLosesItsEndAndGetsItBack) {
  MountDisk(image_);
  MountDataset();
  const Bytes image = ReadFile(image_);
  const uint64_t cut = InImage(MiddleOfShard());
  ASSERT_EQ(truncate(image_.c_str(), static_cast<off_t>(cut)), 0);
  const auto tally = contents_->Check(photos_.mount_point());
  EXPECT_GT(tally.refused, 0u);
  EXPECT_GT(tally.right, 0u) << "level 1 lies before the cut";
  EXPECT_THAT(Faults(log_), Each(AllOf(HasSubstr("PCR_"), HasSubstr("at level"), HasSubstr("at offset"))));
  EXPECT_THAT(Faults(log_), Not(::testing::IsEmpty()));
  {
    const UniqueFd fd(open(image_.c_str(), O_WRONLY));
    ASSERT_EQ(pwrite(fd.get(), image.data() + cut, image.size() - cut, static_cast<off_t>(cut)),
              static_cast<ssize_t>(image.size() - cut));
  }
  EXPECT_TRUE(Eventually([&] { return contents_->AllRight(photos_.mount_point()); }));
}

// The device is given bad sectors by lying on a mount of ours whose store fails there.
TEST_F(LoopTest, ADiskWithABadSectorInTheMiddle) {
  const uint64_t bad_in_image = InImage(MiddleOfLargeFile());
  const PackedPhotos lower({0, 0, false}, {},
                           [&](const std::string& source) { std::filesystem::copy(image_, source + "/disk.img"); });
  const auto dataset = Dataset::Open(lower.dataset());
  const auto index = dataset->ReadShardIndex(0, **dataset->OpenShard(0));
  ASSERT_EQ(index->entries.size(), 1u);
  const uint64_t bad = index->entries[0].layout.extents[0].offset + bad_in_image;
  std::atomic<bool> fails{true};
  const auto wrap = [&](std::unique_ptr<ByteSource> source) -> std::unique_ptr<ByteSource> {
    WrappedSource::Hooks hooks;
    hooks.before_read = [&](uint64_t offset, uint64_t size) -> Result<void> {
      if (fails && offset <= bad && bad < offset + size) return Fail(ErrorCode::kIo, "bad sector");
      return {};
    };
    return std::make_unique<WrappedSource>(std::move(source), std::move(hooks));
  };
  const SessionMount lower_mount(lower, testing::OpenFileSystem(
                                            lower, {Level::Of<1>()}, [](const Error&, auto) {}, wrap));
  MountDisk(lower_mount / "disk.img");
  MountDataset();
  for (int round = 0; round < 2; ++round) {
    const auto tally = contents_->Check(photos_.mount_point());
    EXPECT_GT(tally.refused, 0u);
    EXPECT_GT(tally.right, 0u);
  }
  EXPECT_THAT(Faults(log_),
              Each(AllOf(HasSubstr("PCR_0.pcr"), HasSubstr("at level"), HasSubstr("Input/output error"))));
  fails = false;
  EXPECT_TRUE(Eventually([&] { return contents_->AllRight(photos_.mount_point()); }));
  TearDown();
}

TEST_F(LoopTest, ADiskThatIsRemountedAndOneThatIsTakenAway) {
  MountDisk(image_);
  MountDataset();
  EXPECT_EQ(RunProgram({"mount", "-o", "remount,ro", disk_}).status, 0);
  // PCR_0.pcr is opened, the other shards are not.
  EXPECT_EQ(RunProgram({"cp", photos_.mount_point() + "/scan1/" + photos_.In(0), photos_ / "copy"}).status, 0);
  ASSERT_EQ(umount2(disk_.c_str(), MNT_DETACH), 0);
  const auto tally = contents_->Check(photos_.mount_point());
  EXPECT_GT(tally.refused, 0u);
  EXPECT_GE(tally.right, 3 * 10u) << "what is open stays";
  EXPECT_THAT(Faults(log_), Each(AllOf(Not(HasSubstr("PCR_0.pcr")), HasSubstr("missing"))));
  MountDisk(image_);
  EXPECT_TRUE(Eventually([&] { return contents_->AllRight(photos_.mount_point()); }));
}

}  // namespace
}  // namespace pcrfs
