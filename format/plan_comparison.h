// What has come to SOURCE since the plan of a pack that is continued was made: the plan stands, the rest is reported.
//
// Borrows the plan. One thread at a time. Errors: those of reading the plan.
#ifndef PCRFS_FORMAT_PLAN_COMPARISON_H_
#define PCRFS_FORMAT_PLAN_COMPARISON_H_

#include <optional>

#include "format/error.h"
#include "format/pack_listing.h"
#include "format/pack_plan.h"
#include "format/skipped.h"

namespace pcrfs {

class PlanComparison {
 public:
  PlanComparison(PackPlan::Cursor records, const PackOrder& order) : records_(std::move(records)), order_(order) {}

  // Whether the plan has that item. They are asked for in the plan's order.
  [[nodiscard]] Result<bool> Holds(const SourceRecord& item);

 private:
  PackPlan::Cursor records_;
  const PackOrder order_;
  std::optional<PackKey> planned_;  // of the first item that is not before the one that was asked for
  bool at_end_ = false;
};

// Why an item that it does not have is skipped.
[[nodiscard]] Skipped CameLate();

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_PLAN_COMPARISON_H_
