// A service manager that waits for a mount, played by the test: what it is told, and by which process.
#include "mount/service_notice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "format/file.h"
#include "tests/support/fork.h"
#include "tests/support/mount_fixture.h"

namespace pcrfs {
namespace {

using ::testing::AllOf;
using testing::BackgroundMount;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::PackedPhotos;
using ::testing::StartsWith;

struct Message {
  std::string text;
  pid_t sender = 0;
};

// Listens where NOTIFY_SOCKET says for as long as it lives.
class Manager {
 public:
  explicit Manager(const std::string& name) : socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, sizeof address.sun_path);
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0) << name;
    const int on = 1;
    EXPECT_EQ(setsockopt(socket_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    const timeval patience{20, 0};
    EXPECT_EQ(setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~Manager() { unsetenv("NOTIFY_SOCKET"); }

  Message Next() {
    std::array<char, 4096> text;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
    iovec part{text.data(), text.size()};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    const ssize_t size = recvmsg(socket_.get(), &header, 0);
    EXPECT_GT(size, 0) << "nothing came";
    if (size <= 0) return {};
    ucred sender{};
    if (const cmsghdr* from = CMSG_FIRSTHDR(&header); from != nullptr && from->cmsg_type == SCM_CREDENTIALS)
      std::memcpy(&sender, CMSG_DATA(from), sizeof sender);
    return {std::string(text.data(), static_cast<size_t>(size)), sender.pid};
  }
  [[nodiscard]] bool IsSilent() const {
    char byte = 0;
    return recv(socket_.get(), &byte, 1, MSG_DONTWAIT) < 0;
  }

 private:
  UniqueFd socket_;
};

TEST(ServiceNotice, GoesToASocketOfEitherKind) {
  const testing::TempDir folder;
  std::string longest = "@pcrfs test " + folder.path();
  longest.resize(sizeof sockaddr_un::sun_path, 'x');
  for (const std::string& name : {folder / "socket", "@pcrfs test " + folder.path(), longest}) {
    Manager manager(name);
    NotifyReady(7, "it is up");
    EXPECT_EQ(manager.Next().text, "READY=1\nMAINPID=7\nSTATUS=it is up");
    NotifyFailed("it is not\nREADY=1");
    EXPECT_EQ(manager.Next().text, "STATUS=it is not READY=1");
    NotifyStopping();
    EXPECT_EQ(manager.Next().text, "STOPPING=1");
  }
}

TEST(ServiceNotice, NobodyToTellIsNoMatter) {
  NotifyReady(1, "x");
  const testing::TempDir folder;
  for (const std::string& name : {std::string(), std::string("relative"), std::string("@"), folder / "nobody",
                                  "/" + std::string(500, 'x'), std::string("vsock:2:1")}) {
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
    NotifyReady(1, "x");
    NotifyStopping();
  }
  unsetenv("NOTIFY_SOCKET");
}

TEST(ServiceNotice, AManagerThatDoesNotReadHoldsNobodyForLong) {
  const testing::TempDir folder;
  const Manager manager(folder / "socket");
  const auto start = std::chrono::steady_clock::now();
  // The queue holds some tens of messages; the first beyond it waits.
  for (int i = 0; i < 10'000 && std::chrono::steady_clock::now() - start < std::chrono::seconds(4); ++i)
    NotifyStopping();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(ServiceNoticeMount, TheCommandTellsWhichDaemonServesAndTheDaemonThatItStops) {
  const PackedPhotos photos;
  Manager manager(photos / "socket");
  const BackgroundMount mount(photos);
  const pid_t daemon = mount.daemon();
  const Message ready = manager.Next();
  EXPECT_THAT(ready.text, StartsWith("READY=1\nMAINPID=" + std::to_string(daemon) + "\nSTATUS='"));
  EXPECT_NE(ready.sender, daemon);  // a manager believes the process that it started
  EXPECT_TRUE(manager.IsSilent());
  kill(daemon, SIGTERM);
  const Message stopping = manager.Next();
  EXPECT_EQ(stopping.text, "STOPPING=1");
  EXPECT_EQ(stopping.sender, daemon);
}

TEST(ServiceNoticeMount, AForegroundMountSpeaksForItself) {
  const PackedPhotos photos;
  Manager manager(photos / "socket");
  const pid_t child = testing::Fork();
  if (child == 0) {
    execl(PCRFS_PROGRAM, "pcrfs", "mount", "-f", photos.dataset().c_str(), photos.mount_point().c_str(), "--cache-dir",
          photos.cache().c_str(), "--log-file", (photos / "log").c_str(), nullptr);
    _exit(127);
  }
  const Message ready = manager.Next();
  EXPECT_EQ(ready.sender, child);
  EXPECT_THAT(ready.text, AllOf(StartsWith("READY=1\nMAINPID=" + std::to_string(child)), HasSubstr("is mounted on")));
  EXPECT_FALSE(testing::ReadFile(photos.mount_point() + "/scan1/n00/0.jpg").empty());  // ready means so
  EXPECT_EQ(photos.Pcrfs({"umount", photos.mount_point()}).status, 0);
  EXPECT_EQ(manager.Next().text, "STOPPING=1");
  EXPECT_TRUE(Eventually([&] { return !testing::IsRunning(child); }));
}

TEST(ServiceNoticeMount, AFailedStartSaysWhyAndNeverReady) {
  const PackedPhotos photos;
  Manager manager(photos / "socket");
  for (const char* form : {"--foreground", "--log-level=info"}) {
    EXPECT_EQ(photos.Pcrfs({"mount", photos / "nothing", photos.mount_point(), form}).status, 1);
    EXPECT_THAT(manager.Next().text, AllOf(StartsWith("STATUS="), HasSubstr("nothing")));
    EXPECT_TRUE(manager.IsSilent());
  }
}

}  // namespace
}  // namespace pcrfs
