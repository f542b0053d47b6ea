// Mounts that cannot be made: one sentence says why, and nothing is left behind; neither a mount, nor a process, nor a
// temporary file. (What becomes of a damaged or full cache folder: catalog_mount_test.cc; of users who may not open
// /dev/fuse: users_test.py.)
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "format/file.h"
#include "mount/mount_point.h"
#include "tests/support/mount_fixture.h"
#include "tests/support/sanitizers.h"

namespace pcrfs {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using testing::BackgroundMount;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::PackedPhotos;
using testing::ProgramResult;
using testing::ReadFile;
using ::testing::StartsWith;

class RefusedMountTest : public ::testing::Test {
 protected:
  // Also what a failed test left mounted.
  void TearDown() override {
    while (FindMount(photos_.mount_point())) umount2(photos_.mount_point().c_str(), MNT_DETACH);
  }

  PackedPhotos photos_;

  ProgramResult Mount(std::vector<std::string> options = {}) {
    options.insert(options.begin(), {"mount", photos_.dataset(), photos_.mount_point()});
    return photos_.Pcrfs(options);
  }
  ProgramResult Umount() { return photos_.Pcrfs({"umount", photos_.mount_point()}); }
  // In a mount namespace of its own, that `prepare` changes first; `as` is put before the program's name.
  ProgramResult MountAlone(const std::string& prepare, const std::string& as = "") {
    return photos_.RunAlone(prepare + "\n" + as + R"( "$pcrfs" mount "$dataset" "$mount" && status=0 || status=$?
      findmnt "$mount" && echo "it is mounted"
      exit $status)");
  }

  void ExpectRefused(const ProgramResult& result, const std::string& said, int status = 1) {
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_THAT(result.err, StartsWith("pcrfs: "));
    EXPECT_THAT(result.err, HasSubstr(said));
    if (status == 1) {
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    }
    EXPECT_EQ(result.out, "");
    ExpectNothingLeft();
  }
  void ExpectNothingLeft() {
    EXPECT_FALSE(FindMount(photos_.mount_point()));
    EXPECT_TRUE(Eventually([&] { return testing::ProcessesOf(photos_.mount_point()).empty(); }));
    if (!std::filesystem::exists(photos_.cache())) return;
    for (const std::string& file : testing::FilesBelow(photos_.cache()))
      EXPECT_TRUE(file.ends_with("catalog.mdb") || file.ends_with("catalog.head") || file.ends_with("lock")) << file;
  }
};

TEST_F(RefusedMountTest, WhatIsNoDataSet) {
  ExpectRefused(photos_.Pcrfs({"mount", photos_ / "nothing", photos_.mount_point()}), "nothing");
  ExpectRefused(photos_.Pcrfs({"mount", photos_.source(), photos_.mount_point()}), "PCR_index.pb");
  std::filesystem::resize_file(photos_.dataset() + "/PCR_index.pb", 10);
  ExpectRefused(Mount(), "PCR_index.pb");
  ExpectRefused(Mount({"-f"}), "PCR_index.pb");
}

TEST_F(RefusedMountTest, AMissingOrDamagedShardIsNamed) {
  const std::string shard = photos_.dataset() + "/PCR_0.pcr";
  const Bytes bytes = ReadFile(shard);
  std::filesystem::resize_file(shard, bytes.size() - 1);
  ExpectRefused(Mount(), "PCR_0.pcr");
  std::filesystem::remove(shard);
  ExpectRefused(Mount(), "PCR_0.pcr");
  ExpectRefused(Mount({"-f"}), "PCR_0.pcr");
  testing::WriteFile(shard, bytes);
  EXPECT_EQ(Mount().status, 0);  // nothing of the failures is left in the cache
  EXPECT_EQ(Umount().status, 0);
}

TEST_F(RefusedMountTest, AMountPointThatIsNone) {
  const auto mount_on = [&](const std::string& path) { return photos_.Pcrfs({"mount", photos_.dataset(), path}); };
  ExpectRefused(mount_on(photos_ / "missing"), "mkdir -p");
  ExpectRefused(mount_on(photos_.dataset() + "/PCR_0.pcr"), "is not a folder");
  ExpectRefused(mount_on(photos_.source()), "is not empty");
  ExpectRefused(photos_.Pcrfs({"mount", photos_.dataset(), photos_.dataset(), "-o", "nonempty"}),
                "would hide the data set");
}

TEST_F(RefusedMountTest, ALogOrACatalogThatTheMountWouldHide) {
  for (const char* beneath : {"", "/folder", "/folder/../other"}) {
    ExpectRefused(Mount({"--log-file", photos_.mount_point() + "/log"}), "would hide the log file");
    ExpectRefused(Mount({"-o", "cache_dir=" + photos_.mount_point() + beneath}), "would hide the cache folder");
    EXPECT_TRUE(std::filesystem::is_empty(photos_.mount_point()));
  }
}

// Each would have a larger stack than there are addresses.
TEST_F(RefusedMountTest, OneWhoseDaemonMayNotStartThreads) {
  PCRFS_NOT_UNDER_THREAD_SANITIZER();
  ExpectRefused(MountAlone("ulimit -s 200000000000"), "cannot start a thread");
}

// A program that writes beyond `ulimit -f` ends by a signal unless it ignores that. (What is said goes through a pipe,
// as files cannot be written.)
TEST_F(RefusedMountTest, OneThatMayWriteNoFilesAndALogThatMayNotBeWritten) {
  PCRFS_NOT_UNDER_THREAD_SANITIZER();
  const ProgramResult result = photos_.RunAlone(R"(
    (ulimit -f 0; "$pcrfs" mount "$dataset" "$mount" || echo "status $?") 2>&1 | cat
    "$pcrfs" mount "$dataset" "$mount" && "$pcrfs" umount "$mount"
    (ulimit -f 0; "$pcrfs" mount "$dataset" "$mount" --log-file "$scratch/log") 2>&1 | cat
    ls "$mount/scan1" && "$pcrfs" umount "$mount"
  )");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::ContainsRegex("^pcrfs: [^\n]*File too large[^\n]*\nstatus 1\n"));
  EXPECT_THAT(result.out, HasSubstr("\nn00\n"));
}

TEST_F(RefusedMountTest, ADescriptorThatIsNoMountedFuse) {
  const UniqueFd fuse(open("/dev/fuse", O_RDWR)), null(open("/dev/null", O_RDWR));
  const auto mount_on = [&](int fd) {
    return photos_.Pcrfs({"mount", photos_.dataset(), "/dev/fd/" + std::to_string(fd)});
  };
  EXPECT_EQ(mount_on(null.get()).status, 1);
  EXPECT_THAT(mount_on(null.get()).err, HasSubstr("is not /dev/fuse"));
  EXPECT_EQ(mount_on(999).status, 1);
  EXPECT_EQ(mount_on(fuse.get()).status, 1);
  EXPECT_THAT(mount_on(fuse.get()).err, HasSubstr("nothing was mounted with it"));
  ExpectNothingLeft();
}

TEST_F(RefusedMountTest, AFolderThatIsNotEmptyUnlessThatIsAskedFor) {
  testing::WriteFile(photos_.mount_point() + "/below", std::string_view("x"));
  ExpectRefused(Mount(), "is not empty");
  EXPECT_EQ(Mount({"-o", "nonempty"}).status, 0);
  EXPECT_FALSE(std::filesystem::exists(photos_.mount_point() + "/below"));
  EXPECT_EQ(Umount().status, 0);
  EXPECT_TRUE(std::filesystem::exists(photos_.mount_point() + "/below"));
}

TEST_F(RefusedMountTest, OptionsThatCannotBe) {
  ExpectRefused(Mount({"-o", "level=11"}), "level");
  ExpectRefused(Mount({"-o", "frobnicate"}), "frobnicate", 2);
  ExpectRefused(Mount({"--log-file", photos_.dataset() + "/PCR_0.pcr/log"}), "cannot log");
  ExpectRefused(Mount({"--log-file", photos_ / "no such folder/log"}), "No such file or directory");
  EXPECT_FALSE(std::filesystem::exists(photos_ / "no such folder"));
}

TEST_F(RefusedMountTest, ACacheThatCannotBeWritten) {
  testing::WriteFile(photos_ / "file", std::string_view("x"));
  ExpectRefused(Mount({"--cache-dir", photos_ / "file"}), "file");
  ExpectRefused(Mount({"--cache-dir", "/proc/pcrfs"}), "/proc/pcrfs");
}

TEST_F(RefusedMountTest, ASecondOneInTheSamePlace) {
  ASSERT_EQ(Mount().status, 0);
  for (const char* form : {"--foreground", "--log-level=info"}) {
    const ProgramResult second = Mount({form});
    EXPECT_EQ(second.status, 1);
    EXPECT_THAT(second.err, HasSubstr("already mounted"));
    EXPECT_EQ(std::count(second.err.begin(), second.err.end(), '\n'), 1) << second.err;
  }
  EXPECT_TRUE(FindMount(photos_.mount_point()));
  EXPECT_EQ(Umount().status, 0);
  ExpectNothingLeft();
}

TEST_F(RefusedMountTest, OneWhereAnotherHangsWhichDoesNotHangTheCommand) {
  const BackgroundMount mount(photos_);
  const pid_t daemon = mount.daemon();
  ASSERT_GT(daemon, 0);
  kill(daemon, SIGSTOP);
  const ProgramResult second = Mount({"-o", "nonempty"});
  EXPECT_EQ(second.status, 1);
  EXPECT_THAT(second.err, HasSubstr("does not answer; take it down with 'umount -l' first"));
  kill(daemon, SIGCONT);
}

TEST_F(RefusedMountTest, OneOverTheDeadMountOfAnotherProgram) {
  {
    const UniqueFd fuse(open("/dev/fuse", O_RDWR | O_CLOEXEC));
    const std::string options = "fd=" + std::to_string(fuse.get()) + ",rootmode=40000,user_id=0,group_id=0";
    ASSERT_EQ(mount("x", photos_.mount_point().c_str(), "fuse.other", 0, options.c_str()), 0);
  }
  const ProgramResult refused = Mount();
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("is gone; take that down with 'umount -l'"));
}

TEST_F(RefusedMountTest, AMountThatOthersHideIsNotInTheWay) {
  const ProgramResult result = photos_.RunAlone(R"(
    folder="$scratch/folder"
    mkdir -p "$folder/on" && "$pcrfs" mount "$dataset" "$folder/on"
    mount -t tmpfs none "$folder"
    mkdir "$folder/on" && "$pcrfs" mount "$dataset" "$folder/on" -o level=2
    cat "$folder/on/n00/0.jpg" >/dev/null
    "$pcrfs" umount "$folder/on" && umount "$folder" && "$pcrfs" umount "$folder/on"
  )");
  EXPECT_EQ(result.status, 0) << result.err;
}

TEST_F(RefusedMountTest, AMachineWithoutFuse) {
  ExpectRefused(MountAlone(R"(
    mkdir "$scratch/dev" && mount -t tmpfs -o dev,mode=755 none "$scratch/dev"
    cp -a /dev/null /dev/zero /dev/urandom "$scratch/dev" && mount --bind "$scratch/dev" /dev)"),
                "cannot open /dev/fuse (load the kernel module with 'modprobe fuse'");
  ExpectRefused(MountAlone(R"(
    mkdir -p "$scratch/dev" && mount -t tmpfs -o dev,mode=755 none "$scratch/dev"
    mknod "$scratch/dev/fuse" c 10 229 && rm "$scratch/dev/fuse" && mknod "$scratch/dev/fuse" c 4095 0
    mount --bind "$scratch/dev/fuse" /dev/fuse)"),
                "cannot open /dev/fuse");
}

TEST_F(RefusedMountTest, AContainerWithoutTheRightToMount) {
  for (const char* form : {"--foreground", "--log-level=info"})
    ExpectRefused(testing::RunProgram({"setpriv", "--bounding-set", "-sys_admin", PCRFS_PROGRAM, "mount", form,
                                       photos_.dataset(), photos_.mount_point(), "--cache-dir", photos_.cache()}),
                  "Operation not permitted (it takes CAP_SYS_ADMIN");
}

TEST_F(RefusedMountTest, WithoutDescriptorsTheSentenceSaysWhichLimit) {
  PCRFS_NOT_UNDER_ADDRESS_SANITIZER();
  const std::string destination = photos_ / "destination";
  const std::vector<std::string> mount = {"mount", photos_.dataset(), photos_.mount_point()},
                                 extract = {"extract", photos_.dataset(), destination};
  int refused = 0;
  for (int limit = 4; limit <= 14; ++limit)
    for (const std::vector<std::string>& command : {mount, extract}) {
      std::vector<std::string> words = photos_.Environment();
      words.insert(words.end(), {"sh", "-c", "ulimit -n " + std::to_string(limit) + " && exec \"$@\"", "sh"});
      words.emplace_back(PCRFS_PROGRAM);
      words.insert(words.end(), command.begin(), command.end());
      const ProgramResult result = testing::RunProgram(words);
      constexpr int kNotLoaded = 127;  // there were none for the shared libraries
      EXPECT_THAT(result.status, AnyOf(0, 1, kNotLoaded)) << limit;
      std::filesystem::remove_all(destination);
      if (result.status == 0 && command == mount) {
        EXPECT_EQ(Umount().status, 0);
      }
      if (result.status != 1) continue;
      EXPECT_THAT(result.err, AllOf(HasSubstr("Too many open files"), HasSubstr("ulimit -n"))) << limit;
      ++refused;
    }
  EXPECT_GT(refused, 0);
}

TEST_F(RefusedMountTest, AUserWithoutFusermount) {
  ExpectRefused(MountAlone(std::string(PackedPhotos::kAsUser) + R"(
    fusermount=$(command -v fusermount3); mount --bind "$dataset/PCR_index.pb" $fusermount)",
                           "$as_user"),
                "Debian package fuse3");
}

TEST_F(RefusedMountTest, AUserWhoMayNotReadTheDataSet) {
  ExpectRefused(MountAlone(std::string(PackedPhotos::kAsUser) + "chmod 700 \"$dataset\"", "$as_user"),
                "Permission denied");
}

}  // namespace
}  // namespace pcrfs
