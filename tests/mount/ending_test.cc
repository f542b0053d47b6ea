// How mounts end: by umount, by signals, under load, and where they cannot be taken down. (slow_store_test.cc has those
// whose store hangs.)
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "format/file.h"
#include "mount/mount_table.h"
#include "tests/support/fork.h"
#include "tests/support/mount_fixture.h"

namespace pcrfs {
namespace {

using ::testing::AllOf;
using testing::BackgroundMount;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::IsRunning;
using testing::PackedPhotos;
using testing::ProgramResult;
using testing::ReadFile;

// The whole file, or nothing when opening or reading it fails, which it may while its mount ends.
std::optional<Bytes> ReadOrNothing(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return std::nullopt;
  Bytes bytes, part(65536);
  while (true) {
    const ssize_t size = read(fd.get(), part.data(), part.size());
    if (size < 0) return std::nullopt;
    if (size == 0) return bytes;
    bytes.insert(bytes.end(), part.begin(), part.begin() + size);
  }
}

// Threads that read all files of a mount, again and again, until the mount is gone.
class Readers {
 public:
  Readers(std::string mount, std::map<std::string, Bytes> expected)
      : mount_(std::move(mount)), expected_(std::move(expected)) {
    for (int i = 0; i < 8; ++i) threads_.emplace_back([this] { Run(); });
  }
  ~Readers() { Stop(); }
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;

  void Stop() {
    stop_ = true;
    for (std::thread& thread : threads_)
      if (thread.joinable()) thread.join();
  }
  [[nodiscard]] int right() const { return right_; }
  [[nodiscard]] int wrong() const { return wrong_; }

 private:
  void Run() {
    while (!stop_)
      for (const auto& [file, bytes] : expected_)
        if (const auto read = ReadOrNothing(mount_ + "/" + file)) ++(*read == bytes ? right_ : wrong_);
  }

  std::string mount_;
  std::map<std::string, Bytes> expected_;
  std::atomic<bool> stop_{false};
  std::atomic<int> right_{0}, wrong_{0};
  std::vector<std::thread> threads_;
};

class EndingTest : public ::testing::Test {
 protected:
  PackedPhotos photos_;

  [[nodiscard]] bool IsMounted() const { return FindMount(photos_.mount_point()).has_value(); }
  [[nodiscard]] ProgramResult Umount() const { return photos_.Pcrfs({"umount", photos_.mount_point()}); }
  [[nodiscard]] std::string Log() const {
    const Bytes bytes = ReadFile(photos_ / "log");
    return std::string(AsText(bytes));
  }
  static std::map<std::string, Bytes> AllFiles(const std::string& mount) {
    std::map<std::string, Bytes> files;
    for (const std::string& file : testing::FilesBelow(mount)) files[file] = ReadFile(mount + "/" + file);
    return files;
  }
};

TEST_F(EndingTest, UmountReturnsWhenTheDaemonHasEndedSoThatAllMayBeRemovedOrMountedAnew) {
  for (int round = 0; round < 3; ++round) {
    const BackgroundMount mount(photos_);
    const pid_t daemon = mount.daemon();
    ASSERT_GT(daemon, 0);
    const ProgramResult gone = Umount();
    EXPECT_FALSE(IsRunning(daemon));
    EXPECT_EQ(gone.status, 0) << gone.err;
    EXPECT_EQ(gone.out + gone.err, "");
  }
}

TEST_F(EndingTest, UmountOfADaemonThatDoesNotAnswerSaysSo) {
  const BackgroundMount mount(photos_);
  const pid_t daemon = mount.daemon();
  ASSERT_GT(daemon, 0);
  kill(daemon, SIGSTOP);
  const ProgramResult gone = Umount();
  EXPECT_EQ(gone.status, 1);
  EXPECT_THAT(gone.err, HasSubstr("is unmounted, but its daemon did not answer"));
  EXPECT_FALSE(IsMounted());
  kill(daemon, SIGCONT);
  EXPECT_TRUE(Eventually([&] { return !IsRunning(daemon); }));
}

TEST_F(EndingTest, SigtermUnderLoadEndsItSoonAndNoReaderGetsWrongBytes) {
  std::optional<std::map<std::string, Bytes>> expected;
  for (int round = 0; round < 3; ++round) {
    const BackgroundMount mount(photos_);
    if (!expected) expected = AllFiles(mount.path());
    const pid_t daemon = mount.daemon();
    ASSERT_GT(daemon, 0);
    Readers readers(mount.path(), *expected);
    EXPECT_TRUE(Eventually([&] { return readers.right() > 20; }));
    kill(daemon, SIGTERM);
    EXPECT_TRUE(Eventually([&] { return !IsRunning(daemon) && !IsMounted(); }));
    readers.Stop();
    EXPECT_EQ(readers.wrong(), 0);
  }
}

TEST_F(EndingTest, UmountUnderLoadLeavesTheMountAloneAndReadersToo) {
  const BackgroundMount mount(photos_);
  const UniqueFd in_use(open((mount / "scan1").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  Readers readers(mount.path(), AllFiles(mount.path()));
  EXPECT_TRUE(Eventually([&] { return readers.right() > 20; }));
  const ProgramResult refused = Umount();
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("is in use"));
  const int before = readers.right();
  EXPECT_TRUE(Eventually([&] { return readers.right() > before + 20; }));
  readers.Stop();
  EXPECT_EQ(readers.wrong(), 0);
  EXPECT_TRUE(IsMounted());
}

TEST_F(EndingTest, AForegroundMountThatIsBusyEndsWithStatus0) {
  const pid_t child = testing::Fork();
  if (child == 0) {
    execl(PCRFS_PROGRAM, "pcrfs", "mount", "-f", photos_.dataset().c_str(), photos_.mount_point().c_str(),
          "--cache-dir", photos_.cache().c_str(), "--log-file", (photos_ / "log").c_str(), nullptr);
    _exit(127);
  }
  const std::string file = photos_.mount_point() + "/scan10/n00/0.jpg";
  EXPECT_TRUE(Eventually([&] { return access(file.c_str(), F_OK) == 0; }));
  const UniqueFd open_file(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(open_file.valid());
  kill(child, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_FALSE(IsMounted());
  char byte = 0;
  EXPECT_EQ(read(open_file.get(), &byte, 1), -1) << "what was open fails from then on";
  EXPECT_THAT(Log(), HasSubstr("is unmounted"));
}

TEST_F(EndingTest, WhereItCannotBeTakenDownTheDaemonEndsAndSaysSo) {
  // fusermount3 wants /etc/mtab.
  const ProgramResult result = photos_.RunAlone(PackedPhotos::kAsUser + std::string(R"(
    mkdir -m 777 "$scratch/log"
    $as_user "$pcrfs" mount "$dataset" "$mount" --log-file "$scratch/log/log"
    mkdir "$scratch/layer" && mount -t tmpfs none "$scratch/layer" && mkdir "$scratch/layer/upper" "$scratch/layer/work"
    (cd "$scratch" && mount -t overlay -o lowerdir=/etc,upperdir=layer/upper,workdir=layer/work overlay /etc)
    rm /etc/mtab
    pid=$("$pcrfs" list --json | sed -n 's/.*"pid": //p' | tr -d ,)
    kill -TERM $pid
    for i in $(seq 100); do grep -qs '^State:.*[RSD] ' /proc/$pid/status || break; sleep 0.1; done
    echo $i
    "$pcrfs" list
    umount -l "$mount"
    cat "$scratch/log/log"
  )"));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_LT(std::stoi(result.out.substr(result.out.find('\n'))), 60) << result.out;
  EXPECT_THAT(result.out, AllOf(HasSubstr("  dead\n"), HasSubstr(" warning the mount on"), HasSubstr("is dead now"),
                                ::testing::Not(HasSubstr("is unmounted"))));
}

}  // namespace
}  // namespace pcrfs
