#include "tests/support/mount_fixture.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "cache/catalog_builder.h"
#include "format/dataset.h"
#include "format/file.h"
#include "fs/dataset_shards.h"
#include "mount/mount_point.h"

namespace pcrfs::testing {
namespace {

// Where a sanitizer reports to, in the test's folder; it puts its process's number behind.
constexpr std::string_view kReportName = "sanitizer";

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "mount fixture: %s\n", why.c_str());
  std::abort();
}

template <typename T>
T Must(Result<T> result) {
  if (!result) Die(result.error().message);
  return *std::move(result);
}

void RequireFuse() {
  if (access("/dev/fuse", R_OK | W_OK) != 0)
    Die("these tests mount through /dev/fuse, which cannot be opened here; give the container --device /dev/fuse");
}

void MountGone(const std::string& path) {
  if (FindMount(path)) umount2(path.c_str(), MNT_DETACH);
}

std::string Text(const std::string& path) {
  const Bytes bytes = ReadFile(path);
  return std::string(AsText(bytes));
}

// A file of /proc, whose process may end at any moment: then what there was, or nothing. (A stream would throw.)
std::string ProcText(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> part;
  for (ssize_t size = 0; fd.valid() && (size = read(fd.get(), part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<size_t>(size));
  return text;
}

}  // namespace

ProgramResult RunProgram(const std::vector<std::string>& words) {
  const TempDir folder;
  const std::string out = folder / "out", err = folder / "err";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT, 0600);
  std::vector<std::string> copies = words;
  std::vector<char*> arguments;
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ) != 0)
    Die("cannot run " + words[0]);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), Text(out), Text(err)};
}

bool Eventually(const std::function<bool()>& is_so) {
  for (int i = 0; i < 1000; ++i) {
    if (is_so()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

bool IsRunning(pid_t process) {
  const std::string text = ProcText("/proc/" + std::to_string(process) + "/stat");
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text.compare(name_end, 3, ") Z") != 0;
}

std::vector<std::string> FilesBelow(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path().string().substr(folder.size() + 1));
  std::sort(files.begin(), files.end());
  return files;
}

PackedPhotos::PackedPhotos(const PhotoFolder& spec, const PackOptions& options,
                           const std::function<void(const std::string& source)>& add) {
  MakePhotoFolder(source(), spec);
  if (add) add(source());
  PackForTest(source(), dataset(), options);
  if (mkdir(mount_point().c_str(), 0755) != 0) Die("cannot make " + mount_point());
}

PackedPhotos::~PackedPhotos() {
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    if (entry.path().filename().string().starts_with(kReportName)) Die(Text(entry.path()));
}

std::vector<std::string> PackedPhotos::Environment() const {
  std::vector<std::string> words = {"env", "PCRFS_CACHE_DIR=" + cache()};
  for (const char* name : {"ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"}) {
    const char* set = std::getenv(name);
    // A daemon whose reads hang in the store ends without their threads.
    words.push_back(std::string(name) + "=" + (set == nullptr ? "" : set) +
                    ":report_thread_leaks=0:log_path=" + folder_ / kReportName);
  }
  return words;
}

ProgramResult PackedPhotos::Pcrfs(std::vector<std::string> arguments) const {
  std::vector<std::string> words = Environment();
  words.push_back(PCRFS_PROGRAM);
  words.insert(words.end(), arguments.begin(), arguments.end());
  return RunProgram(words);
}

ProgramResult PackedPhotos::RunAlone(const std::string& script) const {
  static constexpr char kPreamble[] = R"(
    set -eu; umask 022
    umount -c -i -l -a -t fuse.pcrfs || :
    mkdir -m 777 -p "$scratch"
  )";
  return RunProgram({"env", "PCRFS_CACHE_DIR=" + cache(), std::string("pcrfs=") + PCRFS_PROGRAM, "dataset=" + dataset(),
                     "mount=" + mount_point(), "scratch=" + folder_ / "scratch", "unshare", "--mount", "sh", "-c",
                     kPreamble + script});
}

std::vector<pid_t> ProcessesOf(const std::string& mount_point) {
  std::vector<pid_t> processes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string words = ProcText(entry.path() / "cmdline");
    // NUL-terminated words; the test programs themselves never have this mount point among theirs.
    if (words.find('\0' + mount_point + '\0') != std::string::npos) processes.push_back(std::atoi(name.c_str()));
  }
  return processes;
}

BackgroundMount::BackgroundMount(const PackedPhotos& photos, std::vector<std::string> options)
    : path_(photos.mount_point()), dataset_(photos.dataset()) {
  RequireFuse();
  options.insert(options.begin(), {"mount", dataset_, path_});
  if (std::getenv("PCRFS_TEST_FOREGROUND") != nullptr) {
    MountInForeground(photos, std::move(options));
    return;
  }
  const ProgramResult mounted = photos.Pcrfs(options);
  if (mounted.status != 0) Die("pcrfs mount: " + mounted.err);
}

// A shell starts it and goes, so that it is nobody's child here, as a daemon is not.
void BackgroundMount::MountInForeground(const PackedPhotos& photos, std::vector<std::string> options) {
  const std::string err = photos / "foreground.err";
  std::vector<std::string> words = photos.Environment();
  for (const std::string& word :
       {std::string("sh"), std::string("-c"), std::string(R"(err=$1; shift; "$@" >/dev/null 2>"$err" &)"),
        std::string("sh"), err, std::string(PCRFS_PROGRAM)})
    words.push_back(word);
  words.insert(words.end(), options.begin(), options.end());
  words.push_back("-f");
  (void)RunProgram(words);
  struct statfs seen {};
  const bool up = Eventually([&] { return FindMount(path_) && statfs(path_.c_str(), &seen) == 0; });
  if (!up) Die("pcrfs mount -f: " + Text(err));
}

BackgroundMount::~BackgroundMount() { MountGone(path_); }

pid_t BackgroundMount::daemon() const {
  const std::vector<pid_t> processes = ProcessesOf(path_);
  return processes.empty() ? 0 : processes.front();
}

std::unique_ptr<FileSystem> OpenFileSystem(const PackedPhotos& photos, const MountView& view, FaultObserver on_fault,
                                           const SourceWrapper& wrap, const ShardSetOptions& options) {
  std::filesystem::create_directory(photos.cache());
  std::filesystem::permissions(photos.cache(), std::filesystem::perms::owner_all);
  Dataset dataset = Must(Dataset::Open(photos.dataset()));
  auto catalog = Must(OpenOrBuildCatalog(dataset, photos.cache(), [](const CatalogProgress&) {}));
  if (!wrap) return Must(FileSystem::Open(std::move(dataset), std::move(catalog), view, std::move(on_fault)));
  auto facts = FactsOf(dataset);
  auto open = [wrap, below = OpenerOf(std::move(dataset), catalog->shards())](size_t position) {
    return below(position).map(wrap);
  };
  auto shards = std::make_unique<ShardSet>(std::move(facts), std::move(open), options);
  return std::make_unique<FileSystem>(std::move(catalog), std::move(shards), view, std::move(on_fault));
}

SessionMount::SessionMount(const PackedPhotos& photos, const MountView& view)
    : SessionMount(photos, OpenFileSystem(photos, view)) {}

SessionMount::SessionMount(const PackedPhotos& photos, std::unique_ptr<FileSystem> files, unsigned max_threads)
    : path_(photos.mount_point()), files_(std::move(files)), state_(std::make_unique<MountState>(*files_)) {
  RequireFuse();
  SessionOptions options;
  options.mount_point = path_;
  options.source = photos.dataset();
  options.max_threads = max_threads;
  session_ = Must(Session::Mount(*state_, options));
  server_ = std::thread([this] {
    if (auto served = session_->Serve(); !served) Die(served.error().message);
  });
  if (auto works = session_->Probe(); !works) Die(works.error().message);
}

SessionMount::~SessionMount() { Stop(); }

void SessionMount::Stop() {
  if (!server_.joinable()) return;
  session_->Stop();
  server_.join();
  session_->Unmount();
}

}  // namespace pcrfs::testing
