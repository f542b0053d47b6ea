// What `pack` is given as SOURCE: a folder, an archive, or an archive on standard input; what a plan is made of, and
// what is then packed by it.
//
// One thread. Errors: those of listing and of archives; kInvalidArgument for options that do not go with the input.
#ifndef PCRFS_FORMAT_PACK_INPUT_H_
#define PCRFS_FORMAT_PACK_INPUT_H_

#include <memory>
#include <string>
#include <string_view>

#include "format/error.h"
#include "format/pack_listing.h"
#include "format/pack_options.h"
#include "format/pack_plan.h"
#include "format/pack_source.h"

namespace pcrfs {

// SOURCE for an archive on standard input.
inline constexpr std::string_view kStandardInput = "-";

// Of a source (FindPackPaths) that can only be a folder: kNotDirectory, with `why`, for any other.
[[nodiscard]] Result<void> CheckIsFolder(const std::string& path, const std::string& why);

class PackInput {
 public:
  // `path` is real (RealPath) or kStandardInput.
  [[nodiscard]] static Result<std::unique_ptr<PackInput>> Open(const std::string& path, const PackOptions& options);
  virtual ~PackInput() = default;

  // PlanHeader::source.
  [[nodiscard]] virtual std::string Identity() const = 0;
  // Whether the order of items is the input's own (PackOrder::archive).
  [[nodiscard]] virtual bool is_archive() const { return true; }
  // Whether List gives the records of all items. Otherwise only their source knows them, when all is packed.
  [[nodiscard]] virtual bool is_listed() const { return true; }
  [[nodiscard]] virtual Result<ListingTotals> List(const ListingOptions& options, const OnSkipped& on_skipped,
                                                   const RecordSink& sink) = 0;
  // When all is packed of an input that is not listed: what a plan would have said.
  struct Outcome {
    PlanSummary plan;
    ListingTotals totals;
  };
  [[nodiscard]] virtual Outcome FindOutcome() { return {}; }
  // Borrows the input and the plan.
  [[nodiscard]] virtual Result<std::unique_ptr<PackSource>> Source(const PackPlan& plan, const ShardLimits& limits,
                                                                   const ListingOptions& options,
                                                                   const OnSkipped& on_skipped) = 0;
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_PACK_INPUT_H_
