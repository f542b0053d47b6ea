#include "mount/daemon.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "format/parse_number.h"
#include "mount/console.h"
#include "mount/options.h"

namespace pcrfs {
namespace {

std::string ReadAll(int fd) {
  std::string text;
  std::array<char, 4096> part;
  while (true) {
    const ssize_t size = read(fd, part.data(), part.size());
    if (size > 0)
      text.append(part.data(), static_cast<size_t>(size));
    else if (size == 0 || errno != EINTR)
      return text;
  }
}

bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t size = write(fd, text.data(), text.size());
    if (size > 0)
      text.remove_prefix(static_cast<size_t>(size));
    else if (errno != EINTR)
      return false;
  }
  return true;
}

void LetGoOfTerminal() {
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (null.valid()) dup2(null.get(), fd);
  // A working directory would keep the file system it is on from being unmounted; "/" always exists.
  if (chdir("/") != 0) std::abort();
}

void CloseInherited(int kept, int also_kept) {
  std::vector<int> open;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error), end; !error && at != end; at.increment(error))
    if (const auto fd = ParseNumber<int>(at->path().filename().native())) open.push_back(*fd);
  for (int fd : open)
    if (fd > STDERR_FILENO && fd != kept && fd != also_kept) close(fd);
}

// What the child said before it closed its end; it has reported unless it died.
StartOutcome Outcome(pid_t child, const std::string& report) {
  if (!report.empty()) return {static_cast<unsigned char>(report[0]), report.substr(1), child};
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::string sentence = "the background process ended before the mount was up";
  if (WIFSIGNALED(status)) sentence += " (signal " + std::to_string(WTERMSIG(status)) + ")";
  return {kExitFailed, sentence, child};
}

}  // namespace

bool StartReport::Send(int status, const std::string& sentence) {
  if (!pipe_.valid()) return false;
  LetGoOfTerminal();  // first: whoever reads the command's output waits until all copies of it are closed
  const bool heard = WriteAll(pipe_.get(), std::string(1, static_cast<char>(status)) + sentence);
  pipe_.reset();
  return heard;
}

Result<StartOutcome> RunInBackground(const std::function<int(StartReport&)>& body, int kept) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return SystemFail("cannot make a pipe", errno);
  UniqueFd reader(ends[0]), writer(ends[1]);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) return SystemFail("cannot start a background process", errno);
  if (child == 0) {
    reader.reset();
    CloseInherited(kept, writer.get());
    setsid();
    StartReport report(std::move(writer));
    try {
      std::exit(body(report));
    } catch (const std::exception& error) {
      (void)report.Send(kExitFailed, SentenceFor(error));
      _exit(kExitFailed);
    }
  }
  writer.reset();
  return Outcome(child, ReadAll(reader.get()));
}

StopSignals::StopSignals(bool hangup_stops) : hangup_stops_(hangup_stops) {
  sigemptyset(&signals_);
  for (int signal : {SIGTERM, SIGINT, SIGQUIT}) sigaddset(&signals_, signal);
  if (std::signal(SIGHUP, SIG_IGN) == SIG_DFL || !hangup_stops) sigaddset(&signals_, SIGHUP);
  for (int signal : {SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM}) std::signal(signal, SIG_IGN);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  thread_ = std::thread([this] { Wait(); });
}

StopSignals::~StopSignals() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

void StopSignals::Attach(std::function<void()> stop, std::function<void()> hangup) {
  const std::lock_guard lock(mutex_);
  stop_ = std::move(stop);
  hangup_ = std::move(hangup);
}

void StopSignals::Wait() {
  while (true) {
    int signal = 0;
    sigwait(&signals_, &signal);
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    if (signal == SIGHUP && !hangup_stops_) {
      if (hangup_) hangup_();
      continue;
    }
    if (stop_ == nullptr) _exit(128 + signal);
    stop_();
  }
}

}  // namespace pcrfs
