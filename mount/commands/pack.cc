#include <unistd.h>

#include <array>
#include <chrono>
#include <string>

#include "format/packer.h"
#include "mount/commands/commands.h"
#include "mount/console.h"

namespace pcrfs {
namespace {

constexpr uint64_t kSkippedShown = 20;
constexpr std::array<const char*, 8> kReasons = {"not JPEG",
                                                 "of an unsupported kind of JPEG",
                                                 "damaged",
                                                 "incomplete",
                                                 "with markers between scans",
                                                 "too large to convert",
                                                 "not provably the same when converted",
                                                 "not restorable byte for byte"};

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class Watcher final : public PackObserver {
 public:
  void OnProgress(const PackProgress& progress) override {
    if (!line_.Due()) return;
    line_.Show(std::to_string(progress.files_done) + " of " + std::to_string(progress.files_total) + " files, " +
               HumanProgress(progress.bytes_done, progress.bytes_total, seconds()));
  }
  void OnSkipped(const std::string& path, const std::string& reason) override {
    if (++skipped_ > kSkippedShown) return;
    line_.Clear();
    const bool named = reason.find(Quoted(path)) != std::string::npos;
    Complain("skipped" + (named ? "" : " " + Quoted(path)) + ": " + reason);
  }
  void OnOpaque(const std::string&, const Opaque& opaque) override {
    ++reasons_.at(static_cast<size_t>(opaque.reason));
  }

  void Finish() { line_.Clear(); }
  [[nodiscard]] double seconds() const { return SecondsSince(start_); }

  // "3 not JPEG, 1 damaged"
  [[nodiscard]] std::string Reasons() const {
    std::string text;
    for (size_t i = 0; i < kReasons.size(); ++i)
      if (reasons_[i] > 0) text += (text.empty() ? "" : ", ") + std::to_string(reasons_[i]) + " " + kReasons[i];
    return text;
  }

 private:
  ProgressLine line_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  uint64_t skipped_ = 0;
  std::array<uint64_t, kReasons.size()> reasons_{};
};

std::string Summary(const PackSummary& summary, const Watcher& watcher) {
  std::string text = "Packed " + Counted(summary.images + summary.images_kept, "image");
  if (summary.images_kept > 0) text += " (" + std::to_string(summary.images_kept) + " progressive already)";
  text += " and " + Counted(summary.opaque_files, "other file") + " into " + Counted(summary.shards, "shard") + ": " +
          HumanBytes(static_cast<double>(summary.source_bytes)) + " became " +
          HumanBytes(static_cast<double>(summary.stored_bytes)) + " in " + HumanTime(watcher.seconds()) + ".\n";
  if (const std::string reasons = watcher.Reasons(); !reasons.empty())
    text += "Kept whole, the same at every level: " + reasons + ".\n";
  return text;
}

}  // namespace

Result<int> Run(const PackCommand& command) {
  Watcher watcher;
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
  if (isatty(STDOUT_FILENO) == 1) {
    if (auto printed = Print(Summary(*summary, watcher)); !printed) return PassOn(std::move(printed));
  }
  return kExitDone;
}

}  // namespace pcrfs
