#include "format/plan_comparison.h"

#include <utility>

namespace pcrfs {

Result<bool> PlanComparison::Holds(const SourceRecord& item) {
  const PackKey key(order_, item);
  while (!at_end_ && (!planned_ || *planned_ < key)) {
    auto next = records_.Next();
    if (!next) return PassOn(std::move(next));
    at_end_ = !*next;
    if (!at_end_ && (*next)->is_item()) planned_.emplace(order_, **next);
  }
  return planned_ && *planned_ == key;
}

Skipped CameLate() { return {SkipReason::kLate, "it came to the source after this pack was begun, whose plan stands"}; }

}  // namespace pcrfs
