// Listing directories through a real mount, in every way there is: each name once, in one order, wherever one begins.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "format/file.h"
#include "tests/support/mount_fixture.h"

namespace pcrfs {
namespace {

using testing::BackgroundMount;
using testing::PackedPhotos;
using testing::ReadFile;

constexpr int kManyNames = 10'000;

// Of all lengths up to 255, so that entries end anywhere in a buffer.
std::string ManyName(int i) {
  std::string name = std::to_string(i) + "_";
  name.resize(std::max<size_t>(name.size(), static_cast<size_t>(i) * 7 % 256), 'x');
  return name;
}

void AddManyFiles(const std::string& source) {
  const std::string folder = source + "/many";
  std::filesystem::create_directory(folder);
  for (int i = 0; i < kManyNames; ++i) {
    const UniqueFd fd(open((folder + "/" + ManyName(i)).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    ASSERT_EQ(write(fd.get(), &i, sizeof i), ssize_t{sizeof i});
  }
}

struct Entry {
  std::string name;
  ino_t ino = 0;
  unsigned char type = DT_UNKNOWN;
  off_t next = 0;  // where the listing goes on behind it

  friend bool operator==(const Entry&, const Entry&) = default;
};

using Stream = std::unique_ptr<DIR, int (*)(DIR*)>;

Stream OpenStream(const std::string& path) {
  Stream stream(opendir(path.c_str()), closedir);
  EXPECT_NE(stream, nullptr) << path << ": " << std::strerror(errno);
  return stream;
}

std::vector<Entry> Rest(DIR* stream) {
  std::vector<Entry> entries;
  while (const dirent* entry = readdir(stream))
    entries.push_back({entry->d_name, entry->d_ino, entry->d_type, entry->d_off});
  return entries;
}

std::vector<Entry> List(const std::string& path) { return Rest(OpenStream(path).get()); }

// What is left of a directory's listing, by getdents64 with a buffer of `size` bytes; errno through `error`.
std::vector<Entry> ListByCalls(int fd, size_t size, int& error) {
  std::vector<Entry> entries;
  const std::unique_ptr<std::byte[]> buffer(new std::byte[size]);
  while (true) {
    const long got = syscall(SYS_getdents64, fd, buffer.get(), size);
    error = got < 0 ? errno : 0;
    if (got <= 0) return entries;
    for (long at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer.get() + at);
      entries.push_back({entry->d_name, entry->d_ino, entry->d_type, entry->d_off});
      at += entry->d_reclen;
    }
  }
}

class DirectoriesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    PackOptions options;
    options.record_images = 4096;
    photos_ = std::make_unique<PackedPhotos>(testing::PhotoFolder{}, options, AddManyFiles);
    mount_ = std::make_unique<BackgroundMount>(*photos_);
  }
  static void TearDownTestSuite() {
    mount_.reset();
    photos_.reset();
  }

  static std::string Many(int level) { return *mount_ / ("scan" + std::to_string(level) + "/many"); }
  // The kernel lets go of the listing it has kept.
  static void Forget(const std::string& path) {
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_EQ(posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  }

  static inline std::unique_ptr<PackedPhotos> photos_;
  static inline std::unique_ptr<BackgroundMount> mount_;
};

TEST_F(DirectoriesTest, TenThousandNamesEachOnceByBuffersOfAnySize) {
  const std::vector<Entry> listed = List(Many(3));
  std::set<std::string> names, expected = {".", ".."};
  for (const Entry& entry : listed) EXPECT_TRUE(names.insert(entry.name).second) << entry.name << " twice";
  for (int i = 0; i < kManyNames; ++i) expected.insert(ManyName(i));
  EXPECT_TRUE(names == expected);
  for (const bool cached : {true, false})
    for (const size_t size : {size_t{280}, size_t{4096}, size_t{32768}, size_t{1} << 20}) {
      if (!cached) Forget(Many(3));
      const UniqueFd fd(open(Many(3).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      int error = 0;
      EXPECT_TRUE(ListByCalls(fd.get(), size, error) == listed) << size << " " << cached;
      EXPECT_EQ(error, 0);
    }
}

TEST_F(DirectoriesTest, ABufferTooSmallForTheNextNameIsRefusedAndNothingIsLost) {
  for (const std::string& path : {Many(1), mount_->path(), *mount_ / "scan2"}) {
    const std::vector<Entry> listed = List(path);
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    int error = 0;
    EXPECT_TRUE(ListByCalls(fd.get(), 23, error).empty()) << path;
    EXPECT_EQ(error, EINVAL) << path;
    const std::vector<Entry> some = ListByCalls(fd.get(), 24, error);  // room for "." or "..", or 4 bytes of name
    EXPECT_EQ(error, EINVAL) << path;
    EXPECT_GE(some.size(), 2u) << path;
    std::vector<Entry> all = some;
    for (Entry& entry : ListByCalls(fd.get(), 4096, error)) all.push_back(std::move(entry));
    EXPECT_TRUE(all == listed) << path;
  }
}

// The kernel looks for a place from the start of the listing it keeps, so of a long one only each `step`th is tried.
void ExpectPlacesFound(const std::string& path, size_t step) {
  const Stream stream = OpenStream(path);
  std::vector<Entry> listed;
  std::vector<long> places;
  long place = telldir(stream.get());
  while (const dirent* entry = readdir(stream.get())) {
    listed.push_back({entry->d_name, entry->d_ino, entry->d_type, entry->d_off});
    places.push_back(place);
    place = telldir(stream.get());
  }
  EXPECT_EQ(std::set<long>(places.begin(), places.end()).size(), places.size());
  std::vector<size_t> order;
  for (size_t i = 0; i < places.size(); i += step) order.push_back(i);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  const Stream other = OpenStream(path);  // places outlive the stream that named them
  for (const size_t i : order)
    for (DIR* at : {stream.get(), other.get()}) {
      seekdir(at, places[i]);
      EXPECT_EQ(telldir(at), places[i]);
      const dirent* entry = readdir(at);
      ASSERT_NE(entry, nullptr) << i;
      ASSERT_EQ(listed[i].name, entry->d_name) << i;
    }
  seekdir(stream.get(), place);
  EXPECT_EQ(readdir(stream.get()), nullptr) << "the end is a place, too";
  rewinddir(stream.get());
  EXPECT_TRUE(Rest(stream.get()) == listed);
}

TEST_F(DirectoriesTest, SeekdirGoesBackToEveryPlaceThatTelldirNamed) {
  ExpectPlacesFound(mount_->path(), 1);
  ExpectPlacesFound(*mount_ / "scan2", 1);
  ExpectPlacesFound(*mount_ / "scan2/n01", 1);
  ExpectPlacesFound(Many(2), 33);
}

TEST_F(DirectoriesTest, ListingsGoOnBehindAnyEntryAlsoWhenNothingIsCached) {
  const std::vector<Entry> listed = List(Many(4));
  for (size_t i = 0; i < listed.size(); i += 997) {
    Forget(Many(4));
    const UniqueFd fd(open(Many(4).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_EQ(lseek(fd.get(), listed[i].next, SEEK_SET), listed[i].next);
    int error = 0;
    const std::vector<Entry> rest = ListByCalls(fd.get(), 65536, error);
    ASSERT_TRUE(std::equal(rest.begin(), rest.end(), listed.begin() + static_cast<ptrdiff_t>(i) + 1, listed.end()))
        << i;
  }
}

TEST_F(DirectoriesTest, TwoStreamsOnOneDirectoryDoNotDisturbOneAnother) {
  const std::vector<Entry> listed = List(Many(5));
  Forget(Many(5));
  const Stream one = OpenStream(Many(5)), other = OpenStream(Many(5));
  for (size_t i = 0; i < listed.size() + 100; ++i) {
    if (i < listed.size()) {
      ASSERT_EQ(readdir(one.get())->d_name, listed[i].name);
    }
    if (i >= 100) {
      ASSERT_EQ(readdir(other.get())->d_name, listed[i - 100].name);
    }
  }
  EXPECT_EQ(readdir(one.get()), nullptr);
  EXPECT_EQ(readdir(other.get()), nullptr);
}

TEST_F(DirectoriesTest, ListersAndReadersAtOnceAllSeeAll) {
  const std::vector<Entry> listed = List(Many(6));
  std::atomic<int> wrong{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> readers, listers;
  for (int t = 0; t < 4; ++t) {
    readers.emplace_back([&, t] {
      for (int i = t; !done; i = (i + 4) % kManyNames) {
        const Bytes bytes = ReadFile(Many(6) + "/" + ManyName(i));
        int number = -1;
        if (bytes.size() == sizeof number) std::memcpy(&number, bytes.data(), sizeof number);
        wrong += number == i ? 0 : 1;
      }
    });
    listers.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        Forget(Many(6));
        wrong += List(Many(6)) == listed ? 0 : 1;
      }
    });
  }
  for (std::thread& lister : listers) lister.join();
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
}

unsigned char TypeOf(mode_t mode) { return static_cast<unsigned char>((mode & S_IFMT) >> 12); }

TEST_F(DirectoriesTest, TypesAndNumbersInListingsAreThoseOfStat) {
  std::vector<std::string> folders = {mount_->path(), *mount_ / "scan7", *mount_ / "scan7/n00",
                                      *mount_ / "scan7/empty"};
  std::set<unsigned char> types;
  for (const std::string& folder : folders)
    for (const Entry& entry : List(folder)) {
      struct stat seen {};
      ASSERT_EQ(lstat((folder + "/" + entry.name).c_str(), &seen), 0) << folder << " " << entry.name;
      EXPECT_EQ(entry.type, TypeOf(seen.st_mode)) << folder << " " << entry.name;
      types.insert(entry.type);
      const bool leaves_the_mount = folder == mount_->path() && entry.name == "..";
      if (!leaves_the_mount) {
        EXPECT_EQ(entry.ino, seen.st_ino) << folder << " " << entry.name;
      }
    }
  EXPECT_TRUE(types == (std::set<unsigned char>{DT_DIR, DT_REG, DT_LNK}));
}

}  // namespace
}  // namespace pcrfs
