#include <array>
#include <chrono>
#include <iomanip>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "format/packer.h"
#include "mount/commands/commands.h"
#include "mount/console.h"
#include "mount/pack_report_file.h"

namespace pcrfs {
namespace {

constexpr uint64_t kSkippedShown = 20;
constexpr std::array<const char*, kOpaqueReasons> kOpaqueWords = {"not JPEG",
                                                                  "a kind of JPEG that is not converted",
                                                                  "damaged",
                                                                  "incomplete",
                                                                  "metadata between its scans",
                                                                  "too large to convert",
                                                                  "not provably the same when converted",
                                                                  "not restorable byte for byte"};
constexpr std::array<const char*, kSkipReasons> kSkipWords = {"unreadable",
                                                              "gone since it was listed",
                                                              "changed while it was read",
                                                              "a socket, FIFO or device",
                                                              "a symbolic link that leads nowhere",
                                                              "name, path or size over the limits",
                                                              "came after the pack was begun",
                                                              "the data set itself"};

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class Watcher final : public PackObserver {
 public:
  explicit Watcher(std::optional<PackReportFile>& file) : file_(file) {}

  void OnProgress(const PackProgress& progress) override {
    if (!line_.Due()) return;
    line_.Show(std::to_string(progress.files_done) + " of " + std::to_string(progress.files_total) + " files, " +
               HumanProgress(progress.bytes_done, progress.bytes_total, seconds()));
  }
  void OnSkipped(const std::string& path, const Skipped& why) override {
    Report({path, "skipped", ReasonName(why.reason), why.detail});
    if (++skipped_ > kSkippedShown) return;
    line_.Clear();
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
  Result<void> OnShardsComplete() override {
    if (written_ && file_) written_ = file_->Commit();
    return written_ ? Result<void>() : WithContext("the report could not be written", written_.error());
  }

  void Finish() { line_.Clear(); }
  [[nodiscard]] double seconds() const { return SecondsSince(start_); }

 private:
  void Report(const PackFinding& finding) {
    if (written_ && file_) written_ = file_->Add(finding);
  }

  std::optional<PackReportFile>& file_;
  Result<void> written_;
  ProgressLine line_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  uint64_t skipped_ = 0;
};

void AddCount(std::ostringstream& text, uint64_t count, const std::string& what) {
  if (count > 0) text << std::setw(12) << count << "  " << what << "\n";
}

std::string Summary(const PackSummary& summary, double seconds) {
  std::ostringstream text;
  AddCount(text, summary.images - summary.images_not_restorable, "converted, and can be restored byte for byte");
  AddCount(text, summary.images_not_restorable, "converted, and cannot be restored byte for byte");
  AddCount(text, summary.images_kept, "progressive, kept as it was");
  for (size_t i = 0; i < kOpaqueReasons; ++i)
    AddCount(text, summary.opaque_by_reason[i], std::string("kept whole at every level: ") + kOpaqueWords[i]);
  for (size_t i = 0; i < kSkipReasons; ++i)
    AddCount(text, summary.skipped_by_reason[i], std::string("skipped: ") + kSkipWords[i]);
  AddCount(text, summary.excluded, "excluded, what lies below excluded folders not counted");
  text << std::setw(12) << summary.source_bytes << "  bytes before\n"
       << std::setw(12) << summary.stored_bytes << "  bytes after, in " << Counted(summary.shards, "shard");
  if (summary.source_bytes > 0)
    text << ", " << std::fixed << std::setprecision(1)
         << 100 * static_cast<double>(summary.stored_bytes) / static_cast<double>(summary.source_bytes) << " %";
  text << ", " << HumanTime(seconds) << "\n";
  return text.str();
}

// What --strict does not let pass. A JPEG of an unsupported kind, or one for which the proof fails, is no worse a
// picture for being kept whole.
uint64_t Damaged(const PackSummary& summary) {
  return summary.opaque_by_reason[static_cast<size_t>(OpaqueReason::kDamaged)] +
         summary.opaque_by_reason[static_cast<size_t>(OpaqueReason::kIncomplete)];
}

}  // namespace

Result<int> Run(const PackCommand& command) {
  std::optional<PackReportFile> file;
  if (!command.report.empty()) {
    auto created = PackReportFile::Create(command.report, command.source, command.dataset);
    if (!created) return PassOn(std::move(created));
    file.emplace(*std::move(created));
  }
  Watcher watcher(file);
  const auto summary = Pack(command.source, command.dataset, command.options, watcher);
  watcher.Finish();
  if (!summary && summary.error().code == ErrorCode::kNoSpace)
    return Fail(ErrorCode::kNoSpace, summary.error().message +
                                         "; make room and repeat the same command, which goes on where this one ended");
  if (!summary) return tl::unexpected(summary.error());
  if (summary->skipped > 0)
    Complain("skipped " +
             (summary->skipped == 1 ? "1 file or folder" : std::to_string(summary->skipped) + " files and folders") +
             " that could not be read or stored; all others were packed");
  if (auto printed = Print(Summary(*summary, watcher.seconds())); !printed) return PassOn(std::move(printed));
  return command.strict && (summary->skipped > 0 || Damaged(*summary) > 0) ? kExitDamaged : kExitDone;
}

}  // namespace pcrfs
