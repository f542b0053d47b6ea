#include "mount/refresher.h"

#include <set>
#include <utility>

#include "mount/logging.h"

namespace pcrfs {
namespace {

constexpr std::chrono::seconds kPatience{2};

RefreshOutcome Outcome(RefreshStatus status, const std::string& sentence) {
  RefreshOutcome outcome;
  outcome.status = static_cast<uint32_t>(status);
  sentence.copy(outcome.sentence, sizeof outcome.sentence - 1);  // the last byte stays NUL
  return outcome;
}

// Folders up to `same` that hold something behind it.
Result<void> AddFoldersThatDiffer(const Catalog& catalog, Node same, std::set<Node>& folders) {
  NodeInfo info;
  for (Node node = same + 1; node <= catalog.totals().nodes; ++node) {
    if (auto got = catalog.Get(node, info); !got) return got;
    if (info.parent <= same) folders.insert(info.parent);
  }
  return {};
}

}  // namespace

Refresher::Refresher(Generations& generations, Session& session, Opener open)
    : generations_(generations), session_(session), open_(std::move(open)), thread_([this] { Work(); }) {}

Refresher::~Refresher() {
  Quiet();
  thread_.join();
}

void Refresher::Ask(RefreshDone done) {
  {
    const std::lock_guard lock(mutex_);
    if (!quiet_) {
      asked_.push_back(std::move(done));
      changed_.notify_all();
      return;
    }
  }
  done(Outcome(RefreshStatus::kFailed, "the mount is being taken down"));
}

void Refresher::Quiet() {
  std::unique_lock lock(mutex_);
  quiet_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, kPatience, [&] { return !telling_; });
}

bool Refresher::End() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] { return ended_; });
}

void Refresher::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return quiet_ || !asked_.empty(); });
    std::vector<RefreshDone> asked = std::exchange(asked_, {});
    const bool last = quiet_;
    lock.unlock();
    RefreshOutcome outcome = Outcome(RefreshStatus::kFailed, "the mount is being taken down");
    try {
      if (!last) outcome = Refresh();
    } catch (const std::bad_alloc&) {
      outcome = Outcome(RefreshStatus::kFailed, "out of memory");
    }
    for (const RefreshDone& done : asked) done(outcome);
    lock.lock();
    if (!last) continue;
    ended_ = true;
    changed_.notify_all();
    return;
  }
}

RefreshOutcome Refresher::Refresh() {
  const auto fail = [](const Error& error) {
    const std::string sentence = error.message + "; the mount shows what it showed before";
    Log(LogLevel::kError, "refresh: " + sentence);
    return Outcome(RefreshStatus::kFailed, sentence);
  };
  auto files = open_(generations_.Current()->files());
  if (!files) return fail(files.error());
  if (*files == nullptr) return Outcome(RefreshStatus::kNothingNew, "the mount shows the data set as it is already");
  {
    const std::lock_guard lock(mutex_);
    if (quiet_) return Outcome(RefreshStatus::kFailed, "the mount is being taken down");
    telling_ = true;
  }
  const auto change = generations_.Replace(std::shared_ptr<const FileSystem>(*std::move(files)));
  const auto forgotten = change ? Forget(*change) : Result<bool>(true);
  {
    const std::lock_guard lock(mutex_);
    telling_ = false;
    changed_.notify_all();
  }
  if (!change) return fail(change.error());
  if (!forgotten) {
    const std::string sentence =
        "the mount shows the data set as it is now, but names that were looked up before may "
        "still show what they showed: " +
        forgotten.error().message;
    Log(LogLevel::kWarn, "refresh: " + sentence);
    return Outcome(RefreshStatus::kFailed, sentence);
  }
  const CatalogTotals& totals = change->now->files().catalog().totals();
  const std::string sentence =
      "the mount shows the data set as it is now: " + std::to_string(totals.images + totals.opaque_files) + " files";
  Log(LogLevel::kInfo, "refresh: " + sentence);
  return Outcome(RefreshStatus::kDone, sentence);
}

// False when it was told to stop in the middle of it.
Result<bool> Refresher::Forget(const Generations::Change& change) {
  const FileSystem& before = change.before->files();
  const FileSystem& now = change.now->files();
  std::set<Node> folders{kRootNode};  // whose own attributes are the first shard's
  for (const FileSystem* files : {&before, &now})
    if (auto added = AddFoldersThatDiffer(files->catalog(), change.same, folders); !added)
      return PassOn(std::move(added));
  for (const Ino ino : {kMountRoot, kCurrentLink}) session_.ForgetInode(ino.number());
  for (const Node folder : folders) {
    {
      const std::lock_guard lock(mutex_);
      if (quiet_) return false;
    }
    if (auto forgot = ForgetBelow(change, folder); !forgot) return PassOn(std::move(forgot));
  }
  return true;
}

Result<void> Refresher::ForgetBelow(const Generations::Change& change, Node folder) {
  std::vector<uint64_t> ids;  // of the folder in those trees in which the kernel has it
  for (const Tree tree : change.now->files().Trees())
    if (const uint64_t id = change.now->NodeId(change.now->files().InoOf(folder, tree)); session_.ForgetInode(id))
      ids.push_back(id);
  if (ids.empty()) return {};
  for (const Generation* generation : {change.before.get(), change.now.get()}) {
    auto listed = generation->files().catalog().List(folder, change.same, [&](const DirectoryItem& item) {
      for (const uint64_t id : ids) session_.ForgetEntry(id, item.name);
      return true;
    });
    if (!listed) return listed;
  }
  for (const uint64_t id : ids) session_.ForgetInode(id);
  return {};
}

}  // namespace pcrfs
