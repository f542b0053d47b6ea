#include "format/appender.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <unordered_set>
#include <utility>
#include <vector>

#include "format/append_listing.h"
#include "format/checksum.h"
#include "format/dataset.h"
#include "format/dataset_folder.h"
#include "format/file.h"
#include "format/pack_input.h"
#include "format/pack_lock.h"
#include "format/pack_pipeline.h"
#include "format/pack_plan.h"
#include "format/pack_report.h"
#include "format/pack_source.h"
#include "format/parse_number.h"
#include "format/plan_comparison.h"
#include "format/shard_partition.h"

namespace pcrfs {
namespace {

// What an append begins from: the first lines of its plan's options, before those of the pack.
struct AppendBasis {
  uint64_t appends = 0;      // that the data set will have
  std::string index_sha256;  // of PCR_index.pb as it was
  uint64_t first_shard = 0;

  [[nodiscard]] std::string Text() const {
    return "append=" + std::to_string(appends) + "\nindex=" + index_sha256 +
           "\nfirst-shard=" + std::to_string(first_shard) + "\n";
  }

  static Result<AppendBasis> Of(const std::string& plan_options) {
    std::string_view rest = plan_options;
    const auto take = [&rest](std::string_view name) -> std::string_view {
      if (!rest.starts_with(name)) return {};
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      return line.substr(name.size());
    };
    const auto appends = ParseNumber<uint64_t>(take("append="));
    const std::string_view sha256 = take("index=");
    const auto first = ParseNumber<uint64_t>(take("first-shard="));
    if (!appends || sha256.empty() || !first || *first + kMaxRows > kShardNumberLimit)
      return Fail(ErrorCode::kDamaged, "it is no plan of an append");
    return AppendBasis{*appends, std::string(sha256), *first};
  }
};

Result<void> CheckAskedFor(const AppendOptions& asked, const PackOptions& own) {
  const auto refuse = [](const std::string& option, const std::string& packed) {
    return Fail(
        ErrorCode::kInvalidArgument,
        "the data set was packed " + packed + ", and an append follows that; leave " + option + " away, or pack anew");
  };
  if (asked.record_images && *asked.record_images != own.record_images)
    return refuse("--record-images", "with --record-images " + std::to_string(own.record_images));
  if (asked.record_bytes && *asked.record_bytes != own.record_bytes)
    return refuse("--record-bytes", "with --record-bytes " + std::to_string(own.record_bytes));
  if (asked.order && *asked.order != own.order) return refuse("--order", "with --order " + PackOrderText(own.order));
  if (asked.exact && !own.encode.exact) return refuse("--exact", "without --exact");
  if (!asked.exclude.empty() && asked.exclude != own.exclude.globs())
    return refuse("--exclude", own.exclude.globs().empty() ? "without --exclude" : "with other globs to exclude");
  if (asked.rescan && !own.encode.rescan) return refuse("--rescan", "without --rescan");
  return {};
}

// One append, from the lock on.
class Appender {
 public:
  Appender(std::string source, std::string dataset, const AppendOptions& options, PackObserver& observer)
      : source_(std::move(source)), folder_(std::move(dataset)), asked_(options), report_(observer) {}

  Result<PackSummary> Run() {
    auto lock = PackLock::Acquire(folder_);
    if (!lock) return PassOn(std::move(lock));
    if (auto opened = OpenDataset(); !opened) return PassOn(std::move(opened));
    if (auto cleared = Clear(); !cleared) return PassOn(std::move(cleared));
    bool new_items = continued_;
    if (auto planned = continued_ ? FollowPlan() : MakePlan(new_items); !planned) return PassOn(std::move(planned));
    if (!new_items) return Done();
    if (!plan_)
      if (auto opened = OpenPlan(); !opened) return PassOn(std::move(opened));
    if (auto fits = CheckLimits(*plan_); !fits) return PassOn(std::move(fits));
    if (auto packed = PackPlanned(*plan_, *lock); !packed) return PassOn(std::move(packed));
    return Done();
  }

 private:
  [[nodiscard]] std::string PathOf(std::string_view name) const { return folder_ + '/' + std::string(name); }
  [[nodiscard]] std::string plan_path() const { return PathOf(kAppendPlanName); }
  [[nodiscard]] const DatasetIndex& index() const { return dataset_->index(); }
  [[nodiscard]] ShardLimits limits() const { return {.items = options_.record_images, .bytes = options_.record_bytes}; }
  [[nodiscard]] PlanHeader header() const { return {source_, basis_.Text() + index().pack_options}; }

  Result<void> OpenDataset() {
    auto dataset = Dataset::Open(folder_);
    if (!dataset) return PassOn(std::move(dataset));
    dataset_.emplace(*std::move(dataset));
    auto options = ParsePackOptions(index().pack_options);
    if (!options) return WithContext("data set " + Quoted(folder_), std::move(options).error());
    options_ = *options;
    options_.jobs = asked_.jobs;
    if (auto checked = CheckAskedFor(asked_, options_); !checked) return checked;
    const auto bytes = ReadWholeFile(PathOf(kDatasetIndexName), kMaxDatasetIndexBytes);
    if (!bytes) return tl::unexpected(bytes.error());
    basis_.index_sha256 = Hex(Sha256::Of(*bytes));
    basis_.appends = index().appends + 1;
    return {};
  }

  // Removes what a killed writer left half done, and finds out whether there is an append to go on with.
  Result<void> Clear() {
    auto names = NamesIn(folder_);
    if (!names) return PassOn(std::move(names));
    const auto holds = [&](std::string_view name) {
      return std::find(names->begin(), names->end(), name) != names->end();
    };
    if (holds(kPackPlanName))
      return Fail(ErrorCode::kInvalidArgument,
                  "the pack of " + Quoted(folder_) + " was interrupted; repeat it before you append");
    std::vector<std::string> temporaries;
    std::copy_if(names->begin(), names->end(), std::back_inserter(temporaries),
                 [](const std::string& name) { return IsTemporaryName(name); });
    if (auto removed = RemoveFiles(folder_, temporaries); !removed) return removed;
    continued_ = holds(kAppendPlanName);
    return continued_ ? ReadBasis() : Result<void>();
  }

  Result<void> OpenPlan() {
    auto plan = PackPlan::Open(plan_path());
    if (!plan) return PlanFailed(std::move(plan).error());
    plan_.emplace(*std::move(plan));
    return {};
  }

  Result<void> ReadBasis() {
    if (auto opened = OpenPlan(); !opened) return opened;
    auto basis = AppendBasis::Of(plan_->header().options);
    if (!basis) return PlanFailed(std::move(basis).error());
    const bool is_base = basis->index_sha256 == basis_.index_sha256 && basis->appends == basis_.appends;
    // Killed between its last two steps: all was done but the plan's removal.
    if (!is_base && basis->appends == index().appends) {
      continued_ = false;
      plan_.reset();
      return EndPlan();
    }
    if (!is_base)
      return Fail(ErrorCode::kInvalidArgument, "the data set " + Quoted(folder_) +
                                                   " is not the one that the unfinished append in it began with; "
                                                   "delete its append.plan to give that append up");
    if (plan_->header().source != source_)
      return Fail(ErrorCode::kInvalidArgument, Quoted(folder_) + " holds the unfinished append of another source, " +
                                                   Quoted(plan_->header().source) +
                                                   "; repeat that one, or delete append.plan to give it up");
    basis_ = *std::move(basis);
    return {};
  }

  static tl::unexpected<Error> PlanFailed(Error error) {
    return WithContext("the plan of the unfinished append cannot be followed; delete it to give that append up",
                       std::move(error));
  }

  Result<void> MakePlan(bool& new_items) {
    const auto first = FirstFreeShardNumber(folder_, index());
    if (!first) return tl::unexpected(first.error());
    basis_.first_shard = *first;
    std::optional<PackPlanWriter> writer;  // only once there is something to plan
    auto listed = List([&](const SourceRecord& record) -> Result<void> {
      if (!writer) {
        auto created = PackPlanWriter::Create(plan_path(), header());
        if (!created) return PassOn(std::move(created));
        writer.emplace(*std::move(created));
      }
      return writer->Add(record);
    });
    if (!listed) return listed;
    new_items = writer.has_value();
    return writer ? writer->Commit() : Result<void>();
  }

  // The plan stands; what has come to SOURCE since is reported, and all that differs as it was at first.
  Result<void> FollowPlan() {
    PlanComparison planned(plan_->Records(), options_.order);
    return List([&](const SourceRecord& found) -> Result<void> {
      if (!found.is_item()) return {};
      const auto holds = planned.Holds(found);
      if (!holds) return tl::unexpected(holds.error());
      if (!*holds) report_.Skipped(found.path, CameLate());
      return {};
    });
  }

  Result<void> List(const RecordSink& sink) {
    struct stat status;
    if (stat(folder_.c_str(), &status) != 0) return SystemFail("looking at " + Quoted(folder_), errno);
    AppendListing listing;
    listing.source = source_;
    listing.options.leave_out = FileIdentity{status.st_dev, status.st_ino};
    listing.options.exclude = options_.exclude;
    listing.options.on_file = [&](uint64_t size) { report_.Listed(size); };
    listing.options.spool = plan_path();
    listing.order = options_.order;
    listing.on_skipped = [&](const std::string& path, const Skipped& why) { report_.Skipped(path, why); };
    listing.on_changed = [&](const std::string& path, const std::string& detail) { report_.Changed(path, detail); };
    listing.on_gone = [&](const std::string& path) { report_.Gone(path); };
    const auto totals = ListNewItems(*dataset_, listing, sink);
    if (!totals) return tl::unexpected(totals.error());
    report_.summary().directories = totals->folders;
    report_.summary().excluded = totals->excluded;
    return {};
  }

  Result<void> CheckLimits(const PackPlan& plan) {
    labels_ = index().labels;
    const std::unordered_set<std::string_view> known(index().labels.begin(), index().labels.end());
    for (const std::string& label : plan.summary().labels)
      if (!known.contains(label)) labels_.push_back(label);
    if (labels_.size() > kMaxLabels)
      return Fail(ErrorCode::kLimit, "the data set would have " + std::to_string(labels_.size()) +
                                         " top-level folders, and it has labels for 1,048,576");
    const auto shards = CountShards(plan.Records(), limits());
    if (!shards) return tl::unexpected(shards.error());
    if (index().rows.size() + *shards <= kMaxRows) return {};
    return Fail(ErrorCode::kLimit, "the data set would have " + std::to_string(index().rows.size() + *shards) +
                                       " shards, and it holds 1,048,576; 'pcrfs compact' may help");
  }

  Result<void> PackPlanned(const PackPlan& plan, const PackLock& lock) {
    const UniqueFd source(open(source_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!source.valid()) return SystemFail("opening the source folder " + Quoted(source_), errno);
    report_.SetTotal(plan.summary().files, plan.summary().bytes);
    FolderSource files(source.get(), source_, plan, limits(), basis_.first_shard, &labels_);
    auto rows = PackShards({&files, folder_, continued_, options_.jobs, options_.encode}, report_);
    if (!rows) return PassOn(std::move(rows));
    if (auto told = report_.ShardsComplete(); !told) return told;
    if (auto held = lock.CheckHeld(); !held) return held;
    return Publish(*std::move(rows));
  }

  Result<void> Publish(std::vector<ShardRow> rows) {
    DatasetIndex grown = index();
    grown.rows.insert(grown.rows.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
    grown.labels = labels_;
    grown.appends = basis_.appends;
    if (const auto published = PublishDatasetIndex(folder_, grown); !published)
      return tl::unexpected(published.error());
    return EndPlan();
  }

  Result<void> EndPlan() {
    if (auto removed = RemoveFiles(folder_, {std::string(kAppendPlanName)}); !removed) return removed;
    return SyncDirectory(folder_);
  }

  Result<PackSummary> Done() {
    if (report_.summary().shards == 0)
      if (auto told = report_.ShardsComplete(); !told) return PassOn(std::move(told));
    return report_.summary();
  }

  const std::string source_;
  const std::string folder_;
  const AppendOptions& asked_;
  PackReport report_;
  std::optional<Dataset> dataset_;  // as it was before
  PackOptions options_;             // its own
  AppendBasis basis_;
  std::optional<PackPlan> plan_;  // of an append that is gone on with from the start, of a new one once it is written
  std::vector<std::string> labels_;  // that it will have
  bool continued_ = false;
};

}  // namespace

Result<PackSummary> Append(const std::string& source, const std::string& dataset, const AppendOptions& options,
                           PackObserver& observer) {
  // Before the lock, so that nothing is made where there is no data set.
  if (auto opened = Dataset::Open(dataset); !opened) return PassOn(std::move(opened));
  auto paths = FindPackPaths(source, dataset);
  if (!paths) return PassOn(std::move(paths));
  if (auto folder =
          CheckIsFolder(paths->source, "only what is new in a folder can be appended: unpack an archive first");
      !folder)
    return PassOn(std::move(folder));
  return Appender(paths->source, paths->dataset, options, observer).Run();
}

}  // namespace pcrfs
