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
  Packer(std::string source, std::string dataset, const PackOptions& options, PackObserver& observer)
      : source_(std::move(source)), dataset_(std::move(dataset)), options_(options), report_(observer) {}

  Result<PackSummary> Run() {
    auto lock = PackLock::Acquire(dataset_);
    if (!lock) return PassOn(std::move(lock));
    if (auto prepared = Prepare(); !prepared) return PassOn(std::move(prepared));
    auto plan = MakePlan();
    if (!plan) return PassOn(std::move(plan));
    if (auto removed = RemoveFiles(dataset_, temporaries_); !removed) return PassOn(std::move(removed));
    const UniqueFd source(open(source_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!source.valid()) return SystemFail("opening the source folder " + Quoted(source_), errno);
    report_.SetTotal(plan->summary().files, plan->summary().bytes);
    FolderSource files(source.get(), source_, *plan, limits());
    auto rows = PackShards({&files, dataset_, continued_, options_.jobs, options_.encode}, report_);
    if (!rows) return PassOn(std::move(rows));
    if (auto told = report_.ShardsComplete(); !told) return PassOn(std::move(told));
    if (auto published = Publish(plan->summary(), std::move(*rows)); !published) return PassOn(std::move(published));
    return report_.summary();
  }

 private:
  [[nodiscard]] std::string PathOf(std::string_view name) const { return dataset_ + '/' + std::string(name); }
  [[nodiscard]] ShardLimits limits() const { return {.items = options_.record_images, .bytes = options_.record_bytes}; }

  // Finds out whether this goes on with a pack that was killed, and refuses a folder that holds something else.
  Result<void> Prepare() {
    auto names = NamesIn(dataset_);
    if (!names) return PassOn(std::move(names));
    const auto holds = [&](std::string_view name) {
      return std::find(names->begin(), names->end(), name) != names->end();
    };
    continued_ = holds(kPackPlanName);
    if (!continued_ && holds(kDatasetIndexName))
      return Fail(ErrorCode::kExists, Quoted(dataset_) + " already holds a data set; --append adds to it what is new in the source");
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

  [[nodiscard]] PlanHeader header() const { return {source_, PackOptionsText(options_)}; }

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
    auto totals = ListInPackOrder(source_,
                                  {.leave_out = FileIdentity{status.st_dev, status.st_ino},
                                   .exclude = options_.exclude,
                                   .on_file = [&](uint64_t size) { report_.Listed(size); },
                                   .spool = PathOf(kPackPlanName)},
                                  options_.order, on_skipped, sink);
    if (!totals) return PassOn(std::move(totals));
    report_.summary().directories = totals->folders;
    report_.summary().excluded = totals->excluded;
    return {};
  }

  // The plan stands: what it lists is packed, with the boundaries that it draws. What has come to SOURCE since is
  // reported; what has gone will be missed when its shard is written, unless that was done already.
  Result<void> ComparePlan(const PackPlan& plan) {
    if (plan.header().source != source_)
      return Fail(ErrorCode::kInvalidArgument, Quoted(dataset_) + " holds the unfinished pack of another source, " +
                                                   Quoted(plan.header().source) +
                                                   "; pack that one again or empty the folder");
    if (plan.header().options != header().options)
      return Fail(ErrorCode::kInvalidArgument,
                  Quoted(dataset_) + " holds a pack begun with other options (" + OneLine(plan.header().options) +
                      " instead of " + OneLine(header().options) + "); repeat it with those or empty the folder");
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
    const auto bytes =
        PublishDatasetIndex(dataset_, {std::move(rows), plan.labels, PackOptionsText(options_), plan.paths_hash, 0});
    if (!bytes) return tl::unexpected(bytes.error());
    report_.summary().stored_bytes += *bytes;
    const std::string plan_path = PathOf(kPackPlanName);
    if (unlink(plan_path.c_str()) != 0) return SystemFail("removing " + Quoted(plan_path), errno);
    return SyncDirectory(dataset_);
  }

  const std::string source_;
  const std::string dataset_;
  const PackOptions& options_;
  PackReport report_;
  bool continued_ = false;
  std::vector<std::string> temporaries_;
};

}  // namespace

Result<PackSummary> Pack(const std::string& source, const std::string& dataset, const PackOptions& options,
                         PackObserver& observer) {
  if (auto checked = CheckPackOptions(options); !checked) return PassOn(std::move(checked));
  auto paths = FindPackPaths(source, dataset);
  if (!paths) return PassOn(std::move(paths));
  std::error_code error;
  const bool created = fs::create_directories(paths->dataset, error);
  if (error) return SystemFail("making the folder " + Quoted(dataset), error.value());
  auto summary = Packer(paths->source, paths->dataset, options, observer).Run();
  if (!summary && created) rmdir(paths->dataset.c_str());  // stays when a plan or shards are in it
  return summary;
}

}  // namespace pcrfs
