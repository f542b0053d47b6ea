// The program's standard output, checked, and a progress line for people.
//
// Output collects and writes with write(2), so that a full disk or a closed pipe is an error with a sentence and not a
// silent loss. ProgressLine draws over one line of a terminal's stderr and does nothing when stderr is no terminal.
// One thread at a time each.
#ifndef PCRFS_MOUNT_CONSOLE_H_
#define PCRFS_MOUNT_CONSOLE_H_

#include <chrono>
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

// Bytes and rate so far, and what is left, as "12.3 of 140.8 GB, 104 MB/s, 00:20 left".
[[nodiscard]] std::string HumanProgress(uint64_t done, uint64_t total, double seconds);

// "1 file", "2 files".
[[nodiscard]] std::string Counted(uint64_t number, std::string_view noun);

// Names are bytes: on a terminal they are shown so that none can upset it, in a pipe they go out as they are.
[[nodiscard]] std::string ShownName(std::string_view name, bool terminal);

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_CONSOLE_H_
