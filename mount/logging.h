// Where the running mount writes what happened: stderr, syslog or a file, through spdlog.
//
// Set up once, after the fork (sinks do not live through one), by StartLogging; after that Log() may be called from
// any thread. Before it, and in all other commands, nothing is logged: errors travel up as values and main prints them.
// Names inside messages come quoted from format/error.h, so that none forges a line.
//
// FaultLog is for messages that a broken disk can repeat without end: it lets a few through a second and counts the
// rest. Thread-safe.
#ifndef PCRFS_MOUNT_LOGGING_H_
#define PCRFS_MOUNT_LOGGING_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "format/error.h"
#include "mount/options.h"

namespace pcrfs {

// `log_file` empty: stderr in the foreground, else syslog. kIo and its like when the file cannot be opened.
[[nodiscard]] Result<void> StartLogging(const std::string& log_file, LogLevel level, bool foreground);

void Log(LogLevel level, std::string_view message);

// The level at and above which lines are written; may be changed at any time, from any thread.
void SetLogLevel(LogLevel level);
[[nodiscard]] LogLevel CurrentLogLevel();

// Writes out what is buffered and closes the sinks.
void StopLogging();

class FaultLog {
 public:
  using Clock = std::chrono::steady_clock;
  using Sink = std::function<void(std::string_view)>;

  static constexpr int kBurst = 20;                         // lines at once
  static constexpr auto kRefill = std::chrono::seconds(1);  // and one more each time this long

  explicit FaultLog(Sink sink) : sink_(std::move(sink)) {}

  // `now` is a parameter for the tests' sake.
  void Report(std::string_view message, Clock::time_point now = Clock::now());

 private:
  Sink sink_;
  std::mutex mutex_;
  int credit_ = kBurst;
  Clock::time_point refilled_{};
  uint64_t held_back_ = 0;
};

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_LOGGING_H_
