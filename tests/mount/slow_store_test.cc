// A store that hangs: whoever is killed dies, whoever asks for other things is answered, and in the end everyone has
// the right bytes.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "format/file.h"
#include "mount/mount_point.h"
#include "tests/support/fork.h"
#include "tests/support/mount_fixture.h"

#ifdef __SANITIZE_ADDRESS__
// libfuse's name of the mount point stays with a session that is cut off; see Session::CutOff.
extern "C" const char* __lsan_default_suppressions() { return "leak:fuse_session_mount"; }  // NOLINT: its name
#endif

namespace pcrfs {
namespace {

using testing::HeldStore;
using testing::PackedPhotos;
using testing::SessionMount;
using namespace std::chrono_literals;

constexpr unsigned kWorkers = 4;

class SlowStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { store_.Hold(); }
  void TearDown() override { store_.Release(); }

  [[nodiscard]] static std::string Name(int number) {
    return "/n0" + std::to_string(number / 6) + "/" + std::to_string(number % 6) + ".jpg";
  }
  // The same file from a store that is well.
  [[nodiscard]] Bytes Right(const std::string& path) const {
    const ProgramResult cat = photos_.Pcrfs(
        {"cat", "--level", path.substr(4, path.find('/') - 4), photos_.dataset(), path.substr(path.find('/') + 1)});
    EXPECT_EQ(cat.status, 0) << cat.err;
    return Bytes(cat.out.begin(), cat.out.end());
  }

  using ProgramResult = testing::ProgramResult;
  PackedPhotos photos_;
  HeldStore store_;
  SessionMount mount_{photos_,
                      testing::OpenFileSystem(
                          photos_, {}, [](const Error&, auto) {}, store_.wrapper()),
                      kWorkers};
};

struct alignas(4096) Page {
  std::array<char, 4096> bytes;
};

// Only what a child of a program with threads may do.
[[noreturn]] void ReadDirect(const char* path) {
  static Page pages[64];
  const int fd = open(path, O_RDONLY | O_DIRECT);
  _exit(fd >= 0 && read(fd, pages, sizeof pages) > 0 ? 0 : 1);
}

[[noreturn]] void ReadBuffered(const char* path) {
  static char bytes[65536];
  const int fd = open(path, O_RDONLY);
  _exit(fd >= 0 && read(fd, bytes, sizeof bytes) > 0 ? 0 : 1);
}

[[noreturn]] void ReadMapped(const char* path) {
  const int fd = open(path, O_RDONLY);
  const void* map = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
  _exit(map != MAP_FAILED && *static_cast<const volatile char*>(map) != 0 ? 0 : 1);
}

template <typename Body>
pid_t Child(const Body& body) {
  const pid_t child = testing::Fork();
  if (child == 0) body();
  return child;
}

// Its status, or nothing when it does not end within two seconds.
std::optional<int> EndOf(pid_t child) {
  for (int i = 0; i < 200; ++i) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) return status;
    std::this_thread::sleep_for(10ms);
  }
  return std::nullopt;
}

void Reap(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(SlowStoreTest, AKilledReaderDiesAtOnce) {
  int number = 0;
  for (const int signal : {SIGKILL, SIGTERM, SIGINT, SIGQUIT})
    for (const auto read : {ReadDirect, ReadBuffered, ReadMapped}) {
      // At most three reads run, so the later ones are queued.
      const std::string path = mount_ / ("scan10" + Name(number++));
      const int reads = store_.reads();
      const pid_t child = Child([&] { read(path.c_str()); });
      if (reads < static_cast<int>(kWorkers) - 1) {
        ASSERT_TRUE(store_.AwaitReads(reads + 1));
      }
      std::this_thread::sleep_for(30ms);
      ASSERT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "it reads";
      kill(child, signal);
      const auto status = EndOf(child);
      EXPECT_TRUE(status && WIFSIGNALED(*status) && WTERMSIG(*status) == signal)
          << number << ": signal " << signal << ", status " << status.value_or(-1);
      if (!status) store_.Release(), Reap(child), store_.Hold();
    }
  store_.Release();
  for (int i = 0; i < number; ++i)
    EXPECT_EQ(testing::ReadFile(mount_ / ("scan10" + Name(i))), Right("scan10" + Name(i))) << i;
}

TEST_F(SlowStoreTest, AKilledProcessOfManyReadersDiesAtOnce) {
  const std::string program =
      "import os, sys, threading\n"
      "def read(path): os.pread(os.open(path, os.O_RDONLY), 1, 0)\n"
      "for path in sys.argv[1:]: threading.Thread(target=read, args=(path,)).start()\n";
  std::vector<std::string> words = {"timeout", "--signal=TERM", "1", "/usr/bin/python3", "-c", program};
  for (int i = 0; i < 12; ++i) words.push_back(mount_ / ("scan7" + Name(i)));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(testing::RunProgram(words).status, 124);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
}

std::atomic<int> alarms{0};

TEST_F(SlowStoreTest, AReaderWithATimerGetsItsBytesAndNoEintr) {
  const std::string path = mount_ / ("scan10" + Name(0));
  int out[2];
  ASSERT_EQ(pipe2(out, O_CLOEXEC), 0);
  const auto read_with_timer = [&] {
    struct sigaction action {};
    action.sa_handler = [](int) { ++alarms; };  // and no SA_RESTART
    sigaction(SIGALRM, &action, nullptr);
    itimerval timer{};
    timer.it_value.tv_usec = timer.it_interval.tv_usec = 10'000;
    setitimer(ITIMER_REAL, &timer, nullptr);
    static Page pages[64];
    const int fd = open(path.c_str(), O_RDONLY | O_DIRECT);
    const ssize_t size = read(fd, pages, sizeof pages);
    const int failure = size < 0 ? errno : 0;
    timer = {};
    setitimer(ITIMER_REAL, &timer, nullptr);
    for (ssize_t at = 0; at < size;) {
      const ssize_t written = write(out[1], reinterpret_cast<char*>(pages) + at, static_cast<size_t>(size - at));
      if (written < 0) _exit(1);
      at += written;
    }
    _exit(failure == 0 && alarms > 0 ? 0 : failure == EINTR ? 2 : 3);
  };
  const pid_t child = Child(read_with_timer);
  close(out[1]);
  ASSERT_TRUE(store_.AwaitReads(1));
  std::this_thread::sleep_for(600ms);
  store_.Release();
  Bytes bytes;
  char part[4096];
  for (ssize_t size = 0; (size = read(out[0], part, sizeof part)) > 0;) bytes.insert(bytes.end(), part, part + size);
  close(out[0]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "2 = EINTR";
  EXPECT_EQ(bytes, Right("scan10" + Name(0)));
}

TEST_F(SlowStoreTest, AReaderWithATimerCanStillBeKilled) {
  const std::string path = mount_ / ("scan10" + Name(0));
  const pid_t child = Child([&] {
    std::signal(SIGALRM, [](int) {});
    itimerval timer{};
    timer.it_value.tv_usec = timer.it_interval.tv_usec = 10'000;
    setitimer(ITIMER_REAL, &timer, nullptr);
    ReadDirect(path.c_str());
  });
  ASSERT_TRUE(store_.AwaitReads(1));
  std::this_thread::sleep_for(100ms);
  kill(child, SIGTERM);
  const auto status = EndOf(child);
  EXPECT_TRUE(status && WIFSIGNALED(*status)) << "ended by its signal, not the read";
  if (!status) store_.Release(), Reap(child);
}

TEST_F(SlowStoreTest, StuckReadersDoNotBlockMetadata) {
  std::vector<std::thread> readers;
  std::atomic<int> right{0};
  for (int i = 0; i < 16; ++i)
    readers.emplace_back([&, i] {
      const UniqueFd fd(open((mount_ / ("scan5" + Name(i))).c_str(), O_RDONLY | O_DIRECT));
      std::vector<Page> pages(64);
      const ssize_t size = read(fd.get(), pages.data(), pages.size() * sizeof(Page));
      const auto* bytes = reinterpret_cast<const uint8_t*>(pages.data());
      if (size > 0 && Bytes(bytes, bytes + size) == Right("scan5" + Name(i))) ++right;
    });
  EXPECT_TRUE(store_.AwaitReads(kWorkers - 1));
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(store_.reads(), static_cast<int>(kWorkers) - 1);

  const auto begin = std::chrono::steady_clock::now();
  for (int level = 1; level <= 10; ++level) {
    const std::string tree = "scan" + std::to_string(level);
    for (int i = 0; i < 18; ++i) {
      struct stat seen {};
      EXPECT_EQ(stat((mount_ / (tree + Name(i))).c_str(), &seen), 0);
      EXPECT_EQ(stat((mount_ / (tree + Name(i) + ".missing")).c_str(), &seen), -1);
    }
    DIR* folder = opendir((mount_ / (tree + "/n01")).c_str());
    int entries = 0;
    while (readdir(folder) != nullptr) ++entries;
    closedir(folder);
    EXPECT_EQ(entries, 8);
  }
  EXPECT_EQ(testing::RunProgram({"ls", "-lR", mount_ / "scan9"}).status, 0);
  EXPECT_EQ(testing::RunProgram({"df", mount_ / ""}).status, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);

  store_.Release();
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(right, 16);
}

TEST_F(SlowStoreTest, ReadsThatWaitWhenServingEndsAreNotStartedAnyMore) {
  std::vector<std::thread> readers;
  for (int i = 0; i < 16; ++i)
    readers.emplace_back([&, i] {
      const UniqueFd fd(open((mount_ / ("scan5" + Name(i))).c_str(), O_RDONLY | O_DIRECT));
      Page page;
      const ssize_t size = read(fd.get(), &page, sizeof page);
      EXPECT_TRUE(size > 0 || errno == EIO || errno == ECONNABORTED || errno == ENOTCONN) << errno;
    });
  EXPECT_TRUE(store_.AwaitReads(kWorkers - 1));
  std::this_thread::sleep_for(100ms);
  std::thread stop([&] { mount_.Stop(); });
  std::this_thread::sleep_for(100ms);
  const int read_before = store_.total();
  store_.Release();
  stop.join();
  for (std::thread& reader : readers) reader.join();
  // A level's file has several fragments; those of the reads that ran are read to the end.
  EXPECT_LE(store_.total() - read_before, (static_cast<int>(kWorkers) - 1) * 5);
}

TEST_F(SlowStoreTest, AnEndDoesNotWaitForReadsThatHang) {
  std::vector<std::thread> readers;
  std::atomic<int> opened{0};
  for (int i = 0; i < 8; ++i)
    readers.emplace_back([&, i] {
      const UniqueFd fd(open((mount_ / ("scan5" + Name(i))).c_str(), O_RDONLY | O_DIRECT));
      ++opened;
      Page page;
      EXPECT_EQ(read(fd.get(), &page, sizeof page), -1);
      EXPECT_TRUE(errno == EIO || errno == ECONNABORTED || errno == ENOTCONN) << errno;
    });
  EXPECT_TRUE(store_.AwaitReads(kWorkers - 1));
  EXPECT_TRUE(testing::Eventually([&] { return opened == 8; }));
  std::thread stop([&] { mount_.Stop(); });
  for (std::thread& reader : readers) reader.join();
  EXPECT_TRUE(testing::Eventually([&] { return !FindMount(photos_.mount_point()); }));
  EXPECT_GT(store_.reads(), 0) << "they hang still";
  store_.Release();
  stop.join();
}

// A data set on a file system that hangs when the test wants it to, mounted by the program: a mount on a mount.
class HangingDiskTest : public ::testing::Test {
 protected:
  static void AddDataset(const std::string& from, const std::string& source) {
    for (const auto& [name, bytes] : testing::FilesIn(from)) testing::WriteFile(source + "/data set/" + name, bytes);
  }

  HangingDiskTest() {
    const auto mounted =
        photos_.Pcrfs({"mount", disk_mount_ / "data set", photos_.mount_point(), "--log-file", photos_ / "log"});
    EXPECT_EQ(mounted.status, 0) << mounted.err;
    disk_.Hold();
  }
  ~HangingDiskTest() override {
    disk_.Release();
    if (FindMount(photos_.mount_point())) umount2(photos_.mount_point().c_str(), MNT_DETACH);
  }

  [[nodiscard]] std::string operator/(const std::string& path) const { return photos_.mount_point() + "/" + path; }
  [[nodiscard]] std::vector<pid_t> Daemons() const { return testing::ProcessesOf(photos_.mount_point()); }

  PackedPhotos photos_;
  PackedPhotos disk_content_{{0, 0, false}, {}, [this](const auto& source) { AddDataset(photos_.dataset(), source); }};
  HeldStore disk_;
  SessionMount disk_mount_{disk_content_,
                           testing::OpenFileSystem(
                               disk_content_, {Level::Of<1>()}, [](const Error&, auto) {}, disk_.wrapper())};
};

TEST_F(HangingDiskTest, TermEndsTheDaemonWhileReadsHang) {
  ASSERT_EQ(Daemons().size(), 1u);
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i)
    readers.emplace_back([&, i] {
      const UniqueFd fd(open((*this / ("scan10/n00/" + std::to_string(i) + ".jpg")).c_str(), O_RDONLY));
      char byte = 0;
      EXPECT_EQ(read(fd.get(), &byte, 1), -1);
    });
  ASSERT_TRUE(disk_.AwaitReads(1));
  struct stat seen {};
  EXPECT_EQ(stat((*this / "scan3/n01/2.jpg").c_str(), &seen), 0);
  kill(Daemons().front(), SIGTERM);
  for (std::thread& reader : readers) reader.join();
  EXPECT_TRUE(testing::Eventually([&] { return !FindMount(photos_.mount_point()); }));
  EXPECT_TRUE(testing::Eventually([&] { return Daemons().empty(); }));
  EXPECT_NE(AsText(testing::ReadFile(photos_ / "log")).find("not waited for"), std::string_view::npos);
  EXPECT_GT(disk_.reads(), 0) << "the disk hangs still";
}

TEST_F(HangingDiskTest, ReadersOfADiskThatHangsAreKilledAndTheMountIsTakenDown) {
  const std::string path = *this / "scan10/n00/0.jpg";
  for (const auto read : {ReadDirect, ReadBuffered}) {
    const pid_t child = Child([&] { read(path.c_str()); });
    ASSERT_TRUE(disk_.AwaitReads(1));
    std::this_thread::sleep_for(50ms);
    kill(child, SIGTERM);
    const auto status = EndOf(child);
    EXPECT_TRUE(status && WIFSIGNALED(*status));
    if (!status) disk_.Release(), Reap(child);
  }
  EXPECT_GT(disk_.reads(), 0) << "they hang still";
  EXPECT_EQ(photos_.Pcrfs({"umount", photos_.mount_point()}).status, 0) << "it waits for the daemon";
  EXPECT_TRUE(Daemons().empty());
}

TEST_F(HangingDiskTest, WhatHungIsRightInTheEnd) {
  std::vector<std::thread> readers;
  std::atomic<int> right{0};
  for (int i = 0; i < 6; ++i)
    readers.emplace_back([&, i] {
      const std::string file = "n02/" + std::to_string(i) + ".jpg";
      const auto cat = photos_.Pcrfs({"cat", photos_.dataset(), file});
      const Bytes bytes = testing::ReadFile(*this / ("scan10/" + file));
      if (AsText(bytes) == cat.out) ++right;
    });
  EXPECT_TRUE(disk_.AwaitReads(1));
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(testing::RunProgram({"ls", "-lR", *this / "scan4"}).status, 0);
  disk_.Release();
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(right, 6);
}

}  // namespace
}  // namespace pcrfs
