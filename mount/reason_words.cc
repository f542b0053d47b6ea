#include "mount/reason_words.h"

#include <iomanip>
#include <sstream>

namespace pcrfs {
namespace {

constexpr std::array<std::string_view, kOpaqueReasons> kOpaqueNames = {"not_jpeg",     "unsupported",     "damaged",
                                                                       "incomplete",   "markers_between", "too_large",
                                                                       "proof_failed", "not_restorable"};
constexpr std::array<std::string_view, kSkipReasons> kSkipNames = {
    "unreadable",  "vanished", "changed",  "special_file", "broken_link",
    "over_limits", "late",     "data_set", "conflict",     "outside"};
constexpr std::array<std::string_view, kOpaqueReasons> kOpaqueWords = {"not JPEG",
                                                                       "a kind of JPEG that is not converted",
                                                                       "damaged",
                                                                       "incomplete",
                                                                       "metadata between its scans",
                                                                       "too large to convert",
                                                                       "not provably the same when converted",
                                                                       "not restorable byte for byte"};
constexpr std::array<std::string_view, kSkipReasons> kSkipWords = {"unreadable",
                                                                   "gone since it was listed",
                                                                   "changed while it was read",
                                                                   "a socket, FIFO or device",
                                                                   "a symbolic link that leads nowhere",
                                                                   "name, path or size over the limits",
                                                                   "came after the pack was begun",
                                                                   "the data set itself",
                                                                   "a file here and a folder there, or a path twice",
                                                                   "a path that leads out of the archive"};
constexpr std::string_view kOpaque = "kept whole at every level: ";

}  // namespace

std::string_view ReasonName(OpaqueReason reason) { return kOpaqueNames.at(static_cast<size_t>(reason)); }
std::string_view ReasonName(SkipReason reason) { return kSkipNames.at(static_cast<size_t>(reason)); }

std::string KindLines(const KindCounts& counts) {
  std::ostringstream text;
  const auto add = [&text](uint64_t count, std::string_view group, std::string_view what) {
    if (count > 0) text << std::setw(12) << count << "  " << group << what << "\n";
  };
  add(counts.restorable, "", "converted, and can be restored byte for byte");
  add(counts.not_restorable, "", "converted, and cannot be restored byte for byte");
  add(counts.kept, "", "progressive, kept as it was");
  for (size_t i = 0; i < kOpaqueReasons; ++i) add(counts.opaque[i], kOpaque, kOpaqueWords[i]);
  add(counts.opaque_for_unknown_reason, kOpaque, "JPEG, for a reason that was not found out");
  for (size_t i = 0; i < kSkipReasons; ++i) add(counts.skipped[i], "skipped: ", kSkipWords[i]);
  add(counts.excluded, "", "excluded, what lies below excluded folders not counted");
  add(counts.changed, "", "packed before, changed in the source since: as they were");
  add(counts.gone, "", "packed before, gone from the source since: as they were");
  return text.str();
}

}  // namespace pcrfs
