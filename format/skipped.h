// Why a file or folder of SOURCE is not in the data set. Values; no errors, no thread rules.
#ifndef PCRFS_FORMAT_SKIPPED_H_
#define PCRFS_FORMAT_SKIPPED_H_

#include <cstddef>
#include <string>

namespace pcrfs {

// The order is that of reports.
enum class SkipReason {
  kUnreadable,   // the system refused, or reading failed
  kVanished,     // gone since it was listed
  kChanged,      // changed each time it was read, or holds more than its size says
  kSpecialFile,  // a socket, FIFO or device
  kBrokenLink,   // a symbolic link to nothing, in a circle, or back to a folder above
  kOverLimits,   // name, path or size beyond the format's limits
  kLate,         // came after the plan of a pack that is continued
  kDataset,      // the data set that is being written
  kConflict,     // a file where an archive or a data set appended to has a folder, or in a file; a path that comes twice
  kOutside,      // a member of an archive whose path leads out of it
};
inline constexpr size_t kSkipReasons = static_cast<size_t>(SkipReason::kOutside) + 1;

struct Skipped {
  SkipReason reason = SkipReason::kUnreadable;
  std::string detail;  // a sentence
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_SKIPPED_H_
