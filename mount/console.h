// The program's standard output, checked, and a progress line for people.
//
// Output collects and writes with write(2), so that a full disk or a closed pipe is an error with a sentence and not a
// silent loss. ProgressLine draws over one line of a terminal's stderr and does nothing when stderr is no terminal.
// One thread at a time each.
#ifndef PCRFS_MOUNT_CONSOLE_H_
#define PCRFS_MOUNT_CONSOLE_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "format/bytes.h"
#include "format/error.h"

namespace pcrfs {

class Output {
 public:
  [[nodiscard]] Result<void> Write(ByteSpan bytes);
  [[nodiscard]] Result<void> Write(std::string_view text) { return Write(AsBytes(text)); }
  // Call at the end; what was not flushed is lost.
  [[nodiscard]] Result<void> Flush();

 private:
  std::string pending_;
};

// All of a short text, at once.
[[nodiscard]] Result<void> Print(std::string_view text);

// "pcrfs: sentence" on stderr.
void Complain(std::string_view sentence);

// The last line of a short text file, without its end; empty when there is none.
[[nodiscard]] std::string LastLine(int file);

// The sentence for what the standard library threw: memory or threads that could not be had.
[[nodiscard]] std::string SentenceFor(const std::exception& error);

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { Clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Whether Show would draw now: a terminal, and a tenth of a second since it last did. Saves making the text.
  [[nodiscard]] bool Due();
  void Show(std::string_view text);
  // Takes the line away, before anything else is written.
  void Clear();

 private:
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point drawn_{};
};

// "1.5 MB", with three digits at most.
[[nodiscard]] std::string HumanBytes(double bytes);
// "00:12" or "1:02:03".
[[nodiscard]] std::string HumanTime(double seconds);

// How fast bytes are done now, over the last half a minute, so that what a continued job found done at its start, or a
// fast part of it, does not promise an early end.
class ProgressMeter {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ProgressMeter(Clock::time_point start = Clock::now()) : start_(start), samples_{{start, 0}} {}

  void Update(uint64_t done, uint64_t total, Clock::time_point now = Clock::now());

  [[nodiscard]] double seconds(Clock::time_point now = Clock::now()) const;
  // Nothing while there is too little to tell by.
  [[nodiscard]] std::optional<double> bytes_per_second() const;
  [[nodiscard]] std::optional<double> seconds_left() const;
  // "12.3 GB of 141 GB, 104 MB/s, 00:20 left"
  [[nodiscard]] std::string Text() const;

 private:
  struct Sample {
    Clock::time_point when;
    uint64_t done;
  };

  Clock::time_point start_;
  std::deque<Sample> samples_;  // of the last half a minute, and one before
  Sample last_{start_, 0};
  uint64_t total_ = 0;
};

// "1 file", "2 files".
[[nodiscard]] std::string Counted(uint64_t number, std::string_view noun);

// Names are bytes: on a terminal they are shown so that none can upset it, in a pipe they go out as they are.
[[nodiscard]] std::string ShownName(std::string_view name, bool terminal);

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_CONSOLE_H_
