#include <csignal>
#include <iomanip>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "format/appender.h"
#include "format/pack_estimate.h"
#include "format/packer.h"
#include "mount/commands/commands.h"
#include "mount/console.h"
#include "mount/pack_progress.h"
#include "mount/pack_report_file.h"
#include "mount/reason_words.h"

namespace pcrfs {
namespace {

constexpr uint64_t kSkippedShown = 20;

class Watcher final : public PackObserver {
 public:
  Watcher(std::optional<PackReportFile>& file, bool json_progress) : file_(file), progress_(json_progress) {}

  void OnListing(uint64_t files, uint64_t bytes) override { progress_.Listing(files, bytes); }
  void OnProgress(const PackProgress& progress) override { progress_.Packing(progress); }
  void OnSkipped(const std::string& path, const Skipped& why) override {
    Report({path, "skipped", ReasonName(why.reason), why.detail});
    if (++skipped_ > kSkippedShown) return;
    progress_.Clear();
    const bool named = why.detail.find(Quoted(path)) != std::string::npos;
    Complain("skipped" + (named ? "" : " " + Quoted(path)) + ": " + why.detail);
  }
  void OnOpaque(const std::string& path, const Opaque& why) override {
    Report({path, "opaque", ReasonName(why.reason), why.detail});
  }
  void OnNotRestorable(const std::string& path, const std::string& reason) override {
    Report({path, "converted", "not_restorable", reason});
  }
  void OnKept(const std::string& path) override {
    Report({path, "kept", "progressive", "a complete progressive JPEG: the highest level is the source itself"});
  }
  void OnChanged(const std::string& path, const std::string& detail) override {
    Report({path, "packed_before", "changed", detail});
    Differs(Quoted(path) + " changed since it was packed: " + detail);
  }
  void OnGone(const std::string& path) override {
    Report({path, "packed_before", "gone", "it is not in the source any more; the data set keeps it"});
    Differs(Quoted(path) + " is not in the source any more; the data set keeps it");
  }
  Result<void> OnShardsComplete() override {
    if (written_ && file_) written_ = file_->Commit();
    return written_ ? Result<void>() : WithContext("the report could not be written", written_.error());
  }

  void Finish() { progress_.Clear(); }
  [[nodiscard]] double seconds() const { return progress_.seconds(); }

 private:
  void Differs(const std::string& sentence) {
    if (++differing_ > kSkippedShown) return;
    progress_.Clear();
    Complain(sentence);
  }
  void Report(const PackFinding& finding) {
    if (written_ && file_) written_ = file_->Add(finding);
  }

  std::optional<PackReportFile>& file_;
  Result<void> written_;
  PackProgressView progress_;
  uint64_t skipped_ = 0, differing_ = 0;
};

// What became of files, a line a kind.
std::string KindLines(const PackSummary& summary) {
  return KindLines(KindCounts{.restorable = summary.images - summary.images_not_restorable,
                              .not_restorable = summary.images_not_restorable,
                              .kept = summary.images_kept,
                              .opaque = summary.opaque_by_reason});
}

std::string LeftOutLines(const PackSummary& summary) {
  return KindLines(KindCounts{.skipped = summary.skipped_by_reason,
                              .excluded = summary.excluded,
                              .changed = summary.changed,
                              .gone = summary.gone});
}

std::string Percent(double part, double whole) {
  std::ostringstream text;
  if (whole > 0) text << ", " << std::fixed << std::setprecision(1) << 100 * part / whole << " %";
  return text.str();
}

std::string Summary(const PackSummary& summary, double seconds) {
  std::ostringstream text;
  text << KindLines(summary) << LeftOutLines(summary);
  if (summary.shards == 0) {  // an append's
    text << "Nothing new to append.\n";
    return text.str();
  }
  text << std::setw(12) << summary.source_bytes << "  bytes before\n"
       << std::setw(12) << summary.stored_bytes << "  bytes after, in " << Counted(summary.shards, "shard")
       << Percent(static_cast<double>(summary.stored_bytes), static_cast<double>(summary.source_bytes)) << ", "
       << HumanTime(seconds) << "\n";
  return text.str();
}

std::string EstimateText(const PackEstimate& estimate) {
  const PackSummary& tried = estimate.tried;
  std::ostringstream text;
  text << std::setw(12) << estimate.files << "  files would be packed, in " << Counted(tried.directories, "folder")
       << ", " << HumanBytes(static_cast<double>(estimate.bytes)) << "\n"
       << LeftOutLines(tried) << "Tried " << Counted(tried.images + tried.images_kept + tried.opaque_files, "file")
       << ", " << HumanBytes(static_cast<double>(tried.source_bytes)) << ":\n"
       << KindLines(tried) << "By that, about " << HumanBytes(estimate.stored_bytes) << " in "
       << Counted(estimate.shards, "shard") << Percent(estimate.stored_bytes, static_cast<double>(estimate.bytes))
       << ", in about " << HumanTime(estimate.seconds) << ". Nothing was written.\n";
  return text.str();
}

Result<int> RunDry(const PackCommand& command) {
  std::optional<PackReportFile> none;
  Watcher watcher(none, command.json_progress);
  const auto estimate = EstimatePack(command.source, command.dataset, command.options, watcher);
  watcher.Finish();
  if (!estimate) return tl::unexpected(estimate.error());
  if (auto printed = Print(command.json_progress ? PackEstimateJson(*estimate) : EstimateText(*estimate)); !printed)
    return PassOn(std::move(printed));
  return kExitDone;
}

// What --strict does not let pass. A JPEG of an unsupported kind, or one for which the proof fails, is no worse a
// picture for being kept whole.
uint64_t Damaged(const PackSummary& summary) {
  return summary.opaque_by_reason[static_cast<size_t>(OpaqueReason::kDamaged)] +
         summary.opaque_by_reason[static_cast<size_t>(OpaqueReason::kIncomplete)];
}

Result<PackSummary> PackOrAppend(const PackCommand& command, PackObserver& observer) {
  if (!command.append) return Pack(command.source, command.dataset, command.options, observer);
  AppendOptions options;
  options.jobs = command.options.jobs;
  if (command.given_record_images) options.record_images = command.options.record_images;
  if (command.given_record_bytes) options.record_bytes = command.options.record_bytes;
  if (command.given_order) options.order = command.options.order;
  options.exact = command.options.encode.exact;
  options.rescan = command.options.encode.rescan;
  options.exclude = command.options.exclude.globs();
  return Append(command.source, command.dataset, options, observer);
}

}  // namespace

Result<int> Run(const PackCommand& command) {
  // Whoever watched may go: the pack goes on, and that its summary could not be written is told at the end.
  if (command.json_progress) std::signal(SIGPIPE, SIG_IGN);
  if (command.dry_run && command.append)
    return Fail(ErrorCode::kUnsupported, "--dry-run tells nothing of an append yet");
  if (command.dry_run) return RunDry(command);
  std::optional<PackReportFile> file;
  if (!command.report.empty()) {
    auto created = PackReportFile::Create(command.report, command.source, command.dataset);
    if (!created) return PassOn(std::move(created));
    file.emplace(*std::move(created));
  }
  Watcher watcher(file, command.json_progress);
  const auto summary = PackOrAppend(command, watcher);
  watcher.Finish();
  if (!summary && summary.error().code == ErrorCode::kNoSpace)
    return Fail(ErrorCode::kNoSpace, summary.error().message +
                                         "; make room and repeat the same command, which goes on where this one ended");
  if (!summary && summary.error().code == ErrorCode::kShortage)
    return Fail(ErrorCode::kShortage, summary.error().message + "; the same command goes on where this one ended");
  if (!summary) return tl::unexpected(summary.error());
  if (summary->skipped > 0)
    Complain("skipped " +
             (summary->skipped == 1 ? "1 file or folder" : std::to_string(summary->skipped) + " files and folders") +
             " that could not be read or stored; all others were packed");
  if (auto printed = Print(command.json_progress ? PackSummaryJson(*summary, watcher.seconds())
                                                 : Summary(*summary, watcher.seconds()));
      !printed)
    return PassOn(std::move(printed));
  return command.strict && (summary->skipped > 0 || Damaged(*summary) > 0) ? kExitDamaged : kExitDone;
}

}  // namespace pcrfs
