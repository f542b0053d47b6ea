#include "format/packer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "format/dataset_folder.h"
#include "format/dataset_index.h"
#include "format/file.h"
#include "format/pack_input.h"
#include "format/pack_listing.h"
#include "format/pack_lock.h"
#include "format/pack_pipeline.h"
#include "format/pack_plan.h"
#include "format/pack_report.h"
#include "format/pack_source.h"
#include "format/plan_comparison.h"
#include "format/shard_partition.h"

namespace pcrfs {
namespace {

namespace fs = std::filesystem;

// One pack, from the lock on.
class Packer {
 public:
  Packer(PackInput& input, std::string dataset, const PackOptions& options, PackObserver& observer)
      : input_(input), dataset_(std::move(dataset)), options_(options), report_(observer) {}

  Result<PackSummary> Run() {
    auto lock = PackLock::Acquire(dataset_);
    if (!lock) return PassOn(std::move(lock));
    if (auto prepared = Prepare(); !prepared) return PassOn(std::move(prepared));
    auto plan = MakePlan();
    if (!plan) return PassOn(std::move(plan));
    if (auto removed = RemoveFiles(dataset_, temporaries_); !removed) return PassOn(std::move(removed));
    auto source = input_.Source(*plan, limits(), listing_options(), on_skipped_);
    if (!source) return PassOn(std::move(source));
    report_.SetTotal(plan->summary().files, plan->summary().bytes);
    auto rows = PackShards({source->get(), dataset_, continued_, options_.jobs, options_.encode}, report_);
    if (!rows) return PassOn(std::move(rows));
    const auto summary = input_.is_listed() ? plan->summary() : SummaryOfUnlisted(*rows);
    if (!summary) return tl::unexpected(summary.error());
    if (auto told = report_.ShardsComplete(); !told) return PassOn(std::move(told));
    if (auto held = lock->CheckHeld(); !held) return PassOn(std::move(held));
    if (auto published = Publish(*summary, std::move(*rows)); !published) return PassOn(std::move(published));
    return report_.summary();
  }

 private:
  [[nodiscard]] std::string PathOf(std::string_view name) const { return dataset_ + '/' + std::string(name); }
  [[nodiscard]] ShardLimits limits() const { return {.items = options_.record_images, .bytes = options_.record_bytes}; }

  [[nodiscard]] ListingOptions listing_options() const {
    return {.exclude = options_.exclude, .spool = PathOf(kPackPlanName)};
  }

  // Finds out whether this goes on with a pack that was killed, and refuses a folder that holds something else.
  Result<void> Prepare() {
    auto names = NamesIn(dataset_);
    if (!names) return PassOn(std::move(names));
    const auto holds = [&](std::string_view name) {
      return std::find(names->begin(), names->end(), name) != names->end();
    };
    continued_ = holds(kPackPlanName);
    if (!continued_ && holds(kDatasetIndexName))
      return Fail(ErrorCode::kExists,
                  Quoted(dataset_) + " already holds a data set; --append adds to it what is new in the source");
    for (const std::string& name : *names) {
      if (IsTemporaryName(name))
        temporaries_.push_back(name);
      else if (!continued_ && name != kPackLockName)
        return Fail(ErrorCode::kExists, Quoted(dataset_) + " is not empty: it holds " + Quoted(name));
    }
    return {};
  }

  Result<PackPlan> MakePlan() {
    if (!continued_)
      if (auto written = WritePlan(); !written) return PassOn(std::move(written));
    auto plan = PackPlan::Open(PathOf(kPackPlanName));
    if (!plan)
      return WithContext("the plan of the unfinished pack cannot be followed; empty the folder to pack anew",
                         std::move(plan.error()));
    if (continued_)
      if (auto same = ComparePlan(*plan); !same) return PassOn(std::move(same));
    if (auto checked = CheckShardCount(*plan); !checked) return PassOn(std::move(checked));
    return plan;
  }

  [[nodiscard]] PlanHeader header() const { return {input_.Identity(), OptionsText(input_.is_archive())}; }
  // `archive_order`: the items are not ordered as those of a folder would be.
  [[nodiscard]] std::string OptionsText(bool archive_order) const {
    PackOptions options = options_;
    options.order.archive = archive_order;
    return PackOptionsText(options);
  }

  // Of a stream, whose items nobody knew before they were packed.
  Result<PlanSummary> SummaryOfUnlisted(const std::vector<ShardRow>& rows) {
    auto names = NamesIn(dataset_);
    if (!names) return PassOn(std::move(names));
    for (const std::string& name : *names)
      if (const auto shard = ParseShardFileName(name); shard && shard->number >= rows.size())
        return Fail(ErrorCode::kInvalidArgument,
                    "what came now ended before what " + Quoted(PathOf(name)) +
                        " was packed from; send the same archive again, or empty the folder to pack another");
    PackInput::Outcome outcome = input_.FindOutcome();
    SetTotals(outcome.totals);
    return std::move(outcome.plan);
  }

  void SetTotals(const ListingTotals& totals) {
    report_.summary().directories = totals.folders;
    report_.summary().excluded = totals.excluded;
  }

  Result<void> WritePlan() {
    auto writer = PackPlanWriter::Create(PathOf(kPackPlanName), header());
    if (!writer) return PassOn(std::move(writer));
    auto listed = List([&](const SourceRecord& record) { return writer->Add(record); },
                       [&](const std::string& path, const Skipped& why) { report_.Skipped(path, why); });
    if (!listed) return listed;
    return writer->Commit();
  }

  Result<void> List(const RecordSink& sink, const OnSkipped& on_skipped) {
    struct stat status;
    if (stat(dataset_.c_str(), &status) != 0) return SystemFail("looking at " + Quoted(dataset_), errno);
    ListingOptions options = listing_options();
    options.leave_out = FileIdentity{status.st_dev, status.st_ino};
    options.on_file = [&](uint64_t size) { report_.Listed(size); };
    auto totals = input_.List(options, on_skipped, sink);
    if (!totals) return PassOn(std::move(totals));
    SetTotals(*totals);
    return {};
  }

  // The plan stands: what it lists is packed, with the boundaries that it draws. What has come to SOURCE since is
  // reported; what has gone will be missed when its shard is written, unless that was done already.
  Result<void> ComparePlan(const PackPlan& plan) {
    if (auto same = CompareSource(plan.header().source); !same) return same;
    if (plan.header().options != header().options)
      return Fail(ErrorCode::kInvalidArgument,
                  Quoted(dataset_) + " holds a pack begun with other options (" + OneLine(plan.header().options) +
                      " instead of " + OneLine(header().options) + "); repeat it with those or empty the folder");
    // Nothing can come to an archive that is the same.
    if (input_.is_archive()) return List([](const SourceRecord&) { return Result<void>(); }, on_skipped_);
    PlanComparison planned(plan.Records(), options_.order);
    std::map<std::string, Skipped> skipped;
    auto listed = List(
        [&](const SourceRecord& found) -> Result<void> {
          if (!found.is_item()) return {};
          const auto holds = planned.Holds(found);
          if (!holds) return tl::unexpected(holds.error());
          if (!*holds) report_.Skipped(found.path, CameLate());
          return {};
        },
        [&](const std::string& path, const Skipped& why) { skipped.emplace(path, why); });
    if (!listed) return listed;
    return ReportSkipped(plan, std::move(skipped));
  }

  // But not what was planned: that is packed already, or is reported when it cannot be read.
  Result<void> ReportSkipped(const PackPlan& plan, std::map<std::string, Skipped> skipped) {
    PackPlan::Cursor records = plan.Records();
    while (!skipped.empty()) {
      const auto record = records.Next();
      if (!record) return tl::unexpected(record.error());
      if (!*record) break;
      if ((*record)->is_item()) skipped.erase((*record)->path);
    }
    for (const auto& [path, why] : skipped) report_.Skipped(path, why);
    return {};
  }

  Result<void> CompareSource(const std::string& planned) const {
    const std::string now = input_.Identity();
    if (planned == now) return {};
    const std::string path = planned.substr(0, planned.find('\0'));
    if (path == now.substr(0, now.find('\0')))
      return Fail(ErrorCode::kInvalidArgument, Quoted(path) + " is not what it was when the unfinished pack in " +
                                                   Quoted(dataset_) +
                                                   " was begun: its size or time is another; empty the folder to pack "
                                                   "it anew");
    return Fail(ErrorCode::kInvalidArgument, Quoted(dataset_) + " holds the unfinished pack of another source, " +
                                                 Quoted(path) + "; pack that one again or empty the folder");
  }

  static std::string OneLine(std::string options) {
    std::replace(options.begin(), options.end(), '\n', ' ');
    if (!options.empty()) options.pop_back();
    return options;
  }

  Result<void> CheckShardCount(const PackPlan& plan) const {
    if (plan.summary().items <= kMaxRows) return {};
    const auto shards = CountShards(plan.Records(), limits());
    if (!shards) return tl::unexpected(shards.error());
    if (*shards <= kMaxRows) return {};
    return Fail(ErrorCode::kLimit, "the source would make " + std::to_string(*shards) +
                                       " shards, and a data set holds 1,048,576; more items or bytes a shard help");
  }

  // PCR_index.pb makes a data set of the shards; the plan has then done its work.
  Result<void> Publish(const PlanSummary& plan, std::vector<ShardRow> rows) {
    const auto bytes = PublishDatasetIndex(
        dataset_,
        {std::move(rows), plan.labels, OptionsText(input_.is_archive() && !plan.by_path), plan.paths_hash, 0});
    if (!bytes) return tl::unexpected(bytes.error());
    report_.summary().stored_bytes += *bytes;
    const std::string plan_path = PathOf(kPackPlanName);
    if (unlink(plan_path.c_str()) != 0) return SystemFail("removing " + Quoted(plan_path), errno);
    return SyncDirectory(dataset_);
  }

  PackInput& input_;
  const std::string dataset_;
  const PackOptions& options_;
  PackReport report_;
  const OnSkipped on_skipped_ = [this](const std::string& path, const Skipped& why) { report_.Skipped(path, why); };
  bool continued_ = false;
  std::vector<std::string> temporaries_;
};

}  // namespace

Result<PackSummary> Pack(const std::string& source, const std::string& dataset, const PackOptions& options,
                         PackObserver& observer) {
  if (auto checked = CheckPackOptions(options); !checked) return PassOn(std::move(checked));
  auto paths = FindPackPaths(source, dataset);
  if (!paths) return PassOn(std::move(paths));
  auto input = PackInput::Open(paths->source, options);
  if (!input) return PassOn(std::move(input));
  std::error_code error;
  const bool created = fs::create_directories(paths->dataset, error);
  if (error) return SystemFail("making the folder " + Quoted(dataset), error.value());
  auto summary = Packer(**input, paths->dataset, options, observer).Run();
  if (!summary && created) rmdir(paths->dataset.c_str());  // stays when a plan or shards are in it
  return summary;
}

}  // namespace pcrfs
