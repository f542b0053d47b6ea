#include "mount/control_client.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "format/file.h"

namespace pcrfs {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAnotherMount = ENXIO;  // no answer of ours, so it can stand for this

struct Call {
  uint32_t command = 0;
  Bytes in;  // of the command's size, or empty
};

struct Answer {
  int error = 0;  // positive errno, or kAnotherMount; ETIMEDOUT when none came
  Bytes out;
};

// Another may have been mounted over it, before the table was read or since. The kernel answers this itself.
bool IsThatMount(int folder, const MountedThere& mount) {
  struct statx seen {};
  if (statx(folder, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &seen) != 0) return true;  // open() says why
  return (seen.stx_mask & STATX_MNT_ID) == 0 || seen.stx_mnt_id == mount.id;
}

int OpenRoot(const MountedThere& mount, UniqueFd& root) {
  const UniqueFd place(open(mount.path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!place.valid()) return errno;
  if (!IsThatMount(place.get(), mount)) return kAnotherMount;
  const auto enter = [&] {
    root = UniqueFd(openat(place.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return root.valid() ? 0 : errno;
  };
  const int error = enter();
  if (error != EACCES || geteuid() != 0 || mount.user == 0) return error;
  if (setgroups(0, nullptr) != 0 || setresgid(mount.group, mount.group, mount.group) != 0 ||
      setresuid(mount.user, mount.user, mount.user) != 0)
    return EACCES;
  return enter();
}

// The helper process: everything in it may block for ever.
Answer Ask(const MountedThere& mount, const Call& call) {
  UniqueFd root;
  if (const int error = OpenRoot(mount, root); error != 0) return {error, {}};
  Bytes argument(_IOC_SIZE(call.command));
  std::copy(call.in.begin(), call.in.end(), argument.begin());
  if (ioctl(root.get(), call.command, argument.data()) < 0) return {errno, {}};
  return {0, (_IOC_DIR(call.command) & _IOC_READ) != 0 ? std::move(argument) : Bytes()};
}

[[noreturn]] void RunHelper(int pipe, const MountedThere& mount, const Call& call) {
  // Left behind, it must hold nothing that others wait for: output, locks, a file system by its working directory.
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(pipe, STDOUT_FILENO);
  dup2(null, STDIN_FILENO);
  dup2(null, STDERR_FILENO);
  (void)close_range(STDERR_FILENO + 1, ~0U, 0);
  if (chdir("/") != 0) _exit(1);
  const Answer answer = Ask(mount, call);
  Bytes message(sizeof answer.error);
  std::memcpy(message.data(), &answer.error, sizeof answer.error);
  message.insert(message.end(), answer.out.begin(), answer.out.end());
  // It fits the pipe, so it is written at once.
  _exit(write(STDOUT_FILENO, message.data(), message.size()) == static_cast<ssize_t>(message.size()) ? 0 : 1);
}

class Helper {
 public:
  Helper(const MountedThere& mount, const Call& call) : expected_(sizeof(int)) {
    if ((_IOC_DIR(call.command) & _IOC_READ) != 0) expected_ += _IOC_SIZE(call.command);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      failed_ = errno;
      return;
    }
    reader_ = UniqueFd(ends[0]);
    const UniqueFd writer(ends[1]);
    child_ = fork();
    if (child_ == 0) RunHelper(writer.get(), mount, call);
    if (child_ < 0) failed_ = errno;
  }

  Answer Wait(Clock::time_point deadline) {
    if (failed_ != 0) return {failed_, {}};
    Bytes message;
    const bool ended = ReadUntil(deadline, message);
    // One that hangs may never notice; it is nobody's child when this process ends.
    if (!ended) kill(child_, SIGKILL);
    while (waitpid(child_, nullptr, ended ? 0 : WNOHANG) < 0 && errno == EINTR) {
    }
    if (!ended) return {ETIMEDOUT, {}};
    Answer answer{EIO, {}};
    if (message.size() < sizeof answer.error) return answer;
    std::memcpy(&answer.error, message.data(), sizeof answer.error);
    answer.out.assign(message.begin() + sizeof answer.error, message.end());
    if (answer.error == 0 && message.size() != expected_) answer.error = EIO;
    return answer;
  }

 private:
  bool ReadUntil(Clock::time_point deadline, Bytes& message) {
    std::array<uint8_t, 4096> part;
    while (true) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
      pollfd waiting{reader_.get(), POLLIN, 0};
      const int ready = poll(&waiting, 1, static_cast<int>(std::max<int64_t>(left, 0)));
      if (ready == 0) return false;
      const ssize_t size = ready < 0 ? -1 : read(reader_.get(), part.data(), part.size());
      if (size == 0) return true;
      if (size > 0) message.insert(message.end(), part.begin(), part.begin() + size);
      if (size < 0 && errno != EINTR) return true;
    }
  }

  size_t expected_;
  int failed_ = 0;
  UniqueFd reader_;
  pid_t child_ = -1;
};

MountHealth HealthOf(int error) {
  switch (error) {
    case 0:
      return MountHealth::kServing;
    case ENOTCONN:
    case ECONNABORTED:
      return MountHealth::kDead;
    case ETIMEDOUT:
      return MountHealth::kNotAnswering;
    case EACCES:
    case EPERM:
      return MountHealth::kNoAccess;
    case kAnotherMount:
      return MountHealth::kHidden;
    default:
      return MountHealth::kUnknown;
  }
}

tl::unexpected<Error> Refusal(const MountedThere& mount, int error) {
  const std::string there = "the mount on " + Quoted(mount.path);
  switch (HealthOf(error)) {
    case MountHealth::kDead:
      return Fail(ErrorCode::kIo, "the daemon that served " + there +
                                      " is gone; 'pcrfs umount' takes that down, and 'pcrfs mount' replaces it");
    case MountHealth::kNotAnswering:
      return Fail(ErrorCode::kBusy, "the daemon that serves " + there + " does not answer");
    case MountHealth::kNoAccess:
      return Fail(ErrorCode::kPermission,
                  there + " is user " + std::to_string(mount.user) + "'s, and only that user and root may do this");
    case MountHealth::kHidden:
      return Fail(ErrorCode::kBusy, there + " is hidden by another mount");
    case MountHealth::kServing:
    case MountHealth::kUnknown:
      break;
  }
  if (error == ENOTTY)
    return Fail(ErrorCode::kUnsupported,
                there + " does not know this command: it is served by another version of pcrfs, or shows only a part");
  return SystemFail("asking " + there, error);
}

// Text fields end at least in the last byte.
MountDescription Checked(ByteSpan out) {
  MountDescription description;
  std::memcpy(&description, out.data(), sizeof description);
  description.program[sizeof description.program - 1] = '\0';
  description.dataset[sizeof description.dataset - 1] = '\0';
  return description;
}

std::vector<Answer> AskAll(const std::vector<MountedThere>& mounts, const Call& call,
                           std::chrono::milliseconds patience) {
  std::vector<Helper> helpers;
  helpers.reserve(mounts.size());
  for (const MountedThere& mount : mounts) helpers.emplace_back(mount, call);
  const auto deadline = Clock::now() + patience;
  std::vector<Answer> answers;
  for (Helper& helper : helpers) answers.push_back(helper.Wait(deadline));
  return answers;
}

}  // namespace

bool IsOfOurPidNamespace(const MountDescription& description) {
  return description.pid_namespace != 0 && description.pid_namespace == PidNamespace();
}

std::vector<MountReport> DescribeMounts(const std::vector<MountedThere>& mounts, std::chrono::milliseconds patience) {
  std::vector<MountReport> reports;
  for (const Answer& answer : AskAll(mounts, {kDescribeMount, {}}, patience)) {
    MountReport report{HealthOf(answer.error), {}};
    if (report.health == MountHealth::kServing) report.description = Checked(answer.out);
    reports.push_back(report);
  }
  return reports;
}

Result<MountDescription> DescribeMount(const MountedThere& mount, std::chrono::milliseconds patience) {
  const Answer answer = AskAll({mount}, {kDescribeMount, {}}, patience)[0];
  if (answer.error != 0) return Refusal(mount, answer.error);
  return Checked(answer.out);
}

Result<std::string> RefreshMount(const MountedThere& mount, std::chrono::milliseconds patience) {
  const Answer answer = AskAll({mount}, {kRefreshMount, {}}, patience)[0];
  if (answer.error != 0) return Refusal(mount, answer.error);
  RefreshOutcome outcome;
  std::memcpy(&outcome, answer.out.data(), sizeof outcome);
  outcome.sentence[sizeof outcome.sentence - 1] = '\0';
  std::string sentence = outcome.sentence;
  // Another user's daemon may have written it.
  std::replace_if(
      sentence.begin(), sentence.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, '?');
  if (outcome.status > static_cast<uint32_t>(RefreshStatus::kNothingNew))
    return Fail(ErrorCode::kIo, "refreshing the mount on " + Quoted(mount.path) + ": " + sentence);
  return sentence;
}

Result<void> SetMountLogLevel(const MountedThere& mount, LogLevel level, std::chrono::milliseconds patience) {
  LogLevelChange change;
  change.log_level = LogLevelNumber(level);
  Bytes in(sizeof change);
  std::memcpy(in.data(), &change, sizeof change);
  const Answer answer = AskAll({mount}, {kSetLogLevel, std::move(in)}, patience)[0];
  if (answer.error != 0) return Refusal(mount, answer.error);
  return {};
}

}  // namespace pcrfs
