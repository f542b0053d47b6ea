#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <utility>

#include "format/verifier.h"
#include "mount/commands/commands.h"
#include "mount/console.h"
#include "mount/source_comparison.h"

namespace pcrfs {
namespace {

constexpr uint64_t kDifferencesShown = 100;

std::string Summary(const VerifySummary& summary) {
  return "checked " + Counted(summary.entries, "file") + " in " + Counted(summary.shards, "shard") + ", " +
         HumanBytes(static_cast<double>(summary.bytes)) + ": " +
         (summary.faults == 0 ? "no fault" : Counted(summary.faults, "fault")) + "\n";
}

std::string Summary(const SourceComparison& totals) {
  std::string text = "compared " + Counted(totals.files, "file") + " with the source, " +
                     HumanBytes(static_cast<double>(totals.bytes)) + ": " +
                     (totals.differences == 0 ? "no difference" : Counted(totals.differences, "difference")) + "\n";
  if (totals.left_aside > 0)
    text +=
        "left aside in the source, since no pack holds it (a socket, a link to nothing, a path over the limits, what "
        "was excluded): " +
        std::to_string(totals.left_aside) + "\n";
  return text;
}

// Findings, as they come, and progress.
class Printer {
 public:
  void Print(const std::string& text) {
    line_.Clear();
    if (written_) written_ = output_.Write(text);
    if (written_) written_ = output_.Flush();  // at once: a run takes long
  }
  void Progress(const char* verb, uint64_t done, uint64_t total) {
    if (!line_.Due()) return;
    meter_.Update(done, total);
    line_.Show(verb + (" " + meter_.Text()));
  }
  void Restart() { meter_ = ProgressMeter(); }
  [[nodiscard]] const Result<void>& written() const { return written_; }

 private:
  ProgressLine line_;
  Output output_;
  Result<void> written_;
  ProgressMeter meter_;
};

// A mistyped folder should not show only after hours of checking.
Result<void> CheckSource(const std::string& source) {
  struct stat status {};
  if (stat(source.c_str(), &status) != 0) return SystemFail("the source folder " + Quoted(source), errno);
  if (S_ISREG(status.st_mode))
    return Fail(ErrorCode::kNotDirectory, "the source " + Quoted(source) +
                                              " is no folder; if it is an archive, unpack it and compare with that");
  if (!S_ISDIR(status.st_mode))
    return Fail(ErrorCode::kNotDirectory, "the source " + Quoted(source) + " is not a folder");
  return {};
}

// The number of differences.
Result<uint64_t> Compare(const VerifyCommand& command, Printer& printer) {
  const auto dataset = Dataset::Open(command.dataset);
  if (!dataset) return tl::unexpected(dataset.error());
  printer.Restart();
  uint64_t differences = 0;
  const auto on_difference = [&](const std::string& difference) {
    if (++differences <= kDifferencesShown) printer.Print("difference: " + difference + "\n");
  };
  const auto on_progress = [&](uint64_t done, uint64_t total) { printer.Progress("compared", done, total); };
  const auto totals = CompareWithSource(*dataset, command.source, command.options.jobs, on_difference, on_progress);
  if (!totals) return tl::unexpected(totals.error());
  if (differences > kDifferencesShown)
    printer.Print("and " + Counted(differences - kDifferencesShown, "more difference") + "\n");
  printer.Print(Summary(*totals));
  return differences;
}

}  // namespace

Result<int> Run(const VerifyCommand& command) {
  if (!command.source.empty())
    if (auto there = CheckSource(command.source); !there) return PassOn(std::move(there));
  Printer printer;
  const auto on_fault = [&](const Error& fault) { printer.Print("fault: " + fault.message + "\n"); };
  const auto on_progress = [&](const VerifyProgress& progress) {
    printer.Progress("checked", progress.bytes_done, progress.bytes_total);
  };
  const auto summary = Verify(command.dataset, command.options, on_fault, on_progress);
  if (!summary) return tl::unexpected(summary.error());
  printer.Print(Summary(*summary));
  for (const std::string& name : summary->unlisted)
    Complain("note: " + Quoted(name) + " is not listed in PCR_index.pb, so it is no part of the data set");
  int status = summary->faults == 0 ? kExitDone : kExitDamaged;
  if (!command.source.empty()) {
    const auto differences = Compare(command, printer);
    if (!differences && status == kExitDone) return tl::unexpected(differences.error());
    if (!differences || *differences > 0) status = kExitDamaged;
  }
  if (!printer.written()) return tl::unexpected(printer.written().error());
  return status;
}

}  // namespace pcrfs
