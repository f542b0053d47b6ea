#include <chrono>
#include <string>

#include "format/verifier.h"
#include "mount/commands/commands.h"
#include "mount/console.h"

namespace pcrfs {
namespace {

std::string Summary(const VerifySummary& summary) {
  return "checked " + Counted(summary.entries, "file") + " in " + Counted(summary.shards, "shard") + ", " +
         HumanBytes(static_cast<double>(summary.bytes)) + ": " +
         (summary.faults == 0 ? "no fault" : Counted(summary.faults, "fault")) + "\n";
}

}  // namespace

Result<int> Run(const VerifyCommand& command) {
  const auto start = std::chrono::steady_clock::now();
  ProgressLine line;
  Output output;
  Result<void> written;
  const auto print = [&](const std::string& text) {
    line.Clear();
    if (written) written = output.Write(text);
    if (written) written = output.Flush();  // at once: a run takes long
  };
  const auto on_fault = [&](const Error& fault) { print("fault: " + fault.message + "\n"); };
  const auto on_progress = [&](const VerifyProgress& progress) {
    if (!line.Due()) return;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    line.Show("checked " + HumanProgress(progress.bytes_done, progress.bytes_total, seconds.count()));
  };
  auto summary = Verify(command.dataset, command.jobs, on_fault, on_progress);
  if (!summary) return PassOn(std::move(summary));
  print(Summary(*summary));
  for (const std::string& name : summary->unlisted)
    Complain("note: " + Quoted(name) + " is not listed in PCR_index.pb, so it is no part of the data set");
  if (!written) return PassOn(std::move(written));
  return summary->faults == 0 ? kExitDone : kExitDamaged;
}

}  // namespace pcrfs
