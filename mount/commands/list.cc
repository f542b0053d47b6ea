#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "mount/commands/commands.h"
#include "mount/console.h"
#include "mount/control_client.h"
#include "mount/mount_table.h"
#include "mount/timespec.h"

namespace pcrfs {
namespace {

struct Listed {
  MountedThere mount;
  MountReport report;

  [[nodiscard]] bool serves() const { return report.health == MountHealth::kServing; }
  [[nodiscard]] std::string dataset() const { return serves() ? report.description.dataset : mount.source; }
  // A number of another namespace would name a process that has nothing to do with it.
  [[nodiscard]] bool has_pid() const { return serves() && IsOfOurPidNamespace(report.description); }
};

std::vector<Listed> ListMounts() {
  std::vector<MountedThere> ours = ReadMounts();
  std::erase_if(ours, [](const MountedThere& mount) { return mount.type != kMountType; });
  std::vector<MountReport> reports = DescribeMounts(ours);
  std::vector<Listed> listed;
  for (size_t i = 0; i < ours.size(); ++i) listed.push_back({std::move(ours[i]), reports[i]});
  return listed;
}

const char* StateName(MountHealth health) {
  switch (health) {
    case MountHealth::kServing:
      return "serving";
    case MountHealth::kDead:
      return "dead";
    case MountHealth::kNotAnswering:
      return "not answering";
    case MountHealth::kNoAccess:
      return "no access";
    case MountHealth::kHidden:
      return "hidden";
    case MountHealth::kUnknown:
      break;
  }
  return "unknown";
}

std::string LevelText(const Listed& listed) {
  if (!listed.serves()) return "-";
  const int level = listed.report.description.shown_level;
  if (level == kShowsAllLevels) return "all";
  return level == Tree::Original().number() ? "original" : std::to_string(level);
}

std::string UtcText(int64_t time_ns) {
  const time_t seconds = ToTimespec(time_ns).tv_sec;
  struct tm utc {};
  std::array<char, 64> text{};
  if (gmtime_r(&seconds, &utc) == nullptr) return "";
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

nlohmann::ordered_json AsJson(const Listed& listed) {
  nlohmann::ordered_json json = {{"mount_point", listed.mount.path},
                                 {"data_set", listed.dataset()},
                                 {"state", StateName(listed.report.health)},
                                 {"user", listed.mount.user}};
  if (!listed.serves()) return json;
  const MountDescription& description = listed.report.description;
  json["level"] = nullptr;
  if (description.shown_level == Tree::Original().number())
    json["level"] = "original";
  else if (description.shown_level != kShowsAllLevels)
    json["level"] = description.shown_level;
  json["levels"] = description.levels;
  json["pid"] = nullptr;
  if (listed.has_pid()) json["pid"] = description.pid;
  json["started"] = UtcText(description.started_ns);
  json["version"] = std::string(description.program);
  if (const auto level = LogLevelOfNumber(description.log_level)) json["log_level"] = LogLevelName(*level);
  return json;
}

std::string AsJson(const std::vector<Listed>& all) {
  auto json = nlohmann::ordered_json::array();
  for (const Listed& listed : all) json.push_back(AsJson(listed));
  // Names are bytes, JSON is UTF-8.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

using Row = std::array<std::string, 5>;

Row AsRow(const Listed& listed, bool terminal) {
  std::string state = StateName(listed.report.health);
  if (listed.report.health == MountHealth::kNoAccess) state += " (of user " + std::to_string(listed.mount.user) + ")";
  return {ShownName(listed.mount.path, terminal), ShownName(listed.dataset(), terminal), LevelText(listed),
          listed.has_pid() ? std::to_string(listed.report.description.pid) : "-", state};
}

std::string AsTable(const std::vector<Listed>& all, bool terminal) {
  if (all.empty()) return "";
  std::vector<Row> rows = {{"MOUNT POINT", "DATA SET", "LEVEL", "PID", "STATE"}};
  for (const Listed& listed : all) rows.push_back(AsRow(listed, terminal));
  std::array<size_t, std::tuple_size_v<Row>> widths{};
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) text += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    text += row.back() + "\n";
  }
  return text;
}

}  // namespace

Result<int> Run(const ListCommand& command) {
  const std::vector<Listed> all = ListMounts();
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  if (auto printed = Print(command.json ? AsJson(all) : AsTable(all, terminal)); !printed)
    return PassOn(std::move(printed));
  return kExitDone;
}

}  // namespace pcrfs
