// The file of `pack --report`: one JSON object a line for each file that is not an ordinary conversion, by path.
//
//   {"path":"a/b.jpg","kind":"opaque","reason":"damaged","detail":"a sentence"}
//
// A path that is not UTF-8 has U+FFFD in the place of what is not, and "path_hex" beside it, all its bytes as hex.
// Lines are gathered in memory, from 32 MiB on in a nameless temporary file beside the report, which appears whole
// under its name or not at all. One thread at a time. Errors: kInvalidArgument (a place where no report may lie), those
// of writing.
#ifndef PCRFS_MOUNT_PACK_REPORT_FILE_H_
#define PCRFS_MOUNT_PACK_REPORT_FILE_H_

#include <string>
#include <string_view>

#include "format/error.h"
#include "format/file.h"
#include "format/sorted_spool.h"

namespace pcrfs {

struct PackFinding {
  std::string_view path, kind, reason, detail;
};

// One line of the report, with its line feed.
[[nodiscard]] std::string ReportLine(const PackFinding& finding);

class PackReportFile {
 public:
  // Before the pack, so that a report that cannot be written does not show after it. Neither the source nor the data
  // set may hold `path`, and what is there already must be a regular file.
  [[nodiscard]] static Result<PackReportFile> Create(const std::string& path, const std::string& source,
                                                     const std::string& dataset);

  [[nodiscard]] Result<void> Add(const PackFinding& finding);
  [[nodiscard]] Result<void> Commit();

 private:
  PackReportFile(AtomicFile file, const std::string& path) : file_(std::move(file)), lines_(path) {}

  AtomicFile file_;
  SortedSpool lines_;  // by path
};

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_PACK_REPORT_FILE_H_
