#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "format/worker_threads.h"
#include "fs/restored_images.h"
#include "mount/commands/commands.h"
#include "mount/console.h"
#include "mount/dataset_walk.h"
#include "mount/timespec.h"

namespace pcrfs {
namespace {

// Set-user-id and its like are not given back: whoever extracts becomes the owner.
constexpr mode_t kModeBits = 0777;

std::array<timespec, 2> Times(const Attributes& attributes) {
  const timespec mtime = ToTimespec(attributes.mtime_ns);
  return {mtime, mtime};
}

// A data set holds its shards and nothing else.
Result<void> CheckApart(const std::string& dataset, const std::string& destination) {
  std::error_code error;
  std::string real = std::filesystem::weakly_canonical(std::filesystem::absolute(destination, error), error);
  if (error) return SystemFail("cannot find the folder " + Quoted(destination), error.value());
  while (real.size() > 1 && real.back() == '/') real.pop_back();
  if (!LiesIn(real, dataset) && !LiesIn(dataset, real)) return {};
  return Fail(ErrorCode::kInvalidArgument, "the data set " + Quoted(dataset) + " and the folder to extract into, " +
                                               Quoted(real) + ", must not contain one another");
}

// DEST, made when missing, refused when anything is in it.
Result<UniqueFd> OpenDestination(const std::string& path) {
  if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST)
    return SystemFail("cannot make the folder " + Quoted(path), errno);
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return SystemFail("cannot open the folder " + Quoted(path), errno);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()), closedir);
  if (folder == nullptr) return SystemFail("cannot list the folder " + Quoted(path), errno);
  while (const dirent* entry = readdir(folder.get()))
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
      return Fail(ErrorCode::kExists, "the folder " + Quoted(path) + " is not empty; extract into an empty or new one");
  return fd;
}

Result<void> WriteAll(int fd, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t size = write(fd, bytes.data(), bytes.size());
    if (size >= 0)
      bytes = bytes.subspan(static_cast<size_t>(size));
    else if (errno != EINTR)
      return SystemFail("cannot write", errno);
  }
  return {};
}

// A file of DEST while it is written: under a name of its own, in DEST itself, until all of it is right. (Not beside
// its place, since a name may have no room for a suffix.) Dropped before Commit, it is removed.
class PartialFile {
 public:
  explicit PartialFile(int folder) : folder_(folder) {}
  ~PartialFile() {
    if (fd_.valid()) unlinkat(folder_, name_.c_str(), 0);
  }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  Result<void> Open() {
    for (int i = 0; !fd_.valid(); ++i) {
      name_ = ".pcrfs-" + std::to_string(getpid()) + "-" + std::to_string(i);
      fd_ = UniqueFd(openat(folder_, name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
      if (!fd_.valid() && errno != EEXIST) return SystemFail("cannot make a file", errno);
    }
    return {};
  }

  Result<void> Write(ByteSpan bytes) { return WriteAll(fd_.get(), bytes); }

  // Gives it its attributes and its name, which must be free: two entries of one path would hide one another.
  Result<void> Commit(const std::string& path, const Attributes& attributes) {
    if (fchmod(fd_.get(), attributes.mode & kModeBits) != 0) return SystemFail("cannot set the mode", errno);
    if (futimens(fd_.get(), Times(attributes).data()) != 0) return SystemFail("cannot set the time", errno);
    struct stat there {};
    if (fstatat(folder_, path.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0)
      return Fail(ErrorCode::kDamaged, "the data set holds this path twice");
    if (renameat(folder_, name_.c_str(), folder_, path.c_str()) != 0) return SystemFail("cannot rename", errno);
    fd_.reset();
    return {};
  }

 private:
  int folder_;
  std::string name_;
  UniqueFd fd_;
};

class Extraction {
 public:
  Extraction(const Dataset& dataset, Tree tree, UniqueFd folder)
      : dataset_(dataset), tree_(tree), folder_(std::move(folder)) {}

  // An error that ends it all, such as a full disk; damaged entries are reported, left out and counted.
  Result<void> Run() {
    auto walked = ForEachShard(dataset_, [&](const IndexedShard& shard) -> Result<void> {
      if (auto made = MakeDirectories(shard.index); !made) return PassOn(std::move(made));
      if (auto done = ExtractEntries(shard); !done) return PassOn(std::move(done));
      ++shards_;
      return {};
    });
    line_.Clear();
    if (!walked) return walked;
    return FinishDirectories();
  }

  [[nodiscard]] uint64_t files() const { return files_; }
  [[nodiscard]] uint64_t failed() const { return failed_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  Result<void> MakeDirectories(const ShardIndex& index) {
    directories_.emplace("", index.directory_attributes[0]);
    for (size_t i = 0; i < index.directories.size(); ++i) {
      const std::string& path = index.directories[i];
      if (!directories_.emplace(path, index.directory_attributes[i + 1]).second) continue;
      if (mkdirat(folder_.get(), path.c_str(), 0700) != 0)
        return SystemFail("cannot make the folder " + Quoted(path), errno);
    }
    return {};
  }

  // Restoring takes processors, copying only the disk. The first error ends it.
  Result<void> ExtractEntries(const IndexedShard& shard) {
    const std::vector<Entry>& entries = shard.index.entries;
    std::atomic<size_t> next = 0;
    Result<void> outcome;
    RunOnThreads(tree_.is_original() ? 0 : 1, [&] {
      for (size_t i = next++; i < entries.size(); i = next++) {
        auto done = ExtractEntry(shard, entries[i]);
        if (done) continue;
        next = entries.size();
        const std::lock_guard lock(mutex_);
        if (outcome) outcome = std::move(done);
      }
    });
    return outcome;
  }

  Result<void> ExtractEntry(const IndexedShard& shard, const Entry& entry) {
    const std::string path = EntryPath(shard.index, entry);
    PartialFile file(folder_.get());
    Result<void> written = file.Open();
    if (!written) return WithContext(Quoted(path), written.error());
    uint64_t size = 0;
    const auto read = StreamEntry(dataset_, {*shard.source, entry}, tree_, gate_, [&](ByteSpan bytes) {
      size += bytes.size();
      return written = file.Write(bytes);
    });
    if (!written) return WithContext(Quoted(path), written.error());
    const std::lock_guard lock(mutex_);
    bytes_ += size;
    if (!read) {
      line_.Clear();
      Complain("left out " + Quoted(path) + ": " + read.error().message);
      ++failed_;
      return {};
    }
    if (auto committed = file.Commit(path, entry.attributes); !committed)
      return WithContext(Quoted(path), committed.error());
    ++files_;
    if (line_.Due())
      line_.Show("shard " + std::to_string(shards_ + 1) + " of " + std::to_string(dataset_.shard_count()) + ", " +
                 Counted(files_, "file") + ", " + HumanBytes(static_cast<double>(bytes_)));
    return {};
  }

  // Last, and children before their parents: writing into a folder changes its time, and its mode may forbid it.
  Result<void> FinishDirectories() {
    for (auto at = directories_.rbegin(); at != directories_.rend(); ++at) {
      const auto& [path, attributes] = *at;
      const char* name = path.empty() ? "." : path.c_str();
      if (fchmodat(folder_.get(), name, attributes.mode & kModeBits, 0) != 0 ||
          utimensat(folder_.get(), name, Times(attributes).data(), 0) != 0)
        return SystemFail("cannot set mode and time of the folder " + Quoted(path), errno);
    }
    return {};
  }

  const Dataset& dataset_;
  Tree tree_;
  MemoryGate gate_{kDefaultRestoreMemory};
  UniqueFd folder_;
  std::map<std::string, Attributes> directories_;  // made so far; of several shards the first counts
  std::mutex mutex_;                               // of what follows
  ProgressLine line_;
  uint64_t shards_ = 0, files_ = 0, failed_ = 0, bytes_ = 0;
};

}  // namespace

Result<int> Run(const ExtractCommand& command) {
  const auto dataset = Dataset::Open(command.dataset);
  if (!dataset) return tl::unexpected(dataset.error());
  const auto tree = ChooseTree(*dataset, command.tree);
  if (!tree) return tl::unexpected(tree.error());
  if (auto apart = CheckApart(dataset->path(), command.destination); !apart) return PassOn(std::move(apart));
  auto folder = OpenDestination(command.destination);
  if (!folder) return PassOn(std::move(folder));
  Extraction extraction(*dataset, *tree, *std::move(folder));
  if (auto done = extraction.Run(); !done) {
    return Fail(done.error().code, "extraction stopped: " + done.error().message + "; " + Quoted(command.destination) +
                                       " holds what was written until then: empty it before the next try");
  }
  if (extraction.failed() > 0)
    return Fail(ErrorCode::kDamaged, "left out " + Counted(extraction.failed(), "file") +
                                         " that could not be read; 'pcrfs verify' tells more");
  if (isatty(STDERR_FILENO) == 1)
    std::fprintf(stderr, "Extracted %s, %s.\n", Counted(extraction.files(), "file").c_str(),
                 HumanBytes(static_cast<double>(extraction.bytes())).c_str());
  return kExitDone;
}

}  // namespace pcrfs
