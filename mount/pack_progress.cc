#include "mount/pack_progress.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "mount/reason_words.h"

namespace pcrfs {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kListing = "listing", kPacking = "packing";

// By a whole number, so that what is printed is short.
double Rounded(double value, double parts_of_one) { return std::round(value * parts_of_one) / parts_of_one; }
Json OrNull(std::optional<double> value) { return value ? Json(std::round(*value)) : Json(); }

void Tell(const Json& line) { (void)Print(line.dump() + "\n"); }

template <typename Reason, size_t kReasons>
Json ByReason(const std::array<uint64_t, kReasons>& counts) {
  Json object = Json::object();
  for (size_t i = 0; i < kReasons; ++i) object[std::string(ReasonName(static_cast<Reason>(i)))] = counts.at(i);
  return object;
}

Json Kinds(const PackSummary& summary) {
  return {{"converted", summary.images},
          {"not_restorable", summary.images_not_restorable},
          {"kept", summary.images_kept},
          {"opaque", ByReason<OpaqueReason>(summary.opaque_by_reason)}};
}

Json LeftOut(const PackSummary& summary) {
  return {{"skipped", ByReason<SkipReason>(summary.skipped_by_reason)},
          {"excluded", summary.excluded},
          {"changed", summary.changed},
          {"gone", summary.gone}};
}

}  // namespace

bool PackProgressView::Due(std::string_view phase) {
  const bool new_phase = phase != phase_;
  phase_ = phase;
  if (new_phase && phase == kPacking) packing_ = ProgressMeter();
  if (!as_json_) return line_.Due();
  const double now = seconds();
  if (!new_phase && now - told_ < 1) return false;
  told_ = now;
  return true;
}

void PackProgressView::Listing(uint64_t files, uint64_t bytes) {
  if (!Due(kListing)) return;
  if (as_json_)
    Tell({{"phase", kListing}, {"files", files}, {"bytes", bytes}, {"seconds", Rounded(seconds(), 100)}});
  else
    line_.Show("listing: " + Counted(files, "file") + ", " + HumanBytes(static_cast<double>(bytes)));
}

void PackProgressView::Packing(const PackProgress& progress) {
  const bool all = progress.files_done == progress.files_total;
  if (!Due(kPacking) && !(as_json_ && all)) return;
  packing_.Update(progress.bytes_done, progress.bytes_total);
  if (as_json_)
    Tell({{"phase", kPacking},
          {"files_done", progress.files_done},
          {"files_total", progress.files_total},
          {"bytes_done", progress.bytes_done},
          {"bytes_total", progress.bytes_total},
          {"bytes_per_second", OrNull(packing_.bytes_per_second())},
          {"seconds_left", OrNull(packing_.seconds_left())},
          {"seconds", Rounded(seconds(), 100)}});
  else
    line_.Show(std::to_string(progress.files_done) + " of " + Counted(progress.files_total, "file") + ", " +
               packing_.Text());
}

std::string PackSummaryJson(const PackSummary& summary, double seconds) {
  Json line = {{"phase", "done"}};
  line.update(Kinds(summary));
  line.update(LeftOut(summary));
  line["directories"] = summary.directories;
  line["shards"] = summary.shards;
  line["source_bytes"] = summary.source_bytes;
  line["stored_bytes"] = summary.stored_bytes;
  line["seconds"] = Rounded(seconds, 100);
  return line.dump() + "\n";
}

std::string PackEstimateJson(const PackEstimate& estimate) {
  Json line = {{"phase", "estimate"}, {"files", estimate.files}, {"bytes", estimate.bytes}};
  line["directories"] = estimate.tried.directories;
  line.update(LeftOut(estimate.tried));
  line["tried"] = Kinds(estimate.tried);
  line["tried"]["source_bytes"] = estimate.tried.source_bytes;
  line["tried"]["stored_bytes"] = estimate.tried.stored_bytes;
  line["shards"] = estimate.shards;
  line["stored_bytes"] = std::round(estimate.stored_bytes);
  line["seconds"] = std::round(estimate.seconds);
  return line.dump() + "\n";
}

}  // namespace pcrfs
