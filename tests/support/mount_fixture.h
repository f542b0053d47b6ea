// Packed photos and real mounts of them through /dev/fuse, for tests that act as a user would.
//
// Everything made here is taken down and removed when the object goes, also when the test failed. A machine without
// /dev/fuse fails these tests with a sentence; nothing is skipped. Each object belongs to one thread.
#ifndef PCRFS_TESTS_SUPPORT_MOUNT_FIXTURE_H_
#define PCRFS_TESTS_SUPPORT_MOUNT_FIXTURE_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fs/file_system.h"
#include "mount/fuse_ops.h"
#include "mount/session.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_dataset.h"
#include "tests/support/wrapped_source.h"

namespace pcrfs::testing {

struct ProgramResult {
  int status = -1;  // exit status, or 128 + number of the signal that ended it
  std::string out, err;
};

// Runs words[0] with the others as arguments, and waits for it. A program that can only be a path to it is found so,
// others by PATH.
[[nodiscard]] ProgramResult RunProgram(const std::vector<std::string>& words);

// Asks again and again, for ten seconds at most, until it is so.
[[nodiscard]] bool Eventually(const std::function<bool()>& is_so);

// Whether a process is there, and not only waiting to be reaped by whoever adopted it.
[[nodiscard]] bool IsRunning(pid_t process);

// Files below `folder` that are regular, as paths relative to it, sorted.
[[nodiscard]] std::vector<std::string> FilesBelow(const std::string& folder);

// Made photos, packed; a mount point and a cache of its own.
class PackedPhotos {
 public:
  // `add` puts what else a test needs into the source folder before it is packed.
  explicit PackedPhotos(const PhotoFolder& spec = {}, const PackOptions& options = {},
                        const std::function<void(const std::string& source)>& add = nullptr);
  // Ends the test program with what a sanitizer had to say of the programs it ran: a daemon's stderr is nowhere.
  ~PackedPhotos();
  PackedPhotos(const PackedPhotos&) = delete;
  PackedPhotos& operator=(const PackedPhotos&) = delete;

  [[nodiscard]] std::string source() const { return folder_ / "photos"; }
  [[nodiscard]] std::string dataset() const { return folder_ / "data set, packed"; }
  [[nodiscard]] std::string mount_point() const { return folder_ / "mount point"; }
  [[nodiscard]] std::string cache() const { return folder_ / "cache"; }
  [[nodiscard]] std::string operator/(std::string_view name) const { return folder_ / name; }

  // The built program, with this cache.
  [[nodiscard]] ProgramResult Pcrfs(std::vector<std::string> arguments) const;
  // env(1) and what comes before the program's name: its cache, and where sanitizers report to.
  [[nodiscard]] std::vector<std::string> Environment() const;

  // Runs a shell script that ends at its first failure, in a mount namespace of its own, without the mounts of other
  // tests. It knows $pcrfs, $dataset, $mount and $scratch, an empty folder that all users may write to. Whatever it
  // mounts it must unmount, since a daemon keeps its namespace.
  [[nodiscard]] ProgramResult RunAlone(const std::string& script) const;
  // Before such a script, if it is to mount as a user who is not root: $as_user runs a command so, and /dev/fuse is
  // open to all.
  static constexpr const char* kAsUser = R"(
    mkdir "$scratch/dev" && mount -t tmpfs -o dev,mode=755 none "$scratch/dev"
    mknod -m 666 "$scratch/dev/fuse" c 10 229 && mount --bind "$scratch/dev/fuse" /dev/fuse
    chown nobody "$mount" && chmod 755 "$scratch/.."
    as_user="setpriv --reuid nobody --regid nogroup --clear-groups env PCRFS_CACHE_DIR=$scratch/users-cache"
  )";

 private:
  TempDir folder_;
};

// Processes of the program that have this mount point in their command line.
[[nodiscard]] std::vector<pid_t> ProcessesOf(const std::string& mount_point);

// `pcrfs mount DATASET MOUNTPOINT`, in the background; where $PCRFS_TEST_FOREGROUND is set, in the foreground (-f), so
// that a test program can be run both ways.
class BackgroundMount {
 public:
  explicit BackgroundMount(const PackedPhotos& photos, std::vector<std::string> options = {});
  ~BackgroundMount();
  BackgroundMount(const BackgroundMount&) = delete;
  BackgroundMount& operator=(const BackgroundMount&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  // The process that serves it.
  [[nodiscard]] pid_t daemon() const;

 private:
  void MountInForeground(const PackedPhotos& photos, std::vector<std::string> options);

  std::string path_;
  std::string dataset_;
};

// A session in a thread of the test itself, whose requests can be counted.
class SessionMount {
 public:
  explicit SessionMount(const PackedPhotos& photos, const MountView& view = {});
  SessionMount(const PackedPhotos& photos, std::unique_ptr<FileSystem> files, unsigned max_threads = 256);
  ~SessionMount();
  SessionMount(const SessionMount&) = delete;
  SessionMount& operator=(const SessionMount&) = delete;

  [[nodiscard]] std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  [[nodiscard]] uint64_t requests(RequestKind kind) const { return state_->requests[kind]; }
  // Stops serving and unmounts, now instead of at the end.
  void Stop();

 private:
  std::string path_;
  std::unique_ptr<FileSystem> files_;
  std::unique_ptr<MountState> state_;
  std::unique_ptr<Session> session_;
  std::thread server_;
};

// The data set opened as a mount does, each shard wrapped when it is opened and, then, with these options; ends the
// test program when that fails.
[[nodiscard]] std::unique_ptr<FileSystem> OpenFileSystem(
    const PackedPhotos& photos, const MountView& view, FaultObserver on_fault = [](const Error&, auto) {},
    const SourceWrapper& wrap = {}, const ShardSetOptions& options = {});

}  // namespace pcrfs::testing

#endif  // PCRFS_TESTS_SUPPORT_MOUNT_FIXTURE_H_
