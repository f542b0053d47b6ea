#include "mount/pack_report_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "format/checksum.h"
#include "mount/dataset_walk.h"

namespace pcrfs {
namespace {

constexpr size_t kWriteBytes = size_t{64} << 10;

using OnInvalid = nlohmann::json::error_handler_t;

std::string AsJson(std::string_view text, OnInvalid on_invalid = OnInvalid::replace) {
  return nlohmann::json(text).dump(-1, ' ', false, on_invalid);
}

bool IsUtf8(std::string_view text) { return AsJson(text, OnInvalid::ignore) == AsJson(text, OnInvalid::replace); }

Result<std::string> RealPath(const std::string& path) {
  std::error_code error;
  std::string real = std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error).string();
  if (error) return SystemFail("cannot find " + Quoted(path), error.value());
  while (real.size() > 1 && real.back() == '/') real.pop_back();
  return real;
}

Result<void> CheckPlace(const std::string& path, const std::string& source, const std::string& dataset) {
  struct stat there {};
  if (stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode))
    return Fail(ErrorCode::kInvalidArgument, "the report " + Quoted(path) + " would replace what is no regular file");
  const auto real = RealPath(path);
  if (!real) return tl::unexpected(real.error());
  for (const std::string* folder : {&source, &dataset}) {
    const auto real_folder = RealPath(*folder);
    if (!real_folder) return tl::unexpected(real_folder.error());
    if (LiesIn(*real, *real_folder))
      return Fail(ErrorCode::kInvalidArgument, "the report " + Quoted(path) + " must not lie in " + Quoted(*folder));
  }
  return {};
}

}  // namespace

std::string ReportLine(const PackFinding& finding) {
  std::string line = "{\"path\":" + AsJson(finding.path);
  if (!IsUtf8(finding.path)) line += ",\"path_hex\":\"" + Hex(AsBytes(finding.path)) + "\"";
  return line + ",\"kind\":" + AsJson(finding.kind) + ",\"reason\":" + AsJson(finding.reason) +
         ",\"detail\":" + AsJson(finding.detail) + "}\n";
}

Result<PackReportFile> PackReportFile::Create(const std::string& path, const std::string& source,
                                              const std::string& dataset) {
  if (auto place = CheckPlace(path, source, dataset); !place) return PassOn(std::move(place));
  auto file = AtomicFile::Create(path);
  if (!file) return WithContext("the report cannot be written", file.error());
  return PackReportFile(*std::move(file), path);
}

Result<void> PackReportFile::Add(const PackFinding& finding) {
  return lines_.Add(AsBytes(finding.path), AsBytes(ReportLine(finding)));
}

Result<void> PackReportFile::Commit() {
  std::string pending;
  auto drained = lines_.Drain([&](ByteSpan, ByteSpan line) -> Result<void> {
    pending += AsText(line);
    if (pending.size() < kWriteBytes) return {};
    return file_.Write(AsBytes(std::exchange(pending, {})));
  });
  if (!drained) return drained;
  if (auto written = file_.Write(AsBytes(pending)); !written) return written;
  return file_.Commit();
}

}  // namespace pcrfs
