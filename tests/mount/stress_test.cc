// Everything that programs do with a mount, from 64 threads at once, each answer checked; and reads from a store that
// fails now and then. $PCRFS_STRESS_SECONDS: how long (3); $PCRFS_FAULTY_READS: how many reads (20,000).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "format/file.h"
#include "tests/support/mount_fixture.h"
#include "tests/support/shown_files.h"
#include "tests/support/wrapped_source.h"

namespace pcrfs {
namespace {

using testing::BackgroundMount;
using testing::PackedPhotos;
using testing::ShownFiles;

int64_t Setting(const char* name, int64_t usual) {
  const char* text = std::getenv(name);
  return text == nullptr ? usual : std::atoll(text);
}

const std::vector<int> kAllLevels = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

PackOptions FewImagesAShard() {
  PackOptions options;
  options.record_images = 5;
  return options;
}

using Random = std::mt19937_64;
// 0, ShownFiles::kWrong, or an errno.
using Operation = std::function<int(Random&)>;

class Operations {
 public:
  Operations(const ShownFiles& shown, std::string mount)
      : shown_(shown), mount_(std::move(mount)), root_(open(mount_.c_str(), O_RDONLY | O_DIRECTORY)) {}

  struct Named {
    const char* name;
    Operation run;
  };
  [[nodiscard]] std::vector<Named> All() const {
    return {{"read", [this](Random& random) { return shown_.ReadSome(mount_, random); }},
            {"list", [this](Random& random) { return shown_.ListSome(mount_, random); }},
            {"stat", [this](Random& random) { return shown_.StatSome(mount_, random); }},
            {"read anew", [this](Random& random) { return ReadAnew(random); }},
            {"map", [this](Random& random) { return Map(random); }},
            {"handle", [this](Random& random) { return OpenByHandle(random); }},
            {"ask", [this](Random&) { return AskMount(); }}};
  }

 private:
  [[nodiscard]] const ShownFiles::File& Any(Random& random) const {
    return shown_.files()[random() % shown_.files().size()];
  }
  [[nodiscard]] UniqueFd Open(const ShownFiles::File& file, int flags = O_RDONLY) const {
    return UniqueFd(open((mount_ + "/" + file.path).c_str(), flags));
  }

  // With nothing of the file in the page cache.
  [[nodiscard]] int ReadAnew(Random& random) const {
    const ShownFiles::File& file = Any(random);
    const UniqueFd fd = Open(file);
    if (!fd.valid()) return errno;
    posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    return Compare(fd.get(), file.bytes);
  }

  [[nodiscard]] static int Compare(int fd, const Bytes& expected) {
    Bytes bytes(expected.size() + 1);
    const ssize_t got = pread(fd, bytes.data(), bytes.size(), 0);
    if (got < 0) return errno;
    bytes.resize(static_cast<size_t>(got));
    return bytes == expected ? 0 : ShownFiles::kWrong;
  }

  [[nodiscard]] int Map(Random& random) const {
    const ShownFiles::File& file = Any(random);
    if (file.bytes.empty()) return 0;
    const UniqueFd fd = Open(file);
    if (!fd.valid()) return errno;
    void* mapped = mmap(nullptr, file.bytes.size(), PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (mapped == MAP_FAILED) return errno;
    const bool same = std::memcmp(mapped, file.bytes.data(), file.bytes.size()) == 0;
    munmap(mapped, file.bytes.size());
    return same ? 0 : ShownFiles::kWrong;
  }

  [[nodiscard]] int OpenByHandle(Random& random) const {
    const ShownFiles::File& file = Any(random);
    alignas(file_handle) std::array<unsigned char, sizeof(file_handle) + 128> memory{};
    auto* handle = reinterpret_cast<file_handle*>(memory.data());
    handle->handle_bytes = 128;
    int mount_id = 0;
    if (name_to_handle_at(AT_FDCWD, (mount_ + "/" + file.path).c_str(), handle, &mount_id, 0) != 0) return errno;
    const UniqueFd fd(open_by_handle_at(root_.get(), handle, O_RDONLY));
    if (!fd.valid()) return errno;
    return Compare(fd.get(), file.bytes);
  }

  [[nodiscard]] int AskMount() const {
    struct statvfs numbers {};
    if (statvfs(mount_.c_str(), &numbers) != 0) return errno;
    std::array<char, 64> link{};
    if (readlink((mount_ + "/current").c_str(), link.data(), link.size() - 1) < 0) return errno;
    return numbers.f_files > 0 && std::strcmp(link.data(), "scan10") == 0 ? 0 : ShownFiles::kWrong;
  }

  const ShownFiles& shown_;
  std::string mount_;
  UniqueFd root_;
};

TEST(StressTest, SixtyFourThreadsDoEverythingAtOnceAndAllOfItIsRight) {
  constexpr size_t kThreads = 64;
  const PackedPhotos photos({}, FewImagesAShard());
  const BackgroundMount mount(photos);
  const ShownFiles shown(mount.path(), kAllLevels);
  const Operations operations(shown, mount.path());
  const auto all = operations.All();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(Setting("PCRFS_STRESS_SECONDS", 3));
  std::vector<std::atomic<uint64_t>> done(all.size());
  std::atomic<int> reported{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      Random random(t);
      while (std::chrono::steady_clock::now() < end) {
        const size_t which = random() % all.size();
        const int result = all[which].run(random);
        ++done[which];
        if (result != 0 && reported++ < 10)
          ADD_FAILURE() << all[which].name << ": "
                        << (result == ShownFiles::kWrong ? "a wrong answer" : std::strerror(result));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(reported, 0);
  for (size_t i = 0; i < all.size(); ++i) {
    std::printf("%s: %lu\n", all[i].name, static_cast<unsigned long>(done[i]));
    EXPECT_GT(done[i], 0u) << all[i].name;
  }
}

// One read of the store in a hundred fails, is of other bytes, of zeros, or of a shard that is no longer the same.
testing::SourceWrapper FailingNowAndThen(std::atomic<uint64_t>& faults) {
  const auto chance = [&faults](uint64_t of) {
    thread_local Random random(std::random_device{}());
    const bool now = random() % of == 0;
    if (now) ++faults;
    return now;
  };
  testing::WrappedSource::Hooks hooks;
  hooks.before_read = [chance](uint64_t offset, uint64_t) -> Result<void> {
    if (chance(400)) return Fail(ErrorCode::kIo, "an injected fault at " + std::to_string(offset));
    if (chance(400)) return Fail(ErrorCode::kStale, "an injected change at " + std::to_string(offset));
    return {};
  };
  hooks.after_read = [chance](uint64_t offset, std::span<const MutableByteSpan> parts) {
    for (const MutableByteSpan part : parts) {
      if (part.empty()) continue;
      if (chance(400)) part[offset % part.size()] ^= 0x10;
      if (chance(400)) std::ranges::fill(part, uint8_t{0});
    }
  };
  return [hooks](std::unique_ptr<ByteSource> source) -> std::unique_ptr<ByteSource> {
    return std::make_unique<testing::WrappedSource>(std::move(source), hooks);
  };
}

TEST(FaultyStoreTest, ReadsGiveTheRightBytesOrAnErrorAndNothingElse) {
  constexpr int kThreads = 8;
  const PackedPhotos photos({}, FewImagesAShard());
  std::unique_ptr<ShownFiles> shown;
  {
    const BackgroundMount mount(photos);
    shown = std::make_unique<ShownFiles>(mount.path(), kAllLevels);
  }
  std::atomic<uint64_t> faults{0}, told{0}, right{0}, refused{0}, wrong{0};
  std::atomic<int64_t> left{Setting("PCRFS_FAULTY_READS", 20'000)};
  // A place that failed is refused for a while without asking the store, here a short one, so that most reads ask it.
  ShardSetOptions options;
  options.try_again = std::chrono::milliseconds(1);
  testing::SessionMount mount(photos,
                              testing::OpenFileSystem(
                                  photos, {}, [&](const Error&, auto) { ++told; }, FailingNowAndThen(faults), options));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      Random random(static_cast<unsigned>(t));
      Bytes bytes;
      while (left-- > 0) {
        const ShownFiles::File& file = shown->files()[random() % shown->files().size()];
        const UniqueFd fd(open((mount / file.path).c_str(), O_RDONLY));
        ASSERT_TRUE(fd.valid()) << file.path;
        posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
        bytes.assign(file.bytes.size() + 1, 0);
        const ssize_t got = pread(fd.get(), bytes.data(), bytes.size(), 0);
        if (got < 0) {
          ++((errno == EIO || errno == ESTALE) ? refused : wrong);
          continue;
        }
        bytes.resize(static_cast<size_t>(got));
        // The kernel gives what it has before the page that failed; what it gives is right.
        const bool prefix =
            bytes.size() <= file.bytes.size() && std::equal(bytes.begin(), bytes.end(), file.bytes.begin());
        ++(!prefix ? wrong : bytes.size() == file.bytes.size() ? right : refused);
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::printf("%lu right, %lu refused, %lu wrong; %lu faults made, %lu told\n", static_cast<unsigned long>(right),
              static_cast<unsigned long>(refused), static_cast<unsigned long>(wrong),
              static_cast<unsigned long>(faults), static_cast<unsigned long>(told));
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(faults, 20u);
  EXPECT_GT(refused, 20u);
  EXPECT_GT(right, refused * 10);
  EXPECT_GT(told, 0u);
}

}  // namespace
}  // namespace pcrfs
