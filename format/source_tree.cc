#include "format/source_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>
#include <utility>

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

// The names in an open folder, sorted and each once, though a folder that changes meanwhile may give one twice.
Result<std::vector<std::string>> ReadNames(int folder) {
  const int own = fcntl(folder, F_DUPFD_CLOEXEC, 0);  // closedir closes it
  std::unique_ptr<DIR, CloseDirectory> directory(own < 0 ? nullptr : fdopendir(own));
  if (!directory) {
    const int error = errno;
    if (own >= 0) close(own);
    return SystemFail("cannot be listed", error);
  }
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const struct dirent* entry = readdir(directory.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return SystemFail("cannot be listed", errno);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace

Attributes AttributesOf(const struct stat& status) { return {status.st_mode & 07777, Nanoseconds(status.st_mtim)}; }

SourceTree::SourceTree(UniqueFd root, std::optional<FileIdentity> exclude, OnSkipped on_skipped)
    : root_(std::move(root)), exclude_(exclude), on_skipped_(std::move(on_skipped)) {}

Result<SourceTree> SourceTree::Open(const std::string& source, std::optional<FileIdentity> exclude,
                                    OnSkipped on_skipped) {
  UniqueFd root(open(source.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return SystemFail("cannot open the source folder " + Quoted(source), errno);
  SourceTree tree(std::move(root), exclude, std::move(on_skipped));
  if (auto entered = tree.Enter(""); !entered)
    return Fail(ErrorCode::kIo, "source folder " + Quoted(source) + ": " + entered.error().detail);
  Folder& top = tree.above_.back();
  top.announced = true;
  tree.ready_.push_back({SourceKind::kFolder, "", 0, top.attributes});
  return tree;
}

std::optional<SourceRecord> SourceTree::Next() {
  while (ready_.empty() && !above_.empty()) {
    Folder& folder = above_.back();
    if (folder.next_child == folder.children.size()) {
      Leave();
      continue;
    }
    Child child = std::move(folder.children[folder.next_child++]);
    const bool is_folder = child.key.back() == '/';
    if (is_folder) child.key.pop_back();
    std::string path = Joined(folder.path, child.key);
    if (!is_folder)
      Announce({SourceKind::kFile, std::move(path), child.size, child.attributes});
    else if (auto entered = Enter(path); !entered)
      on_skipped_(path, entered.error());
  }
  if (ready_.empty()) return std::nullopt;
  SourceRecord record = std::move(ready_.front());
  ready_.pop_front();
  return record;
}

// Lists a folder and makes it the current one.
tl::expected<void, Skipped> SourceTree::Enter(const std::string& path) {
  const auto skip = [](SkipReason reason, std::string detail) {
    return tl::unexpected<Skipped>({reason, std::move(detail)});
  };
  const UniqueFd fd(openat(root_.get(), path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status;
  if (!fd.valid() || fstat(fd.get(), &status) != 0)
    return skip(SkipReason::kUnreadable, SystemFail("cannot be opened", errno).value().message);
  const FileIdentity identity = IdentityOf(status);
  if (identity == exclude_) return skip(SkipReason::kDataset, "it is the data set that is being written");
  for (const Folder& folder : above_)
    if (folder.identity == identity)
      return skip(SkipReason::kBrokenLink, "a symbolic link leads back to " +
                                               (folder.path.empty() ? "the source folder" : Quoted(folder.path)) +
                                               ", which holds it");
  auto children = ListChildren(fd.get(), path);
  if (!children) return skip(SkipReason::kUnreadable, std::move(children.error().message));
  above_.push_back({path, AttributesOf(status), identity, std::move(*children), 0, false});
  return {};
}

Result<std::vector<SourceTree::Child>> SourceTree::ListChildren(int fd, const std::string& path) const {
  auto names = ReadNames(fd);
  if (!names) return PassOn(std::move(names));
  std::vector<Child> children;
  for (const std::string& name : *names)
    if (auto child = Inspect(fd, path, name)) children.push_back(std::move(*child));
  std::sort(children.begin(), children.end(), [](const Child& a, const Child& b) { return a.key < b.key; });
  return children;
}

// What `name` is, links followed; nothing, and a report, when it cannot be packed.
std::optional<SourceTree::Child> SourceTree::Inspect(int fd, const std::string& path, const std::string& name) const {
  const std::string full = Joined(path, name);
  const auto skip = [&](SkipReason reason, std::string detail) {
    on_skipped_(full, {reason, std::move(detail)});
    return std::nullopt;
  };
  if (name.size() > kMaxNameBytes) return skip(SkipReason::kOverLimits, "its name is longer than 255 bytes");
  if (full.size() > kMaxPathBytes) return skip(SkipReason::kOverLimits, "its path is longer than 4,095 bytes");
  struct stat status;
  if (fstatat(fd, name.c_str(), &status, 0) != 0) {
    const int error = errno;
    struct stat link;
    const bool dangling = error == ENOENT && fstatat(fd, name.c_str(), &link, AT_SYMLINK_NOFOLLOW) == 0;
    if (dangling) return skip(SkipReason::kBrokenLink, "it is a symbolic link to something that does not exist");
    if (error == ELOOP) return skip(SkipReason::kBrokenLink, "it is a symbolic link that leads in a circle");
    return skip(SkipReason::kUnreadable, SystemFail("it cannot be looked at", error).value().message);
  }
  const Attributes attributes = AttributesOf(status);
  if (S_ISDIR(status.st_mode)) return Child{name + '/', 0, attributes};
  if (!S_ISREG(status.st_mode)) return skip(SkipReason::kSpecialFile, WhatItIs(status.st_mode));
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size > kMaxSourceBytes) return skip(SkipReason::kOverLimits, "it is larger than the format holds, 4 TiB");
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
  const Folder folder = std::move(above_.back());
  above_.pop_back();
  if (!folder.announced) Announce({SourceKind::kEmptyFolder, folder.path, 0, folder.attributes});
}

}  // namespace pcrfs
