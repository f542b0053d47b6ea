#include "mount/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <utility>

#include "mount/parse_number.h"

namespace pcrfs {
namespace {

constexpr char kMountFooter[] = R"(Options for -o (a list, and -o may be repeated):
  level=K            show the tree of level K itself at MOUNTPOINT instead of scan1, scan2, ... and current
  uid=N, gid=N       owner of everything (default: whoever mounts)
  umask=NNN          permission bits to take away, octal
  allow_other        let other users in, as far as modes allow (needs user_allow_other in /etc/fuse.conf unless root)
  nonempty           mount over a folder that is not empty
  noexec             no file may be executed
  max_threads=N      requests served at a time (default 256)
  cache_dir=DIR, log_file=FILE, log_level=LEVEL   as the long options
The mount is always ro, nosuid, nodev and default_permissions. Accepted without effect, for fstab's sake: rw, dev, suid,
exec, auto, user, _netdev, nofail, noatime, x-*, comment= and their kin.
In fstab:  DATASET MOUNTPOINT fuse.pcrfs ro,allow_other,_netdev,nofail 0 0)";

constexpr char kProgramFooter[] = R"('pcrfs DATASET MOUNTPOINT [-o ...]', without a command, mounts, too.
'pcrfs COMMAND --help' tells all about a command.
Sizes are in bytes, or with KiB, MiB, GiB, kB, MB, GB behind the number.
Exit status: 0 done, 1 failed, 2 usage, 3 data damaged (verify).)";

// An option whose text `parse` turns into an optional value; nothing is a usage error that says what was expected.
template <typename Value, typename Parse>
CLI::Option* AddParsed(CLI::App& app, const std::string& name, Value& value, Parse parse, const std::string& help,
                       const std::string& expected) {
  const auto assign = [&value, parse, name, expected](const std::string& text) {
    const auto parsed = parse(text);
    if (!parsed) throw CLI::ValidationError(name, "expected " + expected + ", not " + Quoted(text));
    value = *parsed;
  };
  return app.add_option_function<std::string>(name, assign, help);
}

void AddLevel(CLI::App& app, std::optional<Level>& level) {
  const auto parse = [](std::string_view text) {
    const auto number = ParseNumber<int>(text);
    return number ? Level::FromNumber(*number) : std::nullopt;
  };
  AddParsed(app, "--level", level, parse, "Level of fidelity, as in scanK (default: the highest)",
            "a level from 1 to 31")
      ->type_name("K");
}

void AddJobs(CLI::App& app, unsigned& jobs) {
  app.add_option("--jobs,-j", jobs, "Worker threads (default: one a processor)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
}

void AddDataset(CLI::App& app, std::string& dataset) {
  app.add_option("DATASET", dataset, "Folder of a packed data set")->required()->type_name("");
}

void AddPath(CLI::App& app, std::string& path, bool required) {
  app.add_option("PATH", path, "Path in the data set, without scanK")->required(required)->type_name("");
}

std::optional<uint64_t> ParseRecordBytes(std::string_view text) {
  const auto size = ParseSize(text);
  return size && *size > 0 ? size : std::nullopt;
}

void Define(CLI::App& app, PackCommand& command) {
  app.add_option("SOURCE", command.source, "Folder of images and other files")->required()->type_name("");
  app.add_option("DATASET", command.dataset, "Folder to make; an interrupted pack of the same SOURCE is continued")
      ->required()
      ->type_name("");
  AddJobs(app, command.options.jobs);
  app.add_option("--record-images", command.options.record_images, "Files a shard at most")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str()
      ->type_name("N");
  AddParsed(app, "--record-bytes", command.options.record_bytes, ParseRecordBytes,
            "Source bytes a shard at most (default 64MiB)", "a size such as 64MiB")
      ->type_name("SIZE");
  AddParsed(app, "--order", command.options.order, ParseOrder,
            "Order of files in shards: path, shuffle or shuffle:SEED (default path)", "path, shuffle or shuffle:SEED")
      ->type_name("ORDER");
}

// Mount options come as text and are applied when parsing is over, so that text and order of options do not matter.
struct MountText {
  std::vector<std::string> lists;
  bool ignored = false;
  std::string type;
};

void Define(CLI::App& app, MountCommand& command, MountText& text, bool as_helper) {
  AddDataset(app, command.dataset);
  app.add_option("MOUNTPOINT", command.mount_point, "Empty folder to mount on")->required()->type_name("");
  app.add_option("-o", text.lists, "Mount options, below")->allow_extra_args(false)->type_name("OPT[,OPT...]");
  app.add_option("--cache-dir", command.cache_dir, "Local folder for catalogs (default: by $PCRFS_CACHE_DIR and user)")
      ->type_name("DIR");
  app.add_option("--log-file", command.log_file, "Log there (default: stderr with -f, else syslog)")->type_name("FILE");
  AddParsed(app, "--log-level", command.log_level, ParseLogLevel, "debug, info, warn or error (default info)",
            "debug, info, warn or error")
      ->type_name("LEVEL");
  // mount(8) gives its helpers -s, -n, -v, -f (pretend only) and -t TYPE.
  if (as_helper) {
    app.add_flag("-f", command.fake, "Check the command line only");
    app.add_flag("-s,-n,-v", text.ignored, "Accepted without effect");
    app.add_option("-t", text.type, "Accepted without effect");
  } else {
    app.add_flag("-f,--foreground", command.foreground, "Stay in the foreground and log to stderr");
  }
  app.footer(kMountFooter);
}

void Define(CLI::App& app, UmountCommand& command) {
  app.add_option("MOUNTPOINT", command.mount_point, "Where a data set is mounted")->required()->type_name("");
}

void Define(CLI::App& app, InfoCommand& command) {
  AddDataset(app, command.dataset);
  app.add_flag("--json", command.json, "For programs");
}

void Define(CLI::App& app, LsCommand& command) {
  AddDataset(app, command.dataset);
  AddPath(app, command.path, false);
  AddLevel(app, command.level);
  app.add_flag("-l", command.with_attributes, "With mode, size at the level, time");
}

void Define(CLI::App& app, CatCommand& command) {
  AddDataset(app, command.dataset);
  AddPath(app, command.path, true);
  AddLevel(app, command.level);
}

void Define(CLI::App& app, ExtractCommand& command) {
  AddDataset(app, command.dataset);
  app.add_option("DEST", command.destination, "Folder to make, or an empty one")->required()->type_name("");
  AddLevel(app, command.level);
}

void Define(CLI::App& app, VerifyCommand& command) {
  AddDataset(app, command.dataset);
  AddJobs(app, command.jobs);
}

// Adds a subcommand that, when the line names it, leaves its settings in `chosen`.
template <typename T, typename... More>
void AddCommand(CLI::App& app, const char* name, const char* help, std::optional<Command>& chosen, More&&... more) {
  auto command = std::make_shared<T>();
  CLI::App* subcommand = app.add_subcommand(name, help);
  subcommand->footer("");  // not the program's own
  Define(*subcommand, *command, more...);
  subcommand->callback([command, &chosen] { chosen = *command; });
}

// The arguments behind the program's name, with `mount` put in where the line means it without saying so.
std::vector<std::string> WithCommand(const std::vector<std::string>& arguments, const CLI::App& app, bool as_helper) {
  std::vector<std::string> words(arguments.begin() + 1, arguments.end());
  const auto is_first_word = [&](const CLI::App* command) { return command->get_name() == words[0]; };
  const bool named = !words.empty() && (words[0] == "--help" || words[0] == "-h" || words[0] == "--version" ||
                                        !app.get_subcommands(is_first_word).empty());
  if (as_helper || (words.size() >= 2 && !named)) words.insert(words.begin(), "mount");
  return words;
}

EarlyExit UsageError(const std::string& sentence, const CLI::App& app) {
  const auto commands = app.get_subcommands();
  const std::string name = commands.empty() ? "" : " " + commands.front()->get_name();
  return {kExitUsage, "pcrfs: " + sentence + "\nTry 'pcrfs" + name + " --help'.\n"};
}

}  // namespace

tl::expected<Command, EarlyExit> ParseCommandLine(const std::vector<std::string>& arguments) {
  const std::string& called = arguments.at(0);
  const bool as_helper = called.compare(called.rfind('/') + 1, 6, "mount.") == 0;
  CLI::App app(
      "Packs a folder of images into Progressive Compressed Record shards and mounts them as scan1, scan2, ...:\n"
      "ordinary JPEG files at ten levels of fidelity, nothing stored twice.",
      "pcrfs");
  app.set_version_flag("--version", "pcrfs " PCRFS_VERSION);
  app.require_subcommand(1);
  app.footer(kProgramFooter);
  std::optional<Command> chosen;
  MountText mount_text;
  AddCommand<PackCommand>(app, "pack", "Pack a folder into a data set", chosen);
  AddCommand<MountCommand>(app, "mount", "Show a data set as a file system", chosen, mount_text, as_helper);
  AddCommand<UmountCommand>(app, "umount", "Take a mount down", chosen);
  AddCommand<InfoCommand>(app, "info", "Say what a data set holds, and how large each level is", chosen);
  AddCommand<LsCommand>(app, "ls", "List a folder of a data set", chosen);
  AddCommand<CatCommand>(app, "cat", "Write one file to standard output", chosen);
  AddCommand<ExtractCommand>(app, "extract", "Write all files into a folder, with modes and times", chosen);
  AddCommand<VerifyCommand>(app, "verify", "Check every byte of a data set against its checksums", chosen);

  std::vector<std::string> words = WithCommand(arguments, app, as_helper);
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    app.parse(std::move(words));
  } catch (const CLI::CallForVersion& version) {
    return tl::unexpected(EarlyExit{kExitDone, std::string(version.what()) + "\n"});
  } catch (const CLI::CallForHelp&) {
    return tl::unexpected(EarlyExit{kExitDone, app.help()});
  } catch (const CLI::ParseError& error) {
    if (!app.get_subcommands().empty()) return tl::unexpected(UsageError(error.what(), app));
    return tl::unexpected(UsageError(
        arguments.size() > 1 ? Quoted(arguments[1]) + " is no command of pcrfs" : "a command is required", app));
  }
  for (const std::string& list : mount_text.lists)
    if (auto applied = ApplyMountOptions(list, std::get<MountCommand>(*chosen)); !applied)
      return tl::unexpected(UsageError(applied.error().message, app));
  return *std::move(chosen);
}

std::optional<uint64_t> ParseSize(std::string_view text) {
  constexpr std::pair<std::string_view, uint64_t> kUnits[] = {
      {"KiB", uint64_t{1} << 10}, {"MiB", uint64_t{1} << 20}, {"GiB", uint64_t{1} << 30}, {"kB", 1000}, {"MB", 1000000},
      {"GB", 1000000000}};
  uint64_t factor = 1;
  for (const auto& [unit, bytes] : kUnits)
    if (text.size() > unit.size() && text.substr(text.size() - unit.size()) == unit) {
      factor = bytes;
      text.remove_suffix(unit.size());
      break;
    }
  const auto number = ParseNumber<uint64_t>(text);
  if (!number || *number > UINT64_MAX / factor) return std::nullopt;
  return *number * factor;
}

std::optional<PackOrder> ParseOrder(std::string_view text) {
  constexpr std::string_view kShuffle = "shuffle:";
  if (text == "path") return PackOrder{};
  if (text == "shuffle") return PackOrder{true, 0};
  if (text.substr(0, kShuffle.size()) != kShuffle) return std::nullopt;
  const auto seed = ParseNumber<uint64_t>(text.substr(kShuffle.size()));
  return seed ? std::optional(PackOrder{true, *seed}) : std::nullopt;
}

std::optional<LogLevel> ParseLogLevel(std::string_view text) {
  if (text == "debug") return LogLevel::kDebug;
  if (text == "info") return LogLevel::kInfo;
  if (text == "warn") return LogLevel::kWarn;
  if (text == "error") return LogLevel::kError;
  return std::nullopt;
}

}  // namespace pcrfs
