#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "cache/cache_folder.h"
#include "cache/catalog_builder.h"
#include "fs/file_system.h"
#include "mount/commands/commands.h"
#include "mount/console.h"
#include "mount/daemon.h"
#include "mount/dataset_walk.h"
#include "mount/logging.h"
#include "mount/mount_point.h"
#include "mount/refresher.h"
#include "mount/service_notice.h"
#include "mount/session.h"

namespace pcrfs {
namespace {

// Says how the start went, once; false: nobody waits for the mount any more.
using Ready = std::function<bool(int status, const std::string& sentence)>;

tl::unexpected<Error> Advised(const Error& error, const std::string& advice) {
  return Fail(error.code, error.message + "; " + advice);
}

// A path that cannot be made absolute, since the working directory is gone, stays as it is and leads nowhere.
std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::string absolute = path.empty() ? path : std::filesystem::absolute(path, error).string();
  return error ? path : absolute;
}

// What lies under the mount point is out of reach while the mount is there: shards are opened by their paths when they
// are first read; and a log or a catalog that was made there would be in the way of the next mount.
Result<void> CheckNotBeneath(const std::string& what, const std::string& path, const std::string& mount_point) {
  std::error_code error;
  const std::string place = std::filesystem::weakly_canonical(path, error).string();
  if (path.empty() || error || !LiesIn(place, mount_point)) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "the mount point " + Quoted(mount_point) + " would hide the " + what + " " + Quoted(path));
}

// The daemon's working directory is "/", so paths are made absolute while they still mean what the user typed.
Result<MountCommand> WithAbsolutePaths(MountCommand command) {
  auto mount_point = ResolveMountPoint(command.mount_point);
  if (!mount_point && mount_point.error().code == ErrorCode::kNotFound)
    return Advised(mount_point.error(), "make it with 'mkdir -p' and try again");
  if (!mount_point) return PassOn(std::move(mount_point));
  command.mount_point = *std::move(mount_point);
  command.dataset = Absolute(command.dataset);
  command.cache_dir = Absolute(command.cache_dir);
  command.log_file = Absolute(command.log_file);
  const std::string cache = Absolute(NamedCacheFolder(command.cache_dir));
  if (auto apart = CheckNotBeneath("log file", command.log_file, command.mount_point); !apart)
    return PassOn(std::move(apart));
  if (auto apart = CheckNotBeneath("cache folder", cache, command.mount_point); !apart) return PassOn(std::move(apart));
  return command;
}

Result<std::unique_ptr<Catalog>> OpenCatalog(const Dataset& dataset, const MountCommand& command) {
  const auto folder = CacheFolder(command.cache_dir);
  if (!folder) return Advised(folder.error(), "--cache-dir names another folder for catalogs");
  ProgressLine line;
  const auto show = [&](const CatalogProgress& progress) {
    if (line.Due())
      line.Show("reading indexes: shard " + std::to_string(progress.shards_done) + " of " +
                std::to_string(progress.shards_total));
  };
  auto catalog =
      OpenOrBuildCatalog(dataset, *folder, show, command.catalog_reuse ? CatalogReuse::kAllowed : CatalogReuse::kNone);
  if (catalog) return catalog;
  const Error& error = catalog.error();
  // Shards are refused in the same ways; the sentence names what it was, and the folder as a whole or what is in it.
  std::string named = Quoted(*folder);
  named.pop_back();
  const bool about_folder = error.message.find(named) != std::string::npos;
  if (error.code == ErrorCode::kNoSpace)
    return Advised(error, "--cache-dir names a folder with more room for catalogs");
  if (about_folder) return Advised(error, "--cache-dir names another folder for catalogs");
  return catalog;
}

Result<std::unique_ptr<FileSystem>> FileSystemOf(Dataset dataset, const MountCommand& command, FaultLog& faults) {
  auto catalog = OpenCatalog(dataset, command);
  if (!catalog) return PassOn(std::move(catalog));
  const MountView view{command.tree, command.uid.value_or(getuid()), command.gid.value_or(getgid()), command.umask,
                       command.restore_memory};
  return FileSystem::Open(
      std::move(dataset), *std::move(catalog), view,
      [&faults](const Error& fault, std::optional<uint32_t> shard) { faults.Report(fault.message, shard); });
}

Result<std::unique_ptr<FileSystem>> OpenFileSystem(const MountCommand& command, FaultLog& faults) {
  auto dataset = Dataset::Open(command.dataset);
  if (!dataset) return PassOn(std::move(dataset));
  // What is checked fast is checked before what may take long.
  if (auto apart = CheckNotBeneath("data set", dataset->path(), command.mount_point); !apart)
    return PassOn(std::move(apart));
  if (auto prepared = PrepareMountPoint(command.mount_point, command.nonempty); !prepared)
    return PassOn(std::move(prepared));
  return FileSystemOf(*std::move(dataset), command, faults);
}

// Of a mount that is up; null when the data set is still the one that it shows.
Result<std::unique_ptr<FileSystem>> OpenAgain(MountCommand command, const FileSystem& current, FaultLog& faults) {
  auto dataset = Dataset::Open(command.dataset);
  if (!dataset) return PassOn(std::move(dataset));
  if (auto apart = CheckNotBeneath("data set", dataset->path(), command.mount_point); !apart)
    return PassOn(std::move(apart));
  const auto same = [](const ShardRow& row, const ShardStamp& stamp) {
    return row.id == stamp.id && row.name == stamp.name;
  };
  if (std::ranges::equal(dataset->index().rows, current.catalog().shards(), same)) return nullptr;
  command.catalog_reuse = true;
  return FileSystemOf(*std::move(dataset), command, faults);
}

std::string ShownTree(Tree tree) {
  return tree.is_original() ? "the sources' own bytes" : "level " + std::to_string(tree.number());
}

std::string AllTrees(int levels) {
  return "levels 1 to " + std::to_string(levels) + (HasTree(levels, Tree::Original()) ? " and original" : "");
}

std::string MountedSentence(const MountCommand& command, const FileSystem& files) {
  const CatalogTotals& totals = files.catalog().totals();
  return Quoted(command.dataset) + " is mounted on " + Quoted(command.mount_point) + ": " +
         Counted(totals.images + totals.opaque_files, "file") + ", " +
         (command.tree ? ShownTree(*command.tree) : AllTrees(totals.levels));
}

// The mount point is checked again: much can have happened while the catalog was built.
Result<std::unique_ptr<Session>> MountAlone(MountState& state, const MountCommand& command) {
  const auto lock = PrepareMountPoint(command.mount_point, command.nonempty);
  if (!lock) return tl::unexpected(lock.error());
  return Session::Mount(
      state, {command.mount_point, command.dataset, command.allow_other, command.noexec, command.max_threads});
}

ControlFacts Facts(const MountCommand& command, const FileSystem& files) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {command.dataset, files.levels(), command.tree,
          std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()};
}

// When reads hang in the store: nothing of ours can make them return.
[[noreturn]] void EndWithoutWaiting(const std::string& mount_point) {
  static std::mutex once;
  once.lock();
  NotifyStopping();
  Log(LogLevel::kError, Quoted(mount_point) + " is unmounted, and reads of its data set that hang were not waited for");
  StopLogging();
  _exit(kExitFailed);
}

// From the data set to the mount and, when that is taken down again, back.
Result<void> ServeMount(const MountCommand& command, const Ready& ready) {
  // Before any other thread starts. Who closes the terminal of a foreground mount ends it, unless nohup was asked for.
  StopSignals signals(command.foreground);
  if (auto logging = StartLogging(command.log_file, command.log_level, command.foreground); !logging) return logging;
  FaultLog faults([](std::string_view line) { Log(LogLevel::kError, line); });
  auto opened = OpenFileSystem(command, faults);
  if (!opened) return tl::unexpected(opened.error());
  const std::string sentence = MountedSentence(command, **opened);
  ControlFacts facts = Facts(command, **opened);
  // Nobody but the state holds it, so that it is closed once refreshes have replaced it.
  MountState state(std::shared_ptr<const FileSystem>(*std::move(opened)), std::move(facts));
  const auto session = MountAlone(state, command);
  if (!session) return tl::unexpected(session.error());
  Refresher refresher(state.generations, **session,
                      [&](const FileSystem& current) { return OpenAgain(command, current, faults); });
  state.refresh = [&](RefreshDone done) { refresher.Ask(std::move(done)); };
  const auto stop = [&] {
    refresher.Quiet();
    if ((*session)->Stop()) return;
    faults.Flush();
    EndWithoutWaiting(command.mount_point);
  };
  signals.Attach(stop, [&] { refresher.Ask([](const RefreshOutcome&) {}); });

  Result<void> probed;
  std::thread attendant([&] {
    probed = (*session)->Probe();
    if (probed && ready(kExitDone, sentence)) (*session)->AwaitEnd();
    stop();
  });
  auto served = (*session)->Serve();
  signals.Attach([] {});  // it is stopping
  NotifyStopping();
  const auto unmounted = (*session)->Unmount();
  attendant.join();
  faults.Flush();
  if (probed && unmounted)
    Log(LogLevel::kInfo, Quoted(command.mount_point) + " is unmounted");
  else if (probed)
    Log(LogLevel::kWarn, unmounted.error().message);
  if (!refresher.End()) {  // it is opening a data set, which cannot be cut short
    StopLogging();
    _exit(probed && served ? kExitDone : kExitFailed);
  }
  if (!probed) return probed;
  return served;
}

int ServeInForeground(const MountCommand& command) {
  const auto served = ServeMount(command, [](int, const std::string& sentence) {
    Log(LogLevel::kInfo, sentence);
    NotifyReady(getpid(), sentence);
    return true;
  });
  if (!served) {
    NotifyFailed(served.error().message);
    Complain(served.error().message);
  }
  StopLogging();
  return served ? kExitDone : kExitFailed;
}

int ServeInBackground(const MountCommand& command, StartReport& report) {
  bool reported = false;
  const auto served = ServeMount(command, [&](int status, const std::string& sentence) {
    Log(LogLevel::kInfo, sentence);
    reported = true;
    return report.Send(status, sentence);
  });
  if (!served) {
    Log(LogLevel::kError, served.error().message);
    if (!reported) (void)report.Send(kExitFailed, served.error().message);
  }
  StopLogging();
  return served ? kExitDone : kExitFailed;
}

}  // namespace

Result<int> Run(const MountCommand& given) {
  if (given.fake) return kExitDone;
  const auto command = WithAbsolutePaths(given);
  if (!command) return tl::unexpected(command.error());
  if (command->remount) return Remount(*command, given);
  if (command->foreground) return ServeInForeground(*command);
  const auto outcome = RunInBackground([&](StartReport& report) { return ServeInBackground(*command, report); },
                                       PassedDescriptor(command->mount_point));
  if (!outcome) return tl::unexpected(outcome.error());
  if (outcome->status != kExitDone) {
    NotifyFailed(outcome->sentence);
    return Fail(ErrorCode::kIo, outcome->sentence);
  }
  NotifyReady(outcome->process, outcome->sentence);
  // It is mounted, whether or not there is anyone to tell.
  if (!command->quiet) (void)Print("pcrfs: " + outcome->sentence + "\n");
  return kExitDone;
}

}  // namespace pcrfs
