#include "cache/catalog_builder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <future>
#include <map>
#include <mutex>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cache/cache_folder.h"
#include "cache/catalog_head.h"
#include "cache/catalog_writer.h"
#include "format/bytes.h"
#include "format/checksum.h"
#include "format/file.h"
#include "format/worker_threads.h"

namespace pcrfs {
namespace {

// How often a build starts anew because its folder was deleted under it, and before that the making of the folder.
constexpr int kAttempts = 3;
constexpr int kAttemptsToLock = 100;

constexpr std::string_view kTemporarySuffix = ".tmp";

// Indexes that are read at once, by number and by encoded size.
constexpr size_t kIndexesAtOnce = 8;
constexpr uint64_t kIndexBytesAtOnce = uint64_t{8} << 20;

// How many threads look at the shards of a data set: one for so many shards, but no more than that.
constexpr size_t kShardsAThread = 8;
constexpr size_t kThreadsThatStamp = 32;

using Progress = std::function<void(const CatalogProgress&)>;

Result<ShardStamp> StampShard(const Dataset& dataset, size_t position) {
  const std::string path = dataset.ShardPath(position);
  struct stat status;
  if (stat(path.c_str(), &status) == 0) return StampOf(dataset.index().rows[position], status);
  if (errno != ENOENT) return SystemFail("looking at shard " + Quoted(path), errno);
  return Fail(ErrorCode::kNotFound,
              "shard " + Quoted(path) + " of the data set is missing; copy it back from where the data set came from");
}

// Many at a time: a file system on a network takes milliseconds for each. The error is that of the first in row order.
Result<std::vector<ShardStamp>> StampShards(const Dataset& dataset) {
  std::vector<ShardStamp> stamps(dataset.shard_count());
  std::atomic<size_t> next{0}, end{stamps.size()};  // at and beyond `end` nothing matters any more
  std::mutex mutex;
  Error failure;
  const size_t threads = std::clamp<size_t>(stamps.size() / kShardsAThread, 1, kThreadsThatStamp);
  RunOnThreads(static_cast<unsigned>(threads), [&] {
    for (size_t at = next++; at < end; at = next++) {
      auto stamp = StampShard(dataset, at);
      if (stamp) {
        stamps[at] = *std::move(stamp);
        continue;
      }
      const std::lock_guard lock(mutex);
      if (at >= end) continue;
      end = at;
      failure = std::move(stamp).error();
    }
  });
  if (end < stamps.size()) return tl::unexpected<Error>(std::move(failure));
  return stamps;
}

// Another data set at the same path another day has another folder, and a data set that was appended to keeps its own.
std::string FolderName(const Dataset& dataset) {
  ByteWriter identity;
  identity.Append(dataset.path());
  identity.U8(0);
  identity.U64(dataset.index().paths_hash);
  return Hex(ByteSpan(Sha256::Of(identity.bytes())).first(16));
}

// Keeps other builders of a data set out for as long as it lives, unless its file is deleted.
class FolderLock {
 public:
  // Makes `folder` in `cache_folder`, and both anew when they are deleted meanwhile.
  static Result<FolderLock> Take(const std::string& cache_folder, const std::string& folder) {
    FolderLock lock(folder + "/lock");
    bool ever_made = false;
    for (int attempt = 1;; ++attempt) {
      auto taken = lock.TryTake(cache_folder, folder);
      if (!taken && taken.error().code != ErrorCode::kNotFound) return PassOn(std::move(taken));
      if (taken && lock.Holds()) return lock;
      ever_made = ever_made || taken.has_value();
      if (attempt < kAttemptsToLock) continue;
      if (ever_made || !CheckOwnFolder(cache_folder)) return DeletedAgain(cache_folder);
      // As /proc says, of which nobody deletes anything.
      taken.error().code = ErrorCode::kPermission;
      taken.error().message += ", though " + Quoted(cache_folder) + " is there: its file system takes no new folders";
      return PassOn(std::move(taken));
    }
  }

  static tl::unexpected<Error> DeletedAgain(const std::string& cache_folder) {
    return Fail(ErrorCode::kBusy, "the cache folder " + Quoted(cache_folder) +
                                      " was deleted again and again while a catalog was built in it");
  }

  // False when the file, and with it most likely the folder, was deleted: then the lock keeps nobody out.
  [[nodiscard]] bool Holds() const {
    struct stat held, there;
    return fstat(fd_.get(), &held) == 0 && stat(path_.c_str(), &there) == 0 && held.st_dev == there.st_dev &&
           held.st_ino == there.st_ino;
  }

 private:
  explicit FolderLock(std::string path) : path_(std::move(path)) {}

  Result<void> TryTake(const std::string& cache_folder, const std::string& folder) {
    for (const std::string& path : {cache_folder, folder})
      if (auto made = MakeOwnFolder(path); !made) return made;
    fd_ = UniqueFd(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd_.valid()) return SystemFail("opening the lock file " + Quoted(path_), errno);
    while (flock(fd_.get(), LOCK_EX) != 0)
      if (errno != EINTR) return SystemFail("locking " + Quoted(path_), errno);
    return {};
  }

  std::string path_;
  UniqueFd fd_;
};

// A file that is removed again unless it was renamed. Its name is nobody else's: a builder whose folder was deleted
// under it, so that its lock keeps nobody out, must not rename what another is still writing.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& target)
      : path_(target + "." + std::to_string(std::random_device{}()) + std::string(kTemporarySuffix)) {}
  ~TemporaryFile() {
    if (!path_.empty()) unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  Result<void> RenameTo(const std::string& target) {
    if (std::rename(path_.c_str(), target.c_str()) != 0) return SystemFail("renaming " + Quoted(path_), errno);
    path_.clear();
    return {};
  }

 private:
  std::string path_;
};

// What builders that were killed left in `folder`. One that goes on without a lock fails for it, and begins anew.
void RemoveTemporaryFiles(const std::string& folder) {
  const std::string begin = std::string(kCatalogFile) + ".";
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    if (name.starts_with(begin) && name.ends_with(kTemporarySuffix)) unlink(at->path().c_str());
  }
}

// A folder cannot be renamed over. An empty one goes; what is in another is not ours to delete.
Result<void> ClearWay(const std::string& path) {
  if (rmdir(path.c_str()) == 0 || errno == ENOENT || errno == ENOTDIR) return {};
  return SystemFail("a folder lies at " + Quoted(path) + ", where a file of the catalog belongs; delete it", errno);
}

class Build {
 public:
  // `before` is the catalog to take unchanged shards from, or null.
  Build(const Dataset& dataset, std::vector<ShardStamp> stamps, const Catalog* before)
      : dataset_(dataset), stamps_(std::move(stamps)), before_(before) {
    if (before == nullptr) return;
    for (size_t i = 0; i < before->shards().size(); ++i) before_positions_.emplace(before->shards()[i].id, i);
  }

  Result<void> Run(const std::string& folder, const Progress& on_progress) {
    const std::string catalog = folder + "/" + std::string(kCatalogFile);
    const std::string head = folder + "/" + std::string(kCatalogHeadFile);
    for (const std::string& path : {catalog, head, head + std::string(kTemporarySuffix)})
      if (auto clear = ClearWay(path); !clear) return clear;
    RemoveTemporaryFiles(folder);
    TemporaryFile temporary(catalog);
    auto totals = WriteCatalog(temporary.path(), on_progress);
    if (!totals) return PassOn(std::move(totals));
    const auto file = FileSource::Open(temporary.path(), FileSource::Access::kSequential);
    if (!file) return tl::unexpected<Error>(file.error());
    auto crcs = CatalogFileCrcs(**file);
    if (!crcs) return PassOn(std::move(crcs));
    // In this order: a head that does not fit its catalog is seen, and built anew.
    if (auto renamed = temporary.RenameTo(catalog); !renamed) return renamed;
    return WriteHead(head, {(*file)->size(), *std::move(crcs), *std::move(totals), std::move(stamps_)});
  }

 private:
  Result<CatalogTotals> WriteCatalog(const std::string& path, const Progress& on_progress) {
    auto writer = CatalogWriter::Create(path, dataset_.levels());
    if (!writer) return PassOn(std::move(writer));
    std::deque<std::future<Result<ShardIndex>>> reading;  // of shards i, i + 1, ...
    for (size_t i = 0; i < stamps_.size(); ++i) {
      ReadAhead(i, reading);
      const auto index = reading.front().get();
      reading.pop_front();
      if (!index) return tl::unexpected<Error>(index.error());
      if (auto added = writer->AddShard(stamps_[i].name, *index); !added) return PassOn(std::move(added));
      if (on_progress) on_progress({i + 1, stamps_.size()});
    }
    return writer->Finish();
  }

  // A file system on a network answers many at once; large indexes are read one by one, for the memory they take.
  void ReadAhead(size_t first, std::deque<std::future<Result<ShardIndex>>>& reading) {
    const std::vector<ShardRow>& rows = dataset_.index().rows;
    uint64_t bytes = 0;
    for (size_t i = first; i < rows.size() && i < first + kIndexesAtOnce; ++i) {
      bytes += rows[i].index_length;
      if (i > first && bytes > kIndexBytesAtOnce) return;
      if (i == first + reading.size())
        reading.push_back(std::async(std::launch::async | std::launch::deferred, [this, i] { return IndexOf(i); }));
    }
  }

  // Called for different positions at once.
  Result<ShardIndex> IndexOf(size_t position) {
    const auto known = before_positions_.find(stamps_[position].id);
    if (known != before_positions_.end() && before_->shards()[known->second] == stamps_[position])
      if (auto index = before_->ReadShard(known->second); index) return index;
    const auto shard = dataset_.OpenShard(position);
    if (!shard) return tl::unexpected<Error>(shard.error());
    stamps_[position] = StampOf(dataset_.index().rows[position], (*shard)->status());
    return dataset_.ReadShardIndex(position, **shard);
  }

  static Result<void> WriteHead(const std::string& path, const CatalogHead& head) {
    auto file = AtomicFile::Create(path);
    if (!file) return PassOn(std::move(file));
    if (fchmod(file->fd(), 0600) != 0) return SystemFail("writing " + Quoted(path), errno);
    if (auto written = file->Write(EncodeCatalogHead(head)); !written) return written;
    return file->Commit();
  }

  const Dataset& dataset_;
  std::vector<ShardStamp> stamps_;
  const Catalog* before_;
  std::map<ShardId, size_t> before_positions_;
};

bool HeadIsCurrent(const std::string& folder, const std::vector<ShardStamp>& stamps) {
  const auto head = ReadCatalogHead(folder);
  return head && head->shards == stamps;
}

Result<std::unique_ptr<Catalog>> BuildAndOpen(const Dataset& dataset, const std::vector<ShardStamp>& stamps,
                                              const std::string& folder, const Catalog* before,
                                              const Progress& on_progress, CatalogReuse reuse) {
  // Of several mounts at once one builds, and the others find what it built.
  if (reuse == CatalogReuse::kAllowed && HeadIsCurrent(folder, stamps))
    if (auto opened = Catalog::Open(folder); opened) return opened;
  if (auto built = Build(dataset, stamps, before).Run(folder, on_progress); !built) return PassOn(std::move(built));
  auto opened = Catalog::Open(folder);
  if (!opened)
    return Fail(ErrorCode::kBusy, "the catalog that was just built in " + Quoted(folder) +
                                      " was changed by somebody else: " + opened.error().message);
  return opened;
}

}  // namespace

ShardStamp StampOf(const ShardRow& row, const struct stat& status) {
  // Unsigned, so that a time centuries away wraps and is not undefined.
  const uint64_t mtime =
      static_cast<uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(status.st_mtim.tv_nsec);
  return {row.name, static_cast<uint64_t>(status.st_size), static_cast<int64_t>(mtime), row.id};
}

Result<std::unique_ptr<Catalog>> OpenOrBuildCatalog(const Dataset& dataset, const std::string& cache_folder,
                                                    const Progress& on_progress, CatalogReuse reuse) {
  const auto stamps = StampShards(dataset);
  if (!stamps) return tl::unexpected<Error>(stamps.error());
  if (auto own = CheckOwnFolder(cache_folder); !own && own.error().code != ErrorCode::kNotFound)
    return PassOn(std::move(own));
  const std::string folder = cache_folder + "/" + FolderName(dataset);
  std::unique_ptr<Catalog> before;
  if (reuse == CatalogReuse::kAllowed)
    if (auto opened = Catalog::Open(folder); opened) before = *std::move(opened);
  if (before != nullptr && before->shards() == *stamps) return before;
  for (int attempt = 1;; ++attempt) {
    const auto lock = FolderLock::Take(cache_folder, folder);
    if (!lock) return tl::unexpected<Error>(lock.error());
    auto built = BuildAndOpen(dataset, *stamps, folder, before.get(), on_progress, reuse);
    // Deleting the cache is allowed at any time, also now; then what was being built is nowhere, or another builder
    // that knows of no lock has put its own beside it.
    const bool deleted = !lock->Holds();
    if (built || (!deleted && built.error().code != ErrorCode::kBusy)) return built;
    if (attempt == kAttempts) return deleted ? FolderLock::DeletedAgain(cache_folder) : std::move(built);
  }
}

}  // namespace pcrfs
