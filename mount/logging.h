// Where the running mount writes what happened: stderr, syslog or a file, through spdlog.
//
// Set up once, after the fork (sinks do not live through one), by StartLogging; after that Log() may be called from
// any thread. Before it, and in all other commands, nothing is logged: errors travel up as values and main prints them.
// Names inside messages come quoted from format/error.h, so that none forges a line.
//
// FaultLog is for messages that a broken disk can repeat without end: it lets a few through a second, and the first of
// each shard, counts the rest and says how many those were with the next message, or by itself when none has come for a
// while, or when it ends.
// Owns a thread, which sleeps while there is nothing to tell. Thread-safe; the sink is called by one thread at a time.
#ifndef PCRFS_MOUNT_LOGGING_H_
#define PCRFS_MOUNT_LOGGING_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>

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
  static constexpr auto kQuiet = std::chrono::seconds(5);   // after this long what was held back is told

  static constexpr size_t kNamed = 1000;                         // shards whose first line is let through,
  static constexpr auto kNamedAgain = std::chrono::minutes(10);  // in each time as long as this

  explicit FaultLog(Sink sink, Clock::duration quiet = kQuiet);
  ~FaultLog();
  FaultLog(const FaultLog&) = delete;
  FaultLog& operator=(const FaultLog&) = delete;

  // `shard` is the position of the one that the message tells of. `now` is a parameter for the tests' sake.
  void Report(std::string_view message, std::optional<uint32_t> shard = std::nullopt,
              Clock::time_point now = Clock::now());
  // Tells what was held back, at once.
  void Flush();

 private:
  [[nodiscard]] bool MayTell(std::optional<uint32_t> shard, Clock::time_point now);
  void Tell();
  void TellWhenQuiet();

  const Sink sink_;
  const Clock::duration quiet_;
  std::mutex mutex_;
  int credit_ = kBurst;
  Clock::time_point refilled_{};
  std::unordered_set<uint32_t> named_;  // shards that were named since `named_since_`
  Clock::time_point named_since_{};
  uint64_t held_back_ = 0;
  bool ended_ = false;
  std::condition_variable changed_;
  std::thread teller_;  // last: it uses all of the above
};

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_LOGGING_H_
