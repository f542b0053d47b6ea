#include "mount/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <utility>

#include "format/parse_number.h"
#include "mount/edit_options.h"

namespace pcrfs {
namespace {

constexpr char kMountFooter[] = R"(Options for -o (a list, and -o may be repeated):
  level=K            show the tree of level K itself at MOUNTPOINT instead of scan1, scan2, ... and current
  level=original     the same for the sources' own bytes
  uid=N, gid=N       owner of everything (default: whoever mounts)
  umask=NNN          permission bits to take away, octal
  allow_other        let other users in, as far as modes allow (needs user_allow_other in /etc/fuse.conf unless root)
  nonempty           mount over a folder that is not empty
  noexec             no file may be executed
  max_threads=N      requests served at a time (default 256)
  restore_memory=SIZE  memory for restoring sources' bytes (default 256MiB); an image that takes more has it alone
  cache_dir=DIR, log_file=FILE, log_level=LEVEL   as the long options
Of options that contradict one another the last one counts. The mount is always ro, nosuid, nodev and
default_permissions; a remount that would change it is refused. Accepted without effect, for fstab's sake: rw, dev, suid,
exec, auto, user, _netdev, nofail, noatime, x-*, comment= and their kin.
SIGTERM, SIGINT and SIGQUIT unmount. SIGHUP does with -f, as a closed terminal sends it; to a daemon in the background
it means 'pcrfs refresh'. A mount that is in use vanishes from the tree, and what is open in it fails from then on,
reads that hang in a slow disk after two seconds. 'pcrfs umount' leaves a mount that is in use alone, and returns when
the daemon has ended.
In fstab:  DATASET MOUNTPOINT fuse.pcrfs ro,allow_other,_netdev,nofail 0 0)";

constexpr char kInfoFooter[] =
    R"(Shards do not store why a file is opaque, kept whole at every level: the reasons are worked out again from the files,
as 'pcrfs pack' gives them, for at most 256 MiB of opaque JPEGs and some ten seconds. The report that 'pcrfs pack
--report' writes has them all, file by file.)";

constexpr char kManifestFooter[] =
    R"(One line a file, in storage order, as sha256sum writes them, so that
  cd SOURCE && pcrfs manifest DATASET | sha256sum -c
checks a source folder; likewise original/ of a mount, when the data set was packed with --exact.)";

constexpr char kPackFooter[] =
    R"(A GLOB without '/' is compared with the name of every file and folder, one that holds a '/' with the whole path from
SOURCE. '*' and '?' stand for anything but '/', '[...]' and '\' are as in a shell, '**' between slashes stands for any
folders; with '/' at its end a GLOB is for folders only. What lies below an excluded folder is left out, too:
  --exclude '.*' --exclude '*.tmp' --exclude /val/ --exclude 'train/**/thumbs'
The report has one JSON object a line, by path, for each file but those that were converted and can be restored:
  path      relative to SOURCE; where it is not UTF-8, what is not is U+FFFD, and path_hex has all its bytes as hex
  kind      converted (not restorable), kept (as it was), opaque (whole, the same at every level), skipped,
            packed_before (with --append)
  reason    of converted: not_restorable; of kept: progressive
            of opaque: not_jpeg, unsupported, damaged, incomplete, markers_between, too_large, proof_failed,
            not_restorable (with --exact)
            of skipped: unreadable, vanished, changed, special_file, broken_link, over_limits, late, data_set,
            conflict (a file here and a folder there, with --append or in an archive, which may have a path twice, too),
            outside (of an archive: a path with '..')
            of packed_before (with --append): changed, gone
  detail    a sentence
It appears whole, just before the data set does, or not at all. That of a continued pack speaks of all files, too, also
of those that were packed before the interruption; only of a file that cannot be restored and has left SOURCE since, the
detail is lost. --strict and the counts printed at the end are those of the whole pack, too.
With --json-progress, lines come on standard output once a second, with the phase first: {"phase":"listing"} with files
and bytes so far, {"phase":"packing"} with files_done, files_total, bytes_done, bytes_total, bytes_per_second and
seconds_left, and at the end {"phase":"done"} with the summary's counts, of a dry run {"phase":"estimate"}.)";

constexpr char kProgramFooter[] =
    R"('pcrfs DATASET MOUNTPOINT [-f] [-o ...]', without a command, mounts, too, as mount(8) has it: -n, -s, -v, -t TYPE and
-N NAMESPACE are accepted without effect. -f is --foreground; called as mount.pcrfs or mount.fuse.pcrfs, it only
pretends, and without -v nothing is said when all is well.
'pcrfs COMMAND --help' tells all about a command.
A path that starts with '-' stands behind '--', as in 'pcrfs cat DATASET -- -x.jpg'.
Sizes are in bytes, or with KiB, MiB, GiB, kB, MB, GB behind the number.
Exit status: 0 done, 1 failed, 2 usage, 3 data damaged or not the source's (verify) or, with pack --strict, damaged sources or skipped files.)";

constexpr std::pair<LogLevel, std::string_view> kLogLevels[] = {
    {LogLevel::kDebug, "debug"}, {LogLevel::kInfo, "info"}, {LogLevel::kWarn, "warn"}, {LogLevel::kError, "error"}};

constexpr char kListFooter[] =
    R"(Columns: mount point, data set, level shown (or "all"), pid of the daemon, and, unless it serves, what is wrong:
  dead             the daemon has ended; 'pcrfs umount' takes the mount down, 'pcrfs mount' replaces it
  not answering    the daemon did not answer within three seconds
  no access        another user's mount (its uid is told); only that user and root may ask it
  hidden           another mount lies over it
  unknown          a part of a mount, shown elsewhere, or another version of pcrfs
Only mounts of this mount namespace are listed: not those inside containers, and inside one not the machine's.)";

constexpr char kLogLevelFooter[] =
    R"(For root and the user who runs the mount's daemon. Mounting anew brings the old level back.)";

// An option whose text `parse` turns into an optional value; nothing is a usage error that says what was expected.
template <typename Value, typename Parse>
CLI::Option* AddParsed(CLI::App& app, const std::string& name, Value& value, Parse parse, const std::string& help,
                       const std::string& expected) {
  const auto assign = [&value, parse, name, expected](const std::string& text) {
    const auto parsed = parse(text);
    if (!parsed)
      throw CLI::ValidationError(name.substr(0, name.find(',')), "expected " + expected + ", not " + Quoted(text));
    value = *parsed;
  };
  return app.add_option_function<std::string>(name, assign, help);
}

void AddTree(CLI::App& app, std::optional<Tree>& tree) {
  const auto parse = [](std::string_view text) -> std::optional<Tree> {
    const auto number = ParseNumber<int>(text, 1, Level::kMaximum);
    return number ? Tree::FromNumber(*number) : std::nullopt;
  };
  CLI::Option* level = AddParsed(app, "--level", tree, parse, "Level of fidelity, as in scanK (default: the highest)",
                                 "a level from 1 to 31")
                           ->type_name("K");
  app.add_flag_callback(
         "--original", [&tree] { tree = Tree::Original(); }, "The sources' own bytes, as in original")
      ->excludes(level);
}

void AddJobs(CLI::App& app, unsigned& jobs) {
  const auto parse = [](std::string_view text) { return ParseNumber<unsigned>(text, 1, 1024); };
  AddParsed(app, "--jobs,-j", jobs, parse, "Worker threads, 1 to 1024 (default: one a processor)",
            "a number of threads from 1 to 1024")
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
  return size && *size >= 1 && *size <= kMaxRecordBytes ? size : std::nullopt;
}

void Define(CLI::App& app, PackCommand& command) {
  app.add_option("SOURCE", command.source,
                 "Folder of images and other files; or a tar (plain, gz, bz2, xz, zst) or zip; or - for a "
                 "tar on standard input")
      ->required()
      ->type_name("");
  app.add_option("DATASET", command.dataset, "Folder to make; an interrupted pack of the same SOURCE is continued")
      ->required()
      ->type_name("");
  AddJobs(app, command.options.jobs);
  const auto parse_images = [](std::string_view text) { return ParseNumber<uint32_t>(text, 1, 65536); };
  AddParsed(app, "--record-images", command.options.record_images, parse_images,
            "Files and empty folders a shard at most, 1 to 65536 (default 256)", "a number from 1 to 65536")
      ->each([&command](const std::string&) { command.given_record_images = true; })
      ->type_name("N");
  AddParsed(app, "--record-bytes", command.options.record_bytes, ParseRecordBytes,
            "Source bytes a shard at most, 1 byte to 1GiB; a larger file is a shard of its own (default 64MiB)",
            "a size from 1 byte to 1GiB, such as 64MiB")
      ->each([&command](const std::string&) { command.given_record_bytes = true; })
      ->type_name("SIZE");
  AddParsed(app, "--order", command.options.order, ParsePackOrder,
            "Order of files in shards: path, shuffle or shuffle:SEED (default path)", "path, shuffle or shuffle:SEED")
      ->each([&command](const std::string&) { command.given_order = true; })
      ->type_name("ORDER");
  const auto exclude = [&command](const std::vector<std::string>& globs) {
    auto list = ExcludeList::Of(globs);
    if (!list) throw CLI::ValidationError("--exclude", list.error().message);
    command.options.exclude = *std::move(list);
  };
  app.add_option_function<std::vector<std::string>>("--exclude", exclude,
                                                    "Leave out what the glob matches, below; may be repeated")
      ->allow_extra_args(false)
      ->type_name("GLOB");
  app.add_flag("--append", command.append,
               "Add to the data set what is new in SOURCE, as new shards, with the options it was packed with; files "
               "that changed or are gone in SOURCE are reported and stay as they are packed");
  app.add_flag("--exact", command.options.encode.exact,
               "Keep whole whatever would not come back byte for byte, so that every source file does");
  app.add_flag("--nested", command.options.nested,
               "Open archives inside the archive SOURCE, each as a folder of its name without suffix");
  app.add_flag(
      "--rescan", command.options.encode.rescan,
      "Convert progressive JPEGs too, whose own scans may leave low levels blurred; their files' own bytes are "
      "then gone. With --exact they are kept as they are");
  app.add_flag("--strict", command.strict,
               "Exit with status 3 if a JPEG was kept whole because it is damaged or incomplete, or anything was "
               "skipped; the data set is complete all the same");
  app.add_option("--report", command.report, "Write there what became of each file that is not an ordinary conversion")
      ->type_name("FILE");
  app.add_flag("--dry-run", command.dry_run,
               "Write nothing: count what would be packed, try some files, and estimate size and time");
  app.add_flag("--json-progress", command.json_progress,
               "Print progress and the summary as JSON, an object a line, below");
  app.footer(kPackFooter);
}

// Mount options come as text and are applied when parsing is over, so that text and order of options do not matter.
struct MountText {
  std::vector<std::string> lists;
  bool ignored_flag = false, verbose = false;
  std::string ignored_value;
};

void Define(CLI::App& app, MountCommand& command, MountText& text, bool as_helper) {
  AddDataset(app, command.dataset);
  app.add_option("MOUNTPOINT", command.mount_point, "Empty folder to mount on")->required()->type_name("");
  app.add_option("-o", text.lists, "Mount options, below")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("OPT[,OPT...]");
  app.add_option("--cache-dir", command.cache_dir, "Local folder for catalogs (default: by $PCRFS_CACHE_DIR and user)")
      ->type_name("DIR");
  app.add_flag("!--no-catalog-reuse", command.catalog_reuse, "Build the catalog anew, even if a usable one is there");
  app.add_option("--log-file", command.log_file, "Log there (default: stderr with -f, else syslog)")->type_name("FILE");
  AddParsed(app, "--log-level", command.log_level, ParseLogLevel, "debug, info, warn or error (default info)",
            "debug, info, warn or error")
      ->type_name("LEVEL");
  if (as_helper)
    app.add_flag("-f", command.fake, "Check the command line only");
  else
    app.add_flag("-f,--foreground", command.foreground, "Stay in the foreground and log to stderr");
  app.footer(kMountFooter);
}

// What mount(8) gives its helpers, and those hand on, besides -o and -f.
void AcceptHelperOptions(CLI::App& mount, MountText& text) {
  mount.add_flag("-s,-n", text.ignored_flag)->group("");
  mount.add_flag("-v", text.verbose)->group("");
  for (const char* option : {"-t", "-N"}) mount.add_option(option, text.ignored_value)->group("");
}

void Define(CLI::App& app, UmountCommand& command) {
  app.add_option("MOUNTPOINT", command.mount_point, "Where a data set is mounted")->required()->type_name("");
}

void Define(CLI::App& app, InfoCommand& command) {
  AddDataset(app, command.dataset);
  app.add_flag(
      "--json", command.json,
      "As one JSON object, with the keys format_version, images, opaque_files, directories, shards, stored_bytes,\n"
      "levels, a list of objects with the keys level, bytes, bytes_per_image and share, kinds, an object with the "
      "keys\n"
      "restorable, not_restorable, kept, opaque_not_jpeg and opaque_jpeg, and opaque_reasons, an object with a key "
      "for\n"
      "each reason that 'pcrfs pack --report' gives, and unknown");
  app.footer(kInfoFooter);
}

void Define(CLI::App& app, LsCommand& command) {
  AddDataset(app, command.dataset);
  AddPath(app, command.path, false);
  AddTree(app, command.tree);
  app.add_flag("-l", command.with_attributes,
               "Four columns: mode, size in bytes at the level, time of last change, name");
}

void Define(CLI::App& app, CatCommand& command) {
  AddDataset(app, command.dataset);
  AddPath(app, command.path, true);
  AddTree(app, command.tree);
}

void Define(CLI::App& app, ExtractCommand& command) {
  AddDataset(app, command.dataset);
  app.add_option("DEST", command.destination, "Folder to make, or an empty one")->required()->type_name("");
  AddTree(app, command.tree);
}

void Define(CLI::App& app, ListCommand& command) {
  app.add_flag("--json", command.json, "As a JSON array");
  app.footer(kListFooter);
}

void Define(CLI::App& app, LogLevelCommand& command) {
  app.add_option("MOUNTPOINT", command.mount_point, "Where a data set is mounted")->required()->type_name("");
  AddParsed(app, "LEVEL", command.level, ParseLogLevel, "debug, info, warn or error (default: print the current one)",
            "debug, info, warn or error")
      ->type_name("");
  app.footer(kLogLevelFooter);
}

void Define(CLI::App& app, VerifyCommand& command) {
  AddDataset(app, command.dataset);
  AddJobs(app, command.options.jobs);
  app.add_flag("--restore", command.options.restore,
               "Also restore every source that can be, and compare its SHA-256; takes as long as packing");
  app.add_option("--source", command.source,
                 "Then compare with the folder it was packed from: what is there and what is not, sizes and SHA-256 of "
                 "all files, and the pixels of converted images")
      ->type_name("SOURCE");
}

void Define(CLI::App& app, ManifestCommand& command) {
  AddDataset(app, command.dataset);
  app.footer(kManifestFooter);
}

// Adds a subcommand that, when the line names it, leaves its settings in `chosen`.
template <typename T, typename... More>
void AddCommand(CLI::App& app, const char* name, const char* help, std::optional<Command>& chosen, More&&... more) {
  auto command = std::make_shared<T>();
  CLI::App* subcommand = app.add_subcommand(name, help);
  subcommand->set_version_flag("--version,-V", app.version())->group("");
  subcommand->footer("");  // not the program's own
  Define(*subcommand, *command, more...);
  subcommand->callback([command, &chosen] { chosen = *command; });
}

// Whether a line means mount without saying so.
bool MeansMount(const std::vector<std::string>& words, const CLI::App& app) {
  if (words.size() < 2 || words[0] == "--help" || words[0] == "-h" || words[0] == "--version" || words[0] == "-V")
    return false;
  return app.get_subcommands([&](const CLI::App* command) { return command->get_name() == words[0]; }).empty();
}

// CLI11 takes the empty value of "--option=" for none and the next argument for the value; and no argument means
// anything when empty.
std::optional<std::string> EmptyArgument(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i)
    if (words[i].size() > 2 && words[i].substr(0, 2) == "--" && words[i].back() == '=')
      return words[i].substr(0, words[i].size() - 1) + " needs a value";
  const auto empty = std::find(words.begin(), words.end(), "");
  if (empty == words.end()) return std::nullopt;
  return empty == words.begin() ? "the first argument is empty"
                                : "the argument behind " + Quoted(*(empty - 1)) + " is empty";
}

// What CLI11 complains of, in the words of this program.
std::string Complaint(const CLI::ParseError& error, const CLI::App& app) {
  const std::string text = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    return text.substr(0, text.find(':')) + " needs a value";
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr ||
      dynamic_cast<const CLI::InvalidError*>(&error) != nullptr)
    return "an option was given a value that it does not take (" + text + ")";
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return text;
  const std::string first = app.remaining(true).front();
  return (first.size() > 1 && first[0] == '-' ? "unknown option " : "unexpected argument ") + Quoted(first);
}

EarlyExit UsageError(const std::string& sentence, const std::string& command) {
  return {kExitUsage, "pcrfs: " + sentence + "\nTry 'pcrfs" + (command.empty() ? "" : " " + command) + " --help'.\n"};
}

EarlyExit UsageError(const CLI::ParseError& error, const CLI::App& app, const std::vector<std::string>& words,
                     bool mount_meant) {
  const auto commands = app.get_subcommands();
  if (commands.empty())
    return UsageError(words.empty() ? "a command is required" : Quoted(words[0]) + " is no command of pcrfs", "");
  const bool too_many = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (mount_meant && too_many && words[0][0] != '-' && app.remaining(true).front()[0] != '-')
    return UsageError(
        Quoted(words[0]) + " is no command of pcrfs, and without one it takes DATASET and MOUNTPOINT only", "");
  return UsageError(Complaint(error, app), commands.front()->get_name());
}

}  // namespace

tl::expected<Command, EarlyExit> ParseCommandLine(const std::vector<std::string>& arguments) {
  const std::string& called = arguments.at(0);
  const bool as_helper = called.compare(called.rfind('/') + 1, 6, "mount.") == 0;
  CLI::App app(
      "Packs a folder of images into Progressive Compressed Record shards and mounts them as scan1, scan2, ...:\n"
      "ordinary JPEG files at ten levels of fidelity, nothing stored twice.",
      "pcrfs");
  app.set_version_flag("--version,-V", "pcrfs " PCRFS_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->label("REQUIRED", "");  // the usage line says so
  app.footer(kProgramFooter);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  std::optional<Command> chosen;
  MountText mount_text;
  AddCommand<PackCommand>(app, "pack", "Pack a folder into a data set", chosen);
  AddCommand<MountCommand>(app, "mount", "Show a data set as a file system", chosen, mount_text, as_helper);
  AddCommand<UmountCommand>(app, "umount", "Take a mount down", chosen);
  AddCommand<ListCommand>(app, "list", "List the mounts of data sets and how they are", chosen);
  AddCommand<LogLevelCommand>(app, "log-level", "Say or change how much a running mount logs", chosen);
  AddCommand<RemoveCommand>(app, "remove", "Remove files and folders from a data set", chosen);
  AddCommand<CompactCommand>(app, "compact", "Merge small shards, and delete those that were replaced", chosen);
  AddCommand<RefreshCommand>(app, "refresh", "Show a mount what its data set has become", chosen);
  AddCommand<InfoCommand>(app, "info", "Say what a data set holds, and how large each level is", chosen);
  AddCommand<LsCommand>(app, "ls", "List a folder of a data set", chosen);
  AddCommand<CatCommand>(app, "cat", "Write one file to standard output", chosen);
  AddCommand<ExtractCommand>(app, "extract", "Write all files into a folder, with modes and times", chosen);
  AddCommand<VerifyCommand>(app, "verify", "Check every byte of a data set against its checksums", chosen);
  AddCommand<ManifestCommand>(app, "manifest", "Print the sources' SHA-256 for 'sha256sum -c'", chosen);

  const std::vector<std::string> words(arguments.begin() + 1, arguments.end());
  if (const auto empty = EmptyArgument(words)) return tl::unexpected(UsageError(*empty, ""));
  const bool mount_meant = as_helper || MeansMount(words, app);
  std::vector<std::string> reversed(words.rbegin(), words.rend());  // as CLI11 wants them
  if (mount_meant) {
    AcceptHelperOptions(*app.get_subcommand("mount"), mount_text);
    reversed.emplace_back("mount");
  }
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForVersion& version) {
    return tl::unexpected(EarlyExit{kExitDone, std::string(version.what()) + "\n"});
  } catch (const CLI::CallForHelp&) {
    return tl::unexpected(EarlyExit{kExitDone, app.help()});
  } catch (const CLI::ParseError& error) {
    return tl::unexpected(UsageError(error, app, words, mount_meant));
  }
  if (auto* mount = std::get_if<MountCommand>(&*chosen)) mount->quiet = as_helper && !mount_text.verbose;
  for (const std::string& list : mount_text.lists)
    if (auto applied = ApplyMountOptions(list, std::get<MountCommand>(*chosen)); !applied)
      return tl::unexpected(UsageError(applied.error().message, "mount"));
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

std::optional<LogLevel> ParseLogLevel(std::string_view text) {
  for (const auto& [level, name] : kLogLevels)
    if (text == name) return level;
  return std::nullopt;
}

std::string_view LogLevelName(LogLevel level) {
  for (const auto& [known, name] : kLogLevels)
    if (known == level) return name;
  return "unknown";
}

}  // namespace pcrfs
