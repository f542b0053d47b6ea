#include <chrono>
#include <string>

#include "format/verifier.h"
#include "mount/commands/commands.h"
#include "mount/console.h"

namespace pcrfs {

Result<int> Run(const VerifyCommand& command) {
  const auto start = std::chrono::steady_clock::now();
  ProgressLine line;
  Output output;
  Result<void> written;
  const auto on_fault = [&](const Error& fault) {
    line.Clear();
    if (written) written = output.Write("fault: " + fault.message + "\n");
    if (written) written = output.Flush();  // at once: a run takes long
  };
  const auto on_progress = [&](const VerifyProgress& progress) {
    if (!line.Due()) return;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    line.Show("checked " + HumanProgress(progress.bytes_done, progress.bytes_total, seconds.count()));
  };
  const auto summary = Verify(command.dataset, command.jobs, on_fault, on_progress);
  line.Clear();
  if (!summary) return tl::unexpected(summary.error());
  if (written)
    written = output.Write("checked " + Counted(summary->entries, "file") + " in " + Counted(summary->shards, "shard") +
                           ", " + HumanBytes(static_cast<double>(summary->bytes)) + ": " +
                           (summary->faults == 0 ? "no fault" : Counted(summary->faults, "fault")) + "\n");
  if (written) written = output.Flush();
  if (!written) return PassOn(std::move(written));
  return summary->faults == 0 ? kExitDone : kExitDamaged;
}

}  // namespace pcrfs
