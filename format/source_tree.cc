#include "format/source_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <memory>
#include <system_error>
#include <utility>

#include "format/bytes.h"
#include "format/spool_text.h"

namespace pcrfs {
namespace {

constexpr int64_t kNanoseconds = 1'000'000'000;

// Seconds beyond what 64 bits of nanoseconds hold (years 1677 and 2262) become the nearest that fits.
int64_t Nanoseconds(const struct timespec& time) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / kNanoseconds - 1;
  return std::clamp<int64_t>(time.tv_sec, -kMost, kMost) * kNanoseconds + time.tv_nsec;
}

FileIdentity IdentityOf(const struct stat& status) { return {status.st_dev, status.st_ino}; }

std::string Joined(const std::string& folder, std::string_view name) {
  return folder.empty() ? std::string(name) : folder + '/' + std::string(name);
}

const char* WhatItIs(mode_t mode) {
  if (S_ISSOCK(mode)) return "it is a socket";
  if (S_ISFIFO(mode)) return "it is a FIFO";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "it is a device";
  return "it is neither a file nor a folder";
}

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

using Directory = std::unique_ptr<DIR, CloseDirectory>;

Directory OpenDirectory(int folder) {
  const int own = fcntl(folder, F_DUPFD_CLOEXEC, 0);  // closedir closes it
  Directory directory(own < 0 ? nullptr : fdopendir(own));
  if (!directory && own >= 0) {
    const int error = errno;
    close(own);
    errno = error;
  }
  return directory;
}

std::string SpoolPath(const std::string& path) {
  if (!path.empty()) return path;
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  return (error ? std::filesystem::path("/tmp") : folder) / "pcrfs";
}

}  // namespace

Attributes AttributesOf(const struct stat& status) { return {status.st_mode & 07777, Nanoseconds(status.st_mtim)}; }

Result<void> CheckSourceThere(int folder, const std::string& path) {
  struct stat opened, named;
  struct statvfs system;
  if (fstat(folder, &opened) != 0 || stat(path.c_str(), &named) != 0)
    return SystemFail("the source folder " + Quoted(path) + " cannot be reached any more", errno);
  if (opened.st_dev != named.st_dev || opened.st_ino != named.st_ino)
    return Fail(ErrorCode::kNotFound, "the source folder " + Quoted(path) + " was replaced meanwhile");
  // A network or FUSE file system whose server is gone may still answer stat from what the kernel remembers.
  if (fstatvfs(folder, &system) != 0 && errno != ENOSYS && errno != EACCES && errno != EPERM)
    return SystemFail("the file system of the source folder " + Quoted(path) + " cannot be reached any more", errno);
  return {};
}

SourceTree::SourceTree(UniqueFd root, std::string source, ListingOptions options, OnSkipped on_skipped)
    : root_(std::move(root)),
      source_(std::move(source)),
      options_(std::move(options)),
      on_skipped_(std::move(on_skipped)) {
  options_.spool = SpoolPath(options_.spool);
}

Result<SourceTree> SourceTree::Open(const std::string& source, ListingOptions options, OnSkipped on_skipped) {
  UniqueFd root(open(source.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return SystemFail("cannot open the source folder " + Quoted(source), errno);
  SourceTree tree(std::move(root), source, std::move(options), std::move(on_skipped));
  auto skipped = tree.Enter("");
  if (!skipped) return PassOn(std::move(skipped));
  if (*skipped) return Fail(ErrorCode::kIo, "source folder " + Quoted(source) + ": " + (*skipped)->detail);
  Folder& top = tree.above_.back();
  top.announced = true;
  tree.ready_.push_back({SourceKind::kFolder, "", 0, top.attributes});
  return tree;
}

Result<std::optional<SourceRecord>> SourceTree::Next() {
  while (ready_.empty() && !above_.empty()) {
    Folder& folder = above_.back();
    auto child = NextChild(folder);
    if (!child) return PassOn(std::move(child));
    if (!*child) {
      Leave();
      continue;
    }
    std::string& key = (*child)->key;
    const bool is_folder = key.back() == '/';
    if (is_folder) key.pop_back();
    std::string path = Joined(folder.path, key);
    if (!is_folder) {
      Announce({SourceKind::kFile, std::move(path), (*child)->size, (*child)->attributes});
      continue;
    }
    auto skipped = Enter(path);
    if (!skipped) return PassOn(std::move(skipped));
    if (*skipped) on_skipped_(path, **skipped);
  }
  if (ready_.empty()) return std::nullopt;
  SourceRecord record = std::move(ready_.front());
  ready_.pop_front();
  return record;
}

// Lists a folder and makes it the current one.
Result<std::optional<Skipped>> SourceTree::Enter(const std::string& path) {
  const UniqueFd fd(openat(root_.get(), path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status;
  if (!fd.valid() || fstat(fd.get(), &status) != 0) return Unreadable("it cannot be opened", errno);
  const FileIdentity identity = IdentityOf(status);
  if (identity == options_.leave_out) return Skipped{SkipReason::kDataset, "it is the data set that is being written"};
  for (const Folder& folder : above_)
    if (folder.identity == identity)
      return Skipped{SkipReason::kBrokenLink, "a symbolic link leads back to " +
                                                  (folder.path.empty() ? "the source folder" : Quoted(folder.path)) +
                                                  ", which holds it"};
  SortedSpool children(options_.spool, options_.memory);
  auto skipped = ListChildren(fd.get(), path, children);
  if (!skipped || *skipped) return skipped;
  above_.push_back({path, AttributesOf(status), identity, std::move(children)});
  return std::nullopt;
}

Result<Skipped> SourceTree::Unreadable(std::string_view what, int error) const {
  auto failed = SystemFail(what, error).value();
  if (failed.code == ErrorCode::kShortage)
    return WithContext("listing the source folder " + Quoted(source_), std::move(failed));
  if (auto there = CheckSourceThere(root_.get(), source_); !there) return PassOn(std::move(there));
  return Skipped{failed.code == ErrorCode::kNotFound ? SkipReason::kVanished : SkipReason::kUnreadable,
                 std::move(failed.message)};
}

Result<std::optional<Skipped>> SourceTree::ListChildren(int fd, const std::string& path, SortedSpool& children) {
  const Directory directory = OpenDirectory(fd);
  if (!directory) return Unreadable("it cannot be listed", errno);
  ByteWriter value;
  while (true) {
    errno = 0;
    const struct dirent* entry = readdir(directory.get());
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    const auto child = Inspect(fd, path, name);
    if (!child) return tl::unexpected(child.error());
    if (!*child) continue;
    value.Clear();
    value.U64((*child)->size);
    AppendAttributes(value, (*child)->attributes);
    if (auto added = children.Add(AsBytes((*child)->key), value.bytes()); !added) return PassOn(std::move(added));
  }
  if (errno != 0) return Unreadable("it cannot be listed", errno);
  return std::nullopt;
}

// A folder that changes while it is listed may give a name twice.
Result<std::optional<SourceTree::Child>> SourceTree::NextChild(Folder& folder) {
  while (true) {
    auto record = folder.children.Next();
    if (!record) return PassOn(std::move(record));
    if (!*record) return std::nullopt;
    const std::string_view key = AsText((*record)->key);
    if (key == folder.last_key) continue;
    folder.last_key = key;
    ByteReader value((*record)->value);
    const uint64_t size = value.U64();
    return Child{folder.last_key, size, TakeAttributes(value)};
  }
}

// What `name` is, links followed; nothing, and a report, when it cannot be packed.
Result<std::optional<SourceTree::Child>> SourceTree::Inspect(int fd, const std::string& path, const std::string& name) {
  const std::string full = Joined(path, name);
  const auto skip = [&](SkipReason reason, std::string detail) {
    on_skipped_(full, {reason, std::move(detail)});
    return Result<std::optional<Child>>();
  };
  if (name.size() > kMaxNameBytes) return skip(SkipReason::kOverLimits, "its name is longer than 255 bytes");
  if (full.size() > kMaxPathBytes) return skip(SkipReason::kOverLimits, "its path is longer than 4,095 bytes");
  struct stat status;
  const bool there = fstatat(fd, name.c_str(), &status, 0) == 0;
  const int error = errno;
  if (options_.exclude.Excludes(full, there && S_ISDIR(status.st_mode))) {
    ++excluded_;
    return std::nullopt;
  }
  if (!there) {
    struct stat link;
    const bool dangling = error == ENOENT && fstatat(fd, name.c_str(), &link, AT_SYMLINK_NOFOLLOW) == 0;
    if (dangling) return skip(SkipReason::kBrokenLink, "it is a symbolic link to something that does not exist");
    if (error == ELOOP) return skip(SkipReason::kBrokenLink, "it is a symbolic link that leads in a circle");
    auto why = Unreadable("it cannot be looked at", error);
    if (!why) return PassOn(std::move(why));
    return skip(why->reason, std::move(why->detail));
  }
  const Attributes attributes = AttributesOf(status);
  if (S_ISDIR(status.st_mode)) return Child{name + '/', 0, attributes};
  if (!S_ISREG(status.st_mode)) return skip(SkipReason::kSpecialFile, WhatItIs(status.st_mode));
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size > kMaxSourceBytes) return skip(SkipReason::kOverLimits, "it is larger than the format holds, 4 TiB");
  if (options_.on_file) options_.on_file(size);
  return Child{name, size, attributes};
}

// Gives an item out, after those folders above it that have not been given out yet.
void SourceTree::Announce(SourceRecord item) {
  for (Folder& folder : above_)
    if (!std::exchange(folder.announced, true))
      ready_.push_back({SourceKind::kFolder, folder.path, 0, folder.attributes});
  ready_.push_back(std::move(item));
}

// Ends the current folder; one in which no item was found is an item itself.
void SourceTree::Leave() {
  Folder folder = std::move(above_.back());
  above_.pop_back();
  if (!folder.announced) Announce({SourceKind::kEmptyFolder, folder.path, 0, folder.attributes});
}

}  // namespace pcrfs
