#include "fs/file_system.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "fs/dataset_shards.h"
#include "fs/level_view.h"

namespace pcrfs {
namespace {

constexpr std::string_view kCurrentName = "current";
constexpr std::string_view kLevelPrefix = "scan";

constexpr mode_t kReadBits = 0444, kShownBits = 0555;

// Offsets of a listing: "." and "..", then 2 + the number that tells the child from its siblings and never changes.
constexpr uint64_t kDotOffset = 1, kDotDotOffset = 2, kFirstChildOffset = 2;

constexpr uint64_t kStatBlock = 512, kStatFsBlock = 4096;

uint64_t CeilDiv(uint64_t bytes, uint64_t unit) { return bytes / unit + (bytes % unit != 0 ? 1 : 0); }

std::string LevelName(Level level) { return std::string(kLevelPrefix) + std::to_string(level.number()); }

// The level that a name in the root of several levels means, written as LevelName writes it.
std::optional<Level> LevelOfName(std::string_view name, int levels) {
  if (!name.starts_with(kLevelPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kLevelPrefix.size());
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || number > levels) return std::nullopt;
  const auto level = Level::FromNumber(number);
  return level && LevelName(*level) == name ? level : std::nullopt;
}

tl::unexpected<Error> Stale(Ino ino) {
  return Fail(ErrorCode::kStale, "inode " + std::to_string(ino.number()) + " is none of this mount");
}

tl::unexpected<Error> NotDirectory() { return Fail(ErrorCode::kNotDirectory, "a file is no directory"); }

}  // namespace

// What an inode number means: the root above several levels, its symlink, or a node of one level's tree.
struct FileSystem::Place {
  enum class Kind : uint8_t { kLevels, kCurrent, kNode };
  Kind kind;
  Node node;
  Level level;  // of kLevels and kCurrent: the highest
};

FileSystem::FileSystem(std::unique_ptr<Catalog> catalog, std::unique_ptr<ShardSet> shards, MountView view,
                       FaultObserver on_fault)
    : catalog_(std::move(catalog)),
      store_(std::make_unique<StoreReader>(std::move(shards))),
      view_(view),
      on_fault_(std::move(on_fault)) {}

FileSystem::~FileSystem() = default;

Result<std::unique_ptr<FileSystem>> FileSystem::Open(Dataset dataset, std::unique_ptr<Catalog> catalog, MountView view,
                                                     FaultObserver on_fault) {
  if (view.root_level && view.root_level->number() > catalog->totals().levels)
    return Fail(ErrorCode::kInvalidArgument, "the data set " + Quoted(dataset.path()) + " has " +
                                                 std::to_string(catalog->totals().levels) + " levels, not " +
                                                 std::to_string(view.root_level->number()));
  const auto same = [](const ShardRow& row, const ShardStamp& stamp) { return row.id == stamp.id; };
  if (!std::ranges::equal(dataset.index().rows, catalog->shards(), same))
    return Fail(ErrorCode::kInvalidArgument, "the catalog is not that of data set " + Quoted(dataset.path()));
  auto facts = FactsOf(dataset);
  auto opener = OpenerOf(std::move(dataset), catalog->shards());
  auto shards = std::make_unique<ShardSet>(std::move(facts), std::move(opener), ShardSetOptions{});
  return std::make_unique<FileSystem>(std::move(catalog), std::move(shards), view, std::move(on_fault));
}

Level FileSystem::highest() const { return *Level::FromNumber(levels()); }

Result<FileSystem::Place> FileSystem::Locate(Ino ino) const {
  const bool one_level = view_.root_level.has_value();
  if (ino == kMountRoot)
    return one_level ? Place{Place::Kind::kNode, kRootNode, *view_.root_level}
                     : Place{Place::Kind::kLevels, 0, highest()};
  if (ino == kCurrentLink && !one_level) return Place{Place::Kind::kCurrent, 0, highest()};
  const auto level = Level::FromNumber(ino.level());
  // The root of a single level's tree has one number only, that of the mount's root.
  const bool shown = level && (one_level ? *level == *view_.root_level && ino.node() > kRootNode
                                         : level->number() <= levels() && ino.node() >= kRootNode);
  if (!shown || ino.node() > catalog_->totals().nodes) return Stale(ino);
  return Place{Place::Kind::kNode, ino.node(), *level};
}

Ino FileSystem::InoOf(uint64_t node, Level level) const {
  return node == kRootNode && view_.root_level ? kMountRoot : Ino(node, level.number());
}

Result<void> FileSystem::Describe(const Place& place, NodeInfo& info) const {
  auto got = catalog_->Get(place.node, info);
  if (got) return got;
  return CatalogFault(std::move(got).error());
}

Stat FileSystem::StatOf(const NodeInfo& info, Level level) const {
  Stat stat;
  stat.ino = InoOf(info.node, level);
  mode_t mode = info.attributes.mode & kShownBits;
  if (info.kind == NodeKind::kDirectory) {
    mode |= (mode & kReadBits) >> 2;
  } else {
    stat.type = FileType::kRegular;
    stat.size = SizeAtLevel(info.layout, level, levels());
  }
  stat.permissions = mode & ~view_.umask;
  stat.blocks = CeilDiv(stat.size, kStatBlock);
  stat.mtime_ns = info.attributes.mtime_ns;
  stat.uid = view_.uid;
  stat.gid = view_.gid;
  return stat;
}

// Like the data set's root, whatever that allows.
Result<Stat> FileSystem::StatOfLevels() const {
  NodeInfo root;
  if (auto got = Describe({Place::Kind::kNode, kRootNode, highest()}, root); !got) return PassOn(std::move(got));
  root.attributes.mode = kShownBits;
  Stat stat = StatOf(root, highest());
  stat.ino = kMountRoot;
  return stat;
}

Result<Stat> FileSystem::StatOfCurrent() const {
  auto stat = StatOfLevels();
  if (!stat) return stat;
  stat->ino = kCurrentLink;
  stat->type = FileType::kSymlink;
  stat->permissions = 0777;  // as of every symlink
  stat->size = LevelName(highest()).size();
  stat->blocks = CeilDiv(stat->size, kStatBlock);
  return stat;
}

Result<Stat> FileSystem::LookupLevel(std::string_view name) const {
  if (name == "..") return StatOfLevels();
  if (name == kCurrentName) return StatOfCurrent();
  if (const auto level = LevelOfName(name, levels())) return GetAttr(Ino(kRootNode, level->number()));
  return Fail(ErrorCode::kNotFound, "the mount's root holds no such level");
}

Result<Stat> FileSystem::Lookup(Ino parent, std::string_view name) const {
  if (name == ".") return GetAttr(parent);
  if (name.size() > kMaxNameBytes) return Fail(ErrorCode::kLimit, "a name of more than 255 bytes");
  const auto place = Locate(parent);
  if (!place) return tl::unexpected<Error>(place.error());
  if (place->kind == Place::Kind::kCurrent) return NotDirectory();
  if (place->kind == Place::Kind::kLevels) return LookupLevel(name);
  thread_local NodeInfo info;
  const auto found = catalog_->Find(place->node, name);
  if (found) return GetAttr(InoOf(*found, place->level));
  if (found.error().code != ErrorCode::kNotFound) return CatalogFault(found.error());
  if (auto described = Describe(*place, info); !described) return PassOn(std::move(described));
  if (info.kind != NodeKind::kDirectory) return NotDirectory();
  if (name != "..") return tl::unexpected<Error>(found.error());
  if (place->node == kRootNode) return GetAttr(kMountRoot);
  return GetAttr(InoOf(info.parent, place->level));
}

Result<Stat> FileSystem::GetAttr(Ino ino) const {
  const auto place = Locate(ino);
  if (!place) return tl::unexpected<Error>(place.error());
  if (place->kind == Place::Kind::kLevels) return StatOfLevels();
  if (place->kind == Place::Kind::kCurrent) return StatOfCurrent();
  thread_local NodeInfo info;
  if (auto described = Describe(*place, info); !described) return PassOn(std::move(described));
  return StatOf(info, place->level);
}

Result<std::string> FileSystem::ReadLink(Ino ino) const {
  const auto place = Locate(ino);
  if (!place) return tl::unexpected<Error>(place.error());
  if (place->kind != Place::Kind::kCurrent) return Fail(ErrorCode::kInvalidArgument, "no symbolic link");
  return LevelName(highest());
}

Result<void> FileSystem::ListLevels(uint64_t after, const std::function<bool(const DirEntry&)>& visit) const {
  const auto show = [&](Ino ino, FileType type, std::string_view name, uint64_t offset) {
    return offset <= after || visit({ino, type, name, offset});
  };
  if (!show(kMountRoot, FileType::kDirectory, ".", kDotOffset)) return {};
  if (!show(kMountRoot, FileType::kDirectory, "..", kDotDotOffset)) return {};
  for (int k = 1; k <= levels(); ++k) {
    const std::string name = LevelName(*Level::FromNumber(k));
    if (!show(Ino(kRootNode, k), FileType::kDirectory, name, kFirstChildOffset + static_cast<uint64_t>(k))) return {};
  }
  show(kCurrentLink, FileType::kSymlink, kCurrentName, kFirstChildOffset + kCurrentLink.number());
  return {};
}

Result<void> FileSystem::ListNode(const NodeInfo& info, Level level, uint64_t after,
                                  const std::function<bool(const DirEntry&)>& visit) const {
  const Ino self = InoOf(info.node, level), above = info.node == kRootNode ? kMountRoot : InoOf(info.parent, level);
  if (after < kDotOffset && !visit({self, FileType::kDirectory, ".", kDotOffset})) return {};
  if (after < kDotDotOffset && !visit({above, FileType::kDirectory, "..", kDotDotOffset})) return {};
  const uint64_t node = info.node, last = after > kFirstChildOffset ? after - kFirstChildOffset : 0;
  auto listed = catalog_->List(node, last, [&](const DirectoryItem& item) {
    const FileType type = item.kind == NodeKind::kDirectory ? FileType::kDirectory : FileType::kRegular;
    return visit({InoOf(item.node, level), type, item.name, kFirstChildOffset + item.node});
  });
  if (!listed) return CatalogFault(std::move(listed).error());
  return {};
}

Result<void> FileSystem::ReadDir(Ino ino, uint64_t after, const std::function<bool(const DirEntry&)>& visit) const {
  const auto place = Locate(ino);
  if (!place) return tl::unexpected<Error>(place.error());
  if (place->kind == Place::Kind::kLevels) return ListLevels(after, visit);
  if (place->kind == Place::Kind::kCurrent) return NotDirectory();
  NodeInfo info;
  if (auto described = Describe(*place, info); !described) return described;
  if (info.kind != NodeKind::kDirectory) return NotDirectory();
  return ListNode(info, place->level, after, visit);
}

Result<size_t> FileSystem::Read(Ino ino, uint64_t offset, MutableByteSpan out) const {
  return ReadFile(ino, offset, out, Waiting::kMay);
}

std::optional<size_t> FileSystem::ReadAtHand(Ino ino, uint64_t offset, MutableByteSpan out) const {
  const auto read = ReadFile(ino, offset, out, Waiting::kNever);
  return read ? std::optional(*read) : std::nullopt;
}

Result<size_t> FileSystem::ReadFile(Ino ino, uint64_t offset, MutableByteSpan out, Waiting waiting) const {
  const auto place = Locate(ino);
  if (!place) return tl::unexpected<Error>(place.error());
  if (place->kind == Place::Kind::kLevels) return Fail(ErrorCode::kIsDirectory, "a directory is no file");
  if (place->kind == Place::Kind::kCurrent) return Fail(ErrorCode::kInvalidArgument, "a symbolic link is no file");
  thread_local NodeInfo info;
  if (auto described = Describe(*place, info); !described) return PassOn(std::move(described));
  if (info.kind == NodeKind::kDirectory) return Fail(ErrorCode::kIsDirectory, "a directory is no file");
  const uint64_t size = SizeAtLevel(info.layout, place->level, levels());
  if (offset >= size) return size_t{0};
  const MutableByteSpan wanted = out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), size - offset)));
  if (auto read = ReadNode(info, place->level, offset, wanted, waiting); !read) return PassOn(std::move(read));
  return wanted.size();
}

Result<void> FileSystem::ReadNode(const NodeInfo& info, Level level, uint64_t offset, MutableByteSpan out,
                                  Waiting waiting) const {
  CrcWindow crcs{0, info.layout.crcs};
  thread_local std::vector<uint32_t> some;
  if (info.crc_count > kMaxInlineCrcs) {
    const CrcRange range = CrcsNeeded(info.layout, level, levels(), offset, out.size());
    if (auto read = catalog_->ReadCrcs(info.node, range.first, range.count, some); !read)
      return CatalogFault(std::move(read).error());
    crcs = {range.first, some};
  }
  const StoreReader::Part part{info.shard, info.layout, level, levels(), crcs, offset};
  if (waiting == Waiting::kNever) {
    if (store_->ReadAtHand(part, out)) return {};
    return Fail(ErrorCode::kBusy, std::string());
  }
  auto read = store_->Read(part, out);
  if (!read) return ShardFault(info, level, std::move(read).error());
  return {};
}

tl::unexpected<Error> FileSystem::CatalogFault(Error error) const {
  const bool damaged = error.code == ErrorCode::kDamaged;
  if (damaged) error.message += "; the next mount builds the catalog anew";
  if (!damaged) error.code = ErrorCode::kIo;  // to the user no missing file
  const bool first = !(damaged ? told_damaged_ : told_unreadable_).exchange(true);
  if (first && on_fault_) on_fault_(error);
  if (first && damaged) catalog_->SetAside();
  return tl::unexpected<Error>(std::move(error));
}

tl::unexpected<Error> FileSystem::ShardFault(const NodeInfo& info, Level level, StoreFault fault) const {
  Error& error = fault.error;
  const auto path = catalog_->Path(info.node);
  error.message = "shard " + Quoted(store_->shards().facts(info.shard).name) + ", " +
                  (path ? Quoted(*path) : "node " + std::to_string(info.node)) + " at level " +
                  std::to_string(level.number()) + ": " + error.message;
  // To the user the file is there; it is its bytes that cannot be had.
  if (error.code != ErrorCode::kDamaged && error.code != ErrorCode::kStale) error.code = ErrorCode::kIo;
  if (fault.is_new && on_fault_) on_fault_(error);
  return tl::unexpected<Error>(std::move(error));
}

Result<StatFs> FileSystem::GetStatFs(Ino ino) const {
  const auto place = Locate(ino);
  if (!place) return tl::unexpected<Error>(place.error());
  const CatalogTotals& totals = catalog_->totals();
  const uint64_t blocks = CeilDiv(totals.level_bytes[place->level.index()], kStatFsBlock);
  return StatFs{kStatFsBlock, std::max<uint64_t>(blocks, 1), totals.nodes};
}

}  // namespace pcrfs
