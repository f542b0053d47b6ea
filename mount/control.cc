#include "mount/control.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "mount/logging.h"

namespace pcrfs {
namespace {

constexpr LogLevel kByNumber[] = {LogLevel::kError, LogLevel::kWarn, LogLevel::kInfo, LogLevel::kDebug};

// The last byte stays NUL.
template <size_t kSize>
void Fill(char (&field)[kSize], std::string_view text) {
  text.copy(field, kSize - 1);
}

MountDescription Describe(const ControlFacts& facts) {
  MountDescription description;
  description.version = kControlVersion;
  description.levels = static_cast<uint32_t>(facts.levels);
  description.shown_level = facts.root_tree ? facts.root_tree->number() : kShowsAllLevels;
  description.log_level = LogLevelNumber(CurrentLogLevel());
  description.pid = static_cast<uint64_t>(getpid());
  description.pid_namespace = PidNamespace();
  description.started_ns = facts.started_ns;
  Fill(description.program, PCRFS_VERSION);
  Fill(description.dataset, facts.dataset);
  return description;
}

int ChangeLogLevel(const ControlRequest& request) {
  LogLevelChange change;
  std::memcpy(&change, request.in.data(), sizeof change);
  const auto level = LogLevelOfNumber(change.log_level);
  if (!level || change.reserved != 0) return EINVAL;
  SetLogLevel(*level);
  return 0;
}

bool IsRoot(const ControlFacts& facts, Ino ino) {
  return ino == kMountRoot || (facts.root_tree && ino == Ino(1, facts.root_tree->number()));
}

}  // namespace

uint64_t PidNamespace() {
  struct stat status {};
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

uint32_t LogLevelNumber(LogLevel level) {
  return static_cast<uint32_t>(std::find(std::begin(kByNumber), std::end(kByNumber), level) - std::begin(kByNumber));
}

std::optional<LogLevel> LogLevelOfNumber(uint32_t number) {
  return number < std::size(kByNumber) ? std::optional(kByNumber[number]) : std::nullopt;
}

int CheckControl(const ControlFacts& facts, const ControlRequest& request) {
  if (!IsControlCommand(request.command) || !IsRoot(facts, request.ino)) return ENOTTY;
  const bool writes = (_IOC_DIR(request.command) & _IOC_WRITE) != 0;
  const size_t size = _IOC_SIZE(request.command);
  if (request.in.size() != (writes ? size : 0) || (!writes && request.room < size)) return EINVAL;
  const bool for_all = request.command == kDescribeMount;
  return for_all || request.caller == 0 || request.caller == geteuid() ? 0 : EPERM;
}

tl::expected<Bytes, int> AnswerControl(const ControlFacts& facts, const ControlRequest& request) {
  if (const int error = CheckControl(facts, request); error != 0) return tl::unexpected(error);
  if (request.command == kSetLogLevel) {
    if (const int error = ChangeLogLevel(request); error != 0) return tl::unexpected(error);
    return Bytes();
  }
  const MountDescription description = Describe(facts);
  Bytes answer(sizeof description);
  std::memcpy(answer.data(), &description, sizeof description);
  return answer;
}

}  // namespace pcrfs
