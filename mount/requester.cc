#include "mount/requester.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <string>

#include "format/file.h"

namespace pcrfs {
namespace {

template <typename... Numbers>
constexpr uint64_t SetOf(Numbers... signals) {
  return ((uint64_t{1} << (signals - 1)) | ...);
}

constexpr uint64_t kKill = SetOf(SIGKILL);
// By default these do nothing, stop or continue; all others end the process.
constexpr uint64_t kHarmless = SetOf(SIGCHLD, SIGURG, SIGWINCH, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU);

uint64_t Field(std::string_view status, std::string_view name, int base) {
  const std::string head = "\n" + std::string(name) + ":\t";
  const size_t field = status.find(head);
  if (field == std::string_view::npos) return 0;
  uint64_t value = 0;
  std::from_chars(status.data() + field + head.size(), status.data() + status.size(), value, base);
  return value;
}

}  // namespace

bool HasFatalSignal(std::string_view status) {
  const auto signals = [&](std::string_view name) { return Field(status, name, 16); };
  const uint64_t pending = signals("SigPnd") | signals("ShdPnd");
  if ((pending & kKill) != 0) return true;
  const uint64_t survived = signals("SigBlk") | signals("SigIgn") | signals("SigCgt") | kHarmless;
  const bool traced = Field(status, "TracerPid", 10) != 0;  // its tracer may decide otherwise
  return !traced && (pending & ~survived) != 0;
}

bool IsBeingKilled(pid_t thread) {
  if (thread <= 0) return false;
  const std::string path = "/proc/" + std::to_string(thread) + "/status";
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return false;
  std::array<char, 16384> text;  // a user in many groups has a long one
  const ssize_t size = read(fd.get(), text.data(), text.size());
  return size > 0 && HasFatalSignal({text.data(), static_cast<size_t>(size)});
}

}  // namespace pcrfs
