// Mounting and unmounting as users do it: exit statuses, sentences, signals, dead daemons.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "format/file.h"
#include "mount/mount_point.h"
#include "tests/support/fork.h"
#include "tests/support/mount_fixture.h"

namespace pcrfs {
namespace {

using testing::BackgroundMount;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::IsRunning;
using testing::PackedPhotos;
using testing::ProgramResult;
using testing::ReadFile;
using testing::RunProgram;
using ::testing::StartsWith;

bool IsMounted(const PackedPhotos& photos) { return FindMount(photos.mount_point()).has_value(); }

class StartTest : public ::testing::Test {
 protected:
  // Also what a failed test left mounted.
  void TearDown() override {
    while (IsMounted(photos_)) umount2(photos_.mount_point().c_str(), MNT_DETACH);
  }

  PackedPhotos photos_;

  ProgramResult Mount(std::vector<std::string> options = {}) {
    options.insert(options.begin(), {"mount", photos_.dataset(), photos_.mount_point()});
    return photos_.Pcrfs(options);
  }
  ProgramResult Umount() { return photos_.Pcrfs({"umount", photos_.mount_point()}); }
};

TEST_F(StartTest, SaysInOneSentenceWhatIsMountedAndCanBeUsedAtOnce) {
  const ProgramResult mounted = Mount();
  EXPECT_EQ(mounted.status, 0) << mounted.err;
  EXPECT_TRUE(std::filesystem::exists(photos_.mount_point() + "/scan10/n00/0.jpg"));
  EXPECT_THAT(mounted.out, HasSubstr("levels 1 to 10"));
  EXPECT_EQ(std::count(mounted.out.begin(), mounted.out.end(), '\n'), 1);
  EXPECT_EQ(mounted.err, "");
  EXPECT_EQ(Umount().status, 0);
  EXPECT_FALSE(IsMounted(photos_));
}

TEST_F(StartTest, TheCommandsOutputEndsWithTheCommand) {
  // A daemon that kept its standard output open would keep the shell waiting here.
  const ProgramResult result = RunProgram(
      {"timeout", "60", "sh", "-c", "said=$(\"$0\" mount \"$1\" \"$2\" --cache-dir \"$3\" 2>&1) && echo \"<$said>\"",
       PCRFS_PROGRAM, photos_.dataset(), photos_.mount_point(), photos_.cache()});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("is mounted on"));
  EXPECT_EQ(Umount().status, 0);
}

TEST_F(StartTest, RelativePathsWorkAlthoughTheDaemonLeaves) {
  const ProgramResult result =
      RunProgram({"sh", "-c",
                  "cd \"$1\" && \"$0\" mount 'data set, packed' './mount point' --cache-dir cache --log-file log -o "
                  "level=2 && cat 'mount point/n00/0.jpg' > copy",
                  PCRFS_PROGRAM, photos_ / ""});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_GT(std::filesystem::file_size(photos_ / "copy"), 0u);
  EXPECT_THAT(FindMount(photos_.mount_point())->source, StartsWith("/"));
  EXPECT_EQ(Umount().status, 0);
  EXPECT_TRUE(Eventually([&] {
    const Bytes log = ReadFile(photos_ / "log");
    return AsText(log).find("is unmounted") != std::string_view::npos;
  }));
}

TEST_F(StartTest, WithoutASubcommandAndAsMountHelper) {
  ProgramResult mounted = photos_.Pcrfs({photos_.dataset(), photos_.mount_point(), "-o", "rw,dev,suid,noatime"});
  EXPECT_EQ(mounted.status, 0) << mounted.err;
  EXPECT_TRUE(IsMounted(photos_));
  EXPECT_EQ(Umount().status, 0);

  const std::string helper = photos_ / "mount.fuse.pcrfs";
  ASSERT_EQ(symlink(PCRFS_PROGRAM, helper.c_str()), 0);
  const std::string cache = "PCRFS_CACHE_DIR=" + photos_.cache();
  mounted = RunProgram({"env", cache, helper, photos_.dataset(), photos_.mount_point(), "-f", "-o", "rw"});
  EXPECT_EQ(mounted.status, 0) << mounted.err;
  EXPECT_FALSE(IsMounted(photos_));  // -f: only pretend
  mounted = RunProgram({"env", cache, helper, photos_.dataset(), photos_.mount_point(), "-n", "-o", "rw,_netdev"});
  EXPECT_EQ(mounted.status, 0) << mounted.err;
  EXPECT_TRUE(IsMounted(photos_));
  EXPECT_EQ(Umount().status, 0);
}

TEST_F(StartTest, ARemountThatChangesNothingSucceedsAndAnyOtherIsRefused) {
  const auto remount = [this](const std::string& options, const std::string& dataset) {
    return photos_.Pcrfs({dataset, photos_.mount_point(), "-o", "remount,ro" + options});
  };
  const ProgramResult nothing = remount("", photos_.dataset());
  EXPECT_EQ(nothing.status, 1);
  EXPECT_THAT(nothing.err, HasSubstr("nothing is mounted"));
  ASSERT_EQ(Mount({"-o", "level=3,umask=027", "--log-level", "warn"}).status, 0);
  for (const char* same : {"", ",nosuid,nodev,user_id=0,group_id=0,default_permissions", ",umask=27,level=3"}) {
    const ProgramResult done = remount(same, photos_.dataset());
    EXPECT_EQ(done.status, 0) << same << done.err;
    EXPECT_EQ(done.out + done.err, "");
  }
  for (const char* other : {",level=4", ",allow_other", ",umask=22", ",uid=7", ",log_level=debug", ",noexec"}) {
    const ProgramResult refused = remount(other, photos_.dataset());
    EXPECT_EQ(refused.status, 1) << other;
    EXPECT_THAT(refused.err, HasSubstr("cannot be changed while it is there")) << other;
  }
  EXPECT_THAT(remount("", photos_.source()).err, HasSubstr("packed', not"));
  EXPECT_TRUE(IsMounted(photos_));
  EXPECT_EQ(Umount().status, 0);
}

TEST_F(StartTest, OfMountsThatRaceForOnePlaceOneWinsAndTheOthersSaySo) {
  for (int round = 0; round < 3; ++round) {
    std::vector<ProgramResult> results(4);
    std::vector<std::thread> threads;
    for (ProgramResult& result : results) threads.emplace_back([&] { result = Mount(); });
    for (std::thread& thread : threads) thread.join();
    int mounted = 0;
    for (const ProgramResult& result : results) {
      mounted += result.status == 0 ? 1 : 0;
      if (result.status != 0) {
        EXPECT_THAT(result.err, HasSubstr("already mounted"));
      }
    }
    EXPECT_EQ(mounted, 1);
    EXPECT_EQ(Umount().status, 0);
    EXPECT_FALSE(IsMounted(photos_));  // nothing lies below
  }
}

TEST_F(StartTest, MountedIsDoneAlsoWhereNobodyCanBeTold) {
  for (const char* output : {">&-", ">/dev/full"}) {
    const ProgramResult result =
        RunProgram({"sh", "-c", std::string("exec \"$0\" mount \"$1\" \"$2\" --cache-dir \"$3\" ") + output,
                    PCRFS_PROGRAM, photos_.dataset(), photos_.mount_point(), photos_.cache()});
    EXPECT_EQ(result.status, 0) << output << result.err;
    EXPECT_TRUE(IsMounted(photos_)) << output;
    EXPECT_EQ(Umount().status, 0);
  }
}

TEST_F(StartTest, TheDaemonHoldsNoLockOfItsCaller) {
  const std::string lock = photos_ / "lock";
  const ProgramResult result =
      RunProgram({"sh", "-c",
                  "exec 9>\"$4\" && flock 9 && \"$0\" mount \"$1\" \"$2\" --cache-dir \"$3\" && exec 9>&- && "
                  "flock -n \"$4\" true",
                  PCRFS_PROGRAM, photos_.dataset(), photos_.mount_point(), photos_.cache(), lock});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(Umount().status, 0);
}

TEST_F(StartTest, OneDataSetCanBeMountedInTwoPlaces) {
  const BackgroundMount first(photos_);
  const std::string other = photos_ / "other";
  ASSERT_EQ(mkdir(other.c_str(), 0755), 0);
  EXPECT_EQ(photos_.Pcrfs({"mount", photos_.dataset(), other}).status, 0);
  EXPECT_EQ(ReadFile(other + "/scan3/n00/0.jpg"), ReadFile(first / "scan3/n00/0.jpg"));
  EXPECT_EQ(photos_.Pcrfs({"umount", other}).status, 0);
  EXPECT_TRUE(IsMounted(photos_));
}

TEST_F(StartTest, TheCatalogIsBuiltAnewWhenAskedForAlsoWhileAnotherMountUsesIt) {
  const auto catalog = [&] {
    struct stat status {};
    for (const std::string& file : testing::FilesBelow(photos_.cache()))
      if (file.ends_with("catalog.mdb")) (void)stat((photos_.cache() + "/" + file).c_str(), &status);
    return status.st_ino;
  };
  const BackgroundMount first(photos_);
  const ino_t built = catalog();
  const std::string other = photos_ / "other";
  ASSERT_EQ(mkdir(other.c_str(), 0755), 0);
  for (const bool anew : {false, true}) {
    std::vector<std::string> words = {"mount", photos_.dataset(), other};
    if (anew) words.emplace_back("--no-catalog-reuse");
    EXPECT_EQ(photos_.Pcrfs(words).status, 0);
    EXPECT_EQ(catalog() != built, anew);
    EXPECT_EQ(ReadFile(other + "/scan3/n00/0.jpg"), ReadFile(first / "scan3/n00/0.jpg"));
    EXPECT_EQ(photos_.Pcrfs({"umount", other}).status, 0);
  }
}

TEST_F(StartTest, UmountRefusesWhatIsNotOurs) {
  EXPECT_THAT(photos_.Pcrfs({"umount", photos_ / "missing"}).err,
              ::testing::AllOf(HasSubstr("there is no folder"), ::testing::Not(HasSubstr("mkdir"))));
  EXPECT_THAT(Umount().err, HasSubstr("nothing is mounted on"));
  EXPECT_THAT(photos_.Pcrfs({"umount", "/proc"}).err, HasSubstr("is no mount of pcrfs"));
  EXPECT_EQ(photos_.Pcrfs({"umount", "/proc"}).status, 1);
}

TEST_F(StartTest, UmountSaysThatTheMountIsInUse) {
  const BackgroundMount mount(photos_);
  {
    const UniqueFd fd(open((mount / "scan1/n00/0.jpg").c_str(), O_RDONLY));
    const ProgramResult busy = Umount();
    EXPECT_EQ(busy.status, 1);
    EXPECT_THAT(busy.err, HasSubstr("in use"));
    EXPECT_TRUE(IsMounted(photos_));
  }
  EXPECT_EQ(Umount().status, 0);
}

TEST_F(StartTest, SigtermUnmountsAlsoWhenBusyAndWhatMeansNothingDoesNothing) {
  for (const bool busy : {false, true}) {
    const BackgroundMount mount(photos_);
    const pid_t daemon = mount.daemon();
    ASSERT_GT(daemon, 0);
    const UniqueFd fd(busy ? open((mount / "scan1/n00/0.jpg").c_str(), O_RDONLY) : -1);
    for (const int signal : {SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE, SIGXFSZ}) kill(daemon, signal);
    EXPECT_FALSE(ReadFile(mount / "scan4/n00/0.jpg").empty());
    kill(daemon, SIGTERM);
    EXPECT_TRUE(Eventually([&] { return !IsMounted(photos_) && !IsRunning(daemon); })) << busy;
  }
}

TEST_F(StartTest, ADeadDaemonsMountIsReplaced) {
  const BackgroundMount mount(photos_);
  EXPECT_FALSE(ReadFile(mount / "scan4/n00/0.jpg").empty());
  kill(mount.daemon(), SIGKILL);
  EXPECT_TRUE(Eventually([&] { return access((mount / "scan4/n01/0.jpg").c_str(), F_OK) != 0 && errno == ENOTCONN; }));
  const ProgramResult again = Mount();
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_FALSE(ReadFile(mount / "scan4/n01/0.jpg").empty());
  EXPECT_EQ(Umount().status, 0);
  EXPECT_FALSE(IsMounted(photos_));
}

TEST_F(StartTest, ADeadDaemonsMountCanBeTakenDownAlsoWhenItIsInUse) {
  const BackgroundMount mount(photos_);
  const UniqueFd fd(open((mount / "scan1/n00/0.jpg").c_str(), O_RDONLY));
  ASSERT_TRUE(fd.valid());
  kill(mount.daemon(), SIGKILL);
  EXPECT_TRUE(Eventually([&] { return access((mount / "scan4/n01/0.jpg").c_str(), F_OK) != 0 && errno == ENOTCONN; }));
  const ProgramResult down = Umount();
  EXPECT_EQ(down.status, 0) << down.err;
  EXPECT_FALSE(IsMounted(photos_));
}

TEST_F(StartTest, ADeadDaemonsMountCanBeTakenDown) {
  const BackgroundMount mount(photos_);
  kill(mount.daemon(), SIGKILL);
  EXPECT_TRUE(Eventually([&] { return access((mount / "scan4").c_str(), F_OK) != 0; }));
  EXPECT_EQ(Umount().status, 0);
  EXPECT_FALSE(IsMounted(photos_));
}

// SIGHUP is what closing the terminal sends.
class ForegroundTest : public StartTest, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Signals, ForegroundTest, ::testing::Values(SIGINT, SIGTERM, SIGHUP, SIGQUIT));

TEST_P(ForegroundTest, ServesUntilInterrupted) {
  const std::string log = photos_ / "stderr";
  const pid_t child = testing::Fork();
  if (child == 0) {
    std::signal(SIGHUP, SIG_DFL);  // also when the tests run under nohup
    dup2(open(log.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    execl(PCRFS_PROGRAM, "pcrfs", "mount", photos_.dataset().c_str(), photos_.mount_point().c_str(), "-f",
          "--cache-dir", photos_.cache().c_str(), nullptr);
    _exit(127);
  }
  const auto says = [&](const char* text) {
    const Bytes bytes = ReadFile(log);
    return AsText(bytes).find(text) != std::string_view::npos;
  };
  EXPECT_TRUE(Eventually([&] { return access(log.c_str(), F_OK) == 0 && says("is mounted on"); }));
  EXPECT_FALSE(ReadFile(photos_.mount_point() + "/scan4/n00/0.jpg").empty());
  kill(child, GetParam());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_FALSE(IsMounted(photos_));
  EXPECT_TRUE(says("is unmounted"));
}

TEST_F(StartTest, AcceptsADescriptorThatIsMountedAlready) {
  const int fuse = open("/dev/fuse", O_RDWR);  // inherited by the program
  ASSERT_GE(fuse, 0);
  const std::string options = "fd=" + std::to_string(fuse) + ",rootmode=40000,user_id=0,group_id=0,default_permissions";
  ASSERT_EQ(mount("ds", photos_.mount_point().c_str(), "fuse.pcrfs", MS_RDONLY | MS_NOSUID | MS_NODEV, options.c_str()),
            0);
  const ProgramResult mounted = photos_.Pcrfs({photos_.dataset(), "/dev/fd/" + std::to_string(fuse)});
  close(fuse);
  EXPECT_EQ(mounted.status, 0) << mounted.err;
  EXPECT_FALSE(ReadFile(photos_.mount_point() + "/scan4/n00/0.jpg").empty());
  EXPECT_EQ(Umount().status, 0);
}

}  // namespace
}  // namespace pcrfs
