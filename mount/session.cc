#include "mount/session.h"

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "mount/console.h"
#include "mount/logging.h"
#include "mount/mount_point.h"

namespace pcrfs {
namespace {

constexpr int kWakeUp = SIGUSR1;

// How long an end waits for requests that hang in the store.
constexpr std::chrono::seconds kPatience{2};

// libfuse explains a failed mount only in its log; the last line of this thread is kept for the error message.
thread_local std::string last_line;
thread_local bool mounting = false;

void TakeFuseLog(fuse_log_level level, const char* format, va_list arguments) {
  char line[512];
  std::vsnprintf(line, sizeof line, format, arguments);
  last_line = line;
  while (!last_line.empty() && last_line.back() == '\n') last_line.pop_back();
  const std::string_view prefix = "fuse: ";
  if (last_line.compare(0, prefix.size(), prefix) == 0) last_line.erase(0, prefix.size());
  Log(level <= FUSE_LOG_ERR && !mounting ? LogLevel::kWarn : LogLevel::kDebug, "libfuse: " + last_line);
}

class Arguments {
 public:
  Arguments() { fuse_opt_add_arg(&arguments_, "pcrfs"); }
  ~Arguments() {
    fuse_opt_free_args(&arguments_);
    std::free(options_);
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  // Commas and backslashes in it are escaped.
  void AddOption(const std::string& option) { fuse_opt_add_opt_escaped(&options_, option.c_str()); }
  fuse_args* Finish() {
    fuse_opt_add_arg(&arguments_, "-o");
    fuse_opt_add_arg(&arguments_, options_);
    return &arguments_;
  }

 private:
  fuse_args arguments_ = FUSE_ARGS_INIT(0, nullptr);
  char* options_ = nullptr;
};

// While a mount is made: standard error goes into a file, since fusermount3, which mounts for users without the right
// to, says there why it does not; and what libfuse says is kept for the error message alone.
class CaughtStderr {
 public:
  CaughtStderr()
      : file_(memfd_create("pcrfs-stderr", MFD_CLOEXEC)),
        own_(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)) {
    if (file_.valid() && own_.valid()) dup2(file_.get(), STDERR_FILENO);
    last_line.clear();
    mounting = true;
  }
  ~CaughtStderr() {
    mounting = false;
    if (own_.valid()) dup2(own_.get(), STDERR_FILENO);
  }
  CaughtStderr(const CaughtStderr&) = delete;
  CaughtStderr& operator=(const CaughtStderr&) = delete;

  [[nodiscard]] std::string LastLine() const { return pcrfs::LastLine(file_.get()); }

 private:
  UniqueFd file_, own_;
};

Error MountFailure(const SessionOptions& options, const CaughtStderr& said) {
  const std::string of_helper = said.LastLine();
  const std::string& why = last_line.empty() ? of_helper : last_line;
  std::string sentence = "cannot mount on " + Quoted(options.mount_point) + ": " +
                         (why.empty() ? "fusermount3 refused, without a word" : why);
  if (why.find("failed to exec") != std::string::npos)
    sentence += " (users other than root need it: Debian package fuse3)";
  if (why.find("Too many open files") != std::string::npos) sentence += " ('ulimit -n' is the limit to raise)";
  if (why.find("Operation not permitted") != std::string::npos)
    sentence += " (it takes CAP_SYS_ADMIN, or a fusermount3 that has it; a container gets it by --cap-add SYS_ADMIN)";
  return {ErrorCode::kIo, sentence};
}

// libfuse forks to run fusermount3, and allocates in the child. Under GCC 12's address sanitizer that waits for ever if
// another thread was allocating just then, as threads do that have just been started; glibc's own allocator is safe.
void LetThreadsSettle() {
#ifdef __SANITIZE_ADDRESS__
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
#endif
}

}  // namespace

Session::Session(MountState& state, SessionOptions options)
    : state_(state), options_(std::move(options)), ending_(eventfd(0, EFD_CLOEXEC)) {}

Result<std::unique_ptr<Session>> Session::Mount(MountState& state, const SessionOptions& options) {
  std::unique_ptr<Session> made(new Session(state, options));
  fuse_set_log_func(TakeFuseLog);
  Arguments arguments;
  for (const char* option : {"ro", "nosuid", "nodev", "default_permissions", "subtype=pcrfs"})
    arguments.AddOption(option);
  arguments.AddOption("fsname=" + options.source);
  if (options.allow_other) arguments.AddOption("allow_other");
  if (options.noexec) arguments.AddOption("noexec");

  LetThreadsSettle();
  {
    const CaughtStderr said;
    made->session_ = fuse_session_new(arguments.Finish(), &FuseOps(), sizeof(fuse_lowlevel_ops), &state);
    made->mounted_ = made->session_ != nullptr && fuse_session_mount(made->session_, options.mount_point.c_str()) == 0;
    if (!made->mounted_) return tl::unexpected(MountFailure(options, said));
  }
  if (!IsPassedDescriptor(options.mount_point)) made->mount_ = FindMount(options.mount_point);
  state.reads.Allow(ReadQueue::ReadsAtOnce(options.max_threads));
  return made;
}

Session::~Session() {
  (void)Unmount();
  if (session_ != nullptr) fuse_session_destroy(session_);
}

Result<void> Session::Serve() {
  struct sigaction wake {
  }, before{};
  wake.sa_handler = [](int) {};  // and no SA_RESTART: its arrival ends libfuse's wait
  sigaction(kWakeUp, &wake, &before);
  {
    const std::lock_guard lock(mutex_);
    serving_ = true;
    serving_thread_ = pthread_self();
  }
  fuse_loop_config* config = fuse_loop_cfg_create();
  int result = -ENOMEM;
  if (config != nullptr) {
    // Without clone_fd: it costs a descriptor a thread, and 1 to 64 readers on 2 cores were no faster for it.
    fuse_loop_cfg_set_max_threads(config, options_.max_threads);
    result = fuse_session_loop_mt(session_, config);
    fuse_loop_cfg_destroy(config);
  }
  state_.reads.End();
  state_.initialised = true;  // or never will be: whoever waits for it must go on
  state_.initialised.notify_all();
  const std::lock_guard lock(mutex_);
  serving_ = false;
  served_ = true;
  (void)eventfd_write(ending_.get(), 1);
  finished_.notify_all();
  sigaction(kWakeUp, &before, nullptr);
  if (result < 0) return SystemFail("serving " + Quoted(options_.mount_point) + " failed", -result);
  return {};
}

bool Session::Stop() {
  fuse_session_exit(session_);
  (void)eventfd_write(ending_.get(), 1);
  state_.reads.Refuse();
  // libfuse looks at that flag and then waits on a semaphore; between the two a single signal would be lost.
  std::unique_lock lock(mutex_);
  for (const auto begin = std::chrono::steady_clock::now(); serving_;) {
    pthread_kill(serving_thread_, kWakeUp);
    finished_.wait_for(lock, std::chrono::milliseconds(20));
    if (!serving_ || std::chrono::steady_clock::now() - begin < kPatience) continue;
    lock.unlock();
    CutOff();
    return false;
  }
  return true;
}

// The kernel fails all requests when the last descriptor of its device is closed. Requests that are still served here
// will be answered to that descriptor's number, which therefore stays taken.
void Session::CutOff() {
  const std::lock_guard lock(cut_off_);  // whoever returns may end the process
  const UniqueFd nowhere(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (nowhere.valid()) dup3(nowhere.get(), fuse_session_fd(session_), O_CLOEXEC);
  if (!mounted_.exchange(false) || !IsThere()) return;
  if (const auto gone = TakeDown(options_.mount_point, true); !gone) Log(LogLevel::kError, gone.error().message);
}

// Not, for example, another mount in its place.
bool Session::IsThere() const { return mount_ && FindMount(options_.mount_point) == mount_; }

void Session::AwaitEnd() {
  pollfd waiting[] = {{-1, 0, 0}, {ending_.get(), POLLIN, 0}};
  {
    const std::lock_guard lock(mutex_);
    if (served_) return;
    waiting[0].fd = fuse_session_fd(session_);  // POLLERR, whatever is asked for, when the kernel has let go of it
  }
  while (poll(waiting, std::size(waiting), -1) < 0 && errno == EINTR) {
  }
}

Result<void> Session::Unmount() {
  if (!mounted_.exchange(false)) return {};
  fuse_session_unmount(session_);
  // fusermount3 returns before the mount table shows it.
  for (int tries = 0; IsThere(); ++tries) {
    if (tries == 20)
      return Fail(ErrorCode::kBusy, "the mount on " + Quoted(options_.mount_point) +
                                        " cannot be taken down and is dead now; 'umount -l', as root, takes it down");
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
  return {};
}

bool Session::ForgetEntry(uint64_t parent_id, std::string_view name) {
  return fuse_lowlevel_notify_inval_entry(session_, parent_id, name.data(), name.size()) == 0;
}

bool Session::ForgetInode(uint64_t id) { return fuse_lowlevel_notify_inval_inode(session_, id, 0, 0) == 0; }

Result<void> Session::Probe() const {
  if (IsPassedDescriptor(options_.mount_point)) {  // where it is mounted only the giver knows
    state_.initialised.wait(false);
    if (state_.met_kernel) return {};
    return Fail(ErrorCode::kIo, Quoted(options_.mount_point) + " is /dev/fuse, but nothing was mounted with it");
  }
  struct stat seen {};
  if (stat(options_.mount_point.c_str(), &seen) != 0)
    return SystemFail("the new mount on " + Quoted(options_.mount_point) + " does not answer", errno);
  const Ino root(seen.st_ino);
  if (root != kMountRoot && root.node() != 1)
    return Fail(ErrorCode::kIo, "something else was mounted over " + Quoted(options_.mount_point) + " meanwhile");
  return {};
}

}  // namespace pcrfs
