#include "mount/console.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <new>
#include <system_error>
#include <utility>

namespace pcrfs {
namespace {

constexpr size_t kPendingLimit = 64 << 10;
constexpr std::chrono::milliseconds kSampleInterval{250};
constexpr std::chrono::seconds kMeterWindow{30};

template <typename... Values>
std::string Format(const char* format, Values... values) {
  std::array<char, 128> text;
  const int size = std::snprintf(text.data(), text.size(), format, values...);
  return {text.data(), size > 0 ? std::min(static_cast<size_t>(size), text.size() - 1) : 0};
}

Result<void> WriteStdout(ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t size = write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (size >= 0)
      bytes = bytes.subspan(static_cast<size_t>(size));
    else if (errno != EINTR)
      return SystemFail("cannot write to standard output", errno);
  }
  return {};
}

}  // namespace

Result<void> Output::Write(ByteSpan bytes) {
  if (pending_.size() + bytes.size() <= kPendingLimit) {
    pending_ += AsText(bytes);
    return {};
  }
  if (auto flushed = Flush(); !flushed) return flushed;
  if (bytes.size() > kPendingLimit) return WriteStdout(bytes);
  pending_ = AsText(bytes);
  return {};
}

Result<void> Output::Flush() {
  const std::string text = std::exchange(pending_, {});
  return WriteStdout(AsBytes(text));
}

Result<void> Print(std::string_view text) { return WriteStdout(AsBytes(text)); }

void Complain(std::string_view sentence) {
  const std::string line = "pcrfs: " + std::string(sentence) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::string LastLine(int file) {
  std::array<char, 4096> text;
  const ssize_t size = pread(file, text.data(), text.size(), 0);
  std::string_view lines(text.data(), size > 0 ? static_cast<size_t>(size) : 0);
  while (lines.ends_with('\n')) lines.remove_suffix(1);
  return std::string(lines.substr(lines.rfind('\n') + 1));
}

std::string SentenceFor(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "out of memory";
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again)
    return "cannot start a thread: a limit on processes or memory is too low ('ulimit -u', 'ulimit -v')";
  return error.what();
}

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO) == 1) {}

bool ProgressLine::Due() {
  return terminal_ && std::chrono::steady_clock::now() - drawn_ >= std::chrono::milliseconds(100);
}

void ProgressLine::Show(std::string_view text) {
  if (!terminal_) return;
  drawn_ = std::chrono::steady_clock::now();
  shown_ = true;
  std::fprintf(stderr, "\r%.*s\033[K", static_cast<int>(text.size()), text.data());
}

void ProgressLine::Clear() {
  if (std::exchange(shown_, false)) std::fputs("\r\033[K", stderr);
}

std::string HumanBytes(double bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < kUnits.size()) {
    bytes /= 1000;
    ++unit;
  }
  const int digits = unit == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
  return Format("%.*f %s", digits, bytes, kUnits[unit]);
}

std::string HumanTime(double seconds) {
  const auto whole = static_cast<long long>(std::llround(std::fmin(std::fmax(seconds, 0), 3.6e6)));
  if (whole >= 3600) return Format("%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  return Format("%02lld:%02lld", whole / 60, whole % 60);
}

void ProgressMeter::Update(uint64_t done, uint64_t total, Clock::time_point now) {
  total_ = total;
  last_ = {now, done};
  if (now - samples_.back().when >= kSampleInterval) samples_.push_back(last_);
  while (samples_.size() > 2 && now - samples_[1].when >= kMeterWindow) samples_.pop_front();
}

double ProgressMeter::seconds(Clock::time_point now) const {
  return std::chrono::duration<double>(now - start_).count();
}

std::optional<double> ProgressMeter::bytes_per_second() const {
  const Sample& first = samples_.front();
  const double seconds = std::chrono::duration<double>(last_.when - first.when).count();
  if (seconds < 0.5 || last_.done <= first.done) return std::nullopt;
  return static_cast<double>(last_.done - first.done) / seconds;
}

std::optional<double> ProgressMeter::seconds_left() const {
  const auto rate = bytes_per_second();
  if (!rate) return std::nullopt;
  return static_cast<double>(total_ - std::min(last_.done, total_)) / *rate;
}

std::string ProgressMeter::Text() const {
  std::string text = HumanBytes(static_cast<double>(last_.done)) + " of " + HumanBytes(static_cast<double>(total_));
  const auto rate = bytes_per_second();
  if (!rate) return text;
  return text + ", " + HumanBytes(*rate) + "/s, " + HumanTime(*seconds_left()) + " left";
}

std::string Counted(uint64_t number, std::string_view noun) {
  return std::to_string(number) + " " + std::string(noun) + (number == 1 ? "" : "s");
}

std::string ShownName(std::string_view name, bool terminal) {
  if (!terminal) return std::string(name);
  std::string quoted = Quoted(name);
  const bool plain = quoted.size() == name.size() + 2;
  return plain ? std::string(name) : quoted;
}

}  // namespace pcrfs
