#include "fs/file_system.h"

#include <algorithm>
#include <charconv>
#include <type_traits>
#include <utility>
#include <vector>

#include "fs/dataset_shards.h"
#include "fs/original_image.h"

namespace pcrfs {
namespace {

constexpr std::string_view kCurrentName = "current";
constexpr std::string_view kOriginalName = "original";
constexpr std::string_view kLevelPrefix = "scan";

constexpr mode_t kReadBits = 0444, kShownBits = 0555;

// Offsets of a listing: "." and "..", then 2 + the number that tells the child from its siblings and never changes.
constexpr uint64_t kDotOffset = 1, kDotDotOffset = 2, kFirstChildOffset = 2;

constexpr uint64_t kStatBlock = 512, kStatFsBlock = 4096;

uint64_t CeilDiv(uint64_t bytes, uint64_t unit) { return bytes / unit + (bytes % unit != 0 ? 1 : 0); }

std::string NameOf(Tree tree) {
  return std::string(tree.is_original() ? kOriginalName : kLevelPrefix) +
         (tree.is_original() ? "" : std::to_string(tree.number()));
}

// The tree that a name in the root of several means, written as NameOf writes it.
std::optional<Tree> TreeOfName(std::string_view name) {
  if (name == kOriginalName) return Tree::Original();
  if (!name.starts_with(kLevelPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kLevelPrefix.size());
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || number == 0) return std::nullopt;
  const auto tree = Tree::FromNumber(number);
  return tree && NameOf(*tree) == name ? tree : std::nullopt;
}

tl::unexpected<Error> Stale(Ino ino) {
  return Fail(ErrorCode::kStale, "inode " + std::to_string(ino.number()) + " is none of this mount");
}

tl::unexpected<Error> NotAtHand() { return Fail(ErrorCode::kBusy, std::string()); }

tl::unexpected<Error> NotDirectory() { return Fail(ErrorCode::kNotDirectory, "a file is no directory"); }

}  // namespace

// What an inode number means: the root above several trees, its symlink, or a node of one tree.
struct FileSystem::Place {
  enum class Kind : uint8_t { kTrees, kCurrent, kNode };
  Kind kind;
  Node node;
  Tree tree;  // of kTrees and kCurrent: the highest
};

FileSystem::FileSystem(std::unique_ptr<Catalog> catalog, std::unique_ptr<ShardSet> shards, MountView view,
                       FaultObserver on_fault)
    : catalog_(std::move(catalog)),
      store_(std::make_unique<StoreReader>(std::move(shards))),
      view_(view),
      on_fault_(std::move(on_fault)),
      restored_(std::make_unique<RestoredImages>(RestoredImages::Options{.memory = view.restore_memory})) {}

FileSystem::~FileSystem() = default;

Result<std::unique_ptr<FileSystem>> FileSystem::Open(Dataset dataset, std::unique_ptr<Catalog> catalog, MountView view,
                                                     FaultObserver on_fault) {
  if (view.root_tree && !HasTree(catalog->totals().levels, *view.root_tree))
    return Fail(ErrorCode::kInvalidArgument, "the data set " + Quoted(dataset.path()) + " has " +
                                                 std::to_string(catalog->totals().levels) + " levels, not " +
                                                 std::to_string(view.root_tree->number()));
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
  const bool one_tree = view_.root_tree.has_value();
  if (ino == kMountRoot)
    return one_tree ? Place{Place::Kind::kNode, kRootNode, *view_.root_tree} : Place{Place::Kind::kTrees, 0, highest()};
  if (ino == kCurrentLink && !one_tree) return Place{Place::Kind::kCurrent, 0, highest()};
  const auto tree = Tree::FromNumber(ino.level());
  // The root of a single tree has one number only, that of the mount's root.
  const bool shown = tree && (one_tree ? *tree == *view_.root_tree && ino.node() > kRootNode
                                       : HasTree(levels(), *tree) && ino.node() >= kRootNode);
  if (!shown || ino.node() > catalog_->totals().nodes) return Stale(ino);
  return Place{Place::Kind::kNode, ino.node(), *tree};
}

void FileSystem::StepBack() const { store_->StepBack(); }

std::vector<Tree> FileSystem::Trees() const {
  if (view_.root_tree) return {*view_.root_tree};
  std::vector<Tree> trees;
  for (int number = 0; number <= levels(); ++number)
    if (const auto tree = Tree::FromNumber(number); tree && HasTree(levels(), *tree)) trees.push_back(*tree);
  return trees;
}

Ino FileSystem::InoOf(uint64_t node, Tree tree) const {
  return node == kRootNode && view_.root_tree ? kMountRoot : Ino(node, tree.number());
}

Result<void> FileSystem::Describe(const Place& place, NodeInfo& info) const {
  auto got = catalog_->Get(place.node, info);
  if (got) return got;
  return CatalogFault(std::move(got).error());
}

Stat FileSystem::StatOf(const NodeInfo& info, Tree tree) const {
  Stat stat;
  stat.ino = InoOf(info.node, tree);
  if (info.node != kRootNode && info.shard < catalog_->shards().size())
    stat.generation = ByteReader(catalog_->shards()[info.shard].id).U32();
  mode_t mode = info.attributes.mode & kShownBits;
  if (info.kind == NodeKind::kDirectory) {
    mode |= (mode & kReadBits) >> 2;
  } else {
    stat.type = FileType::kRegular;
    stat.size = SizeInTree(info.layout, info.source_size, tree, highest());
  }
  stat.permissions = mode & ~view_.umask;
  stat.blocks = CeilDiv(stat.size, kStatBlock);
  stat.mtime_ns = info.attributes.mtime_ns;
  stat.uid = view_.uid;
  stat.gid = view_.gid;
  return stat;
}

// Like the data set's root, whatever that allows.
Result<Stat> FileSystem::StatOfTrees() const {
  NodeInfo root;
  if (auto got = Describe({Place::Kind::kNode, kRootNode, highest()}, root); !got) return PassOn(std::move(got));
  root.attributes.mode = kShownBits;
  Stat stat = StatOf(root, highest());
  stat.ino = kMountRoot;
  return stat;
}

Result<Stat> FileSystem::StatOfCurrent() const {
  auto stat = StatOfTrees();
  if (!stat) return stat;
  stat->ino = kCurrentLink;
  stat->type = FileType::kSymlink;
  stat->permissions = 0777;  // as of every symlink
  stat->size = NameOf(highest()).size();
  stat->blocks = CeilDiv(stat->size, kStatBlock);
  return stat;
}

Result<Stat> FileSystem::LookupTree(std::string_view name) const {
  if (name == "..") return StatOfTrees();
  if (name == kCurrentName) return StatOfCurrent();
  const auto tree = TreeOfName(name);
  if (tree && HasTree(levels(), *tree)) return GetAttr(InoOf(kRootNode, *tree));
  return Fail(ErrorCode::kNotFound, "the mount's root holds no such tree");
}

Result<Stat> FileSystem::Lookup(Ino parent, std::string_view name) const {
  if (name == ".") return GetAttr(parent);
  if (name.size() > kMaxNameBytes) return Fail(ErrorCode::kLimit, "a name of more than 255 bytes");
  const auto place = Locate(parent);
  if (!place) return tl::unexpected<Error>(place.error());
  if (place->kind == Place::Kind::kCurrent) return NotDirectory();
  if (place->kind == Place::Kind::kTrees) return LookupTree(name);
  thread_local NodeInfo info;
  const auto found = catalog_->Find(place->node, name);
  if (found) return GetAttr(InoOf(*found, place->tree));
  if (found.error().code != ErrorCode::kNotFound) return CatalogFault(found.error());
  if (auto described = Describe(*place, info); !described) return PassOn(std::move(described));
  if (info.kind != NodeKind::kDirectory) return NotDirectory();
  if (name != "..") return tl::unexpected<Error>(found.error());
  if (place->node == kRootNode) return GetAttr(kMountRoot);
  return GetAttr(InoOf(info.parent, place->tree));
}

Result<Stat> FileSystem::GetAttr(Ino ino) const {
  const auto place = Locate(ino);
  if (!place) return tl::unexpected<Error>(place.error());
  if (place->kind == Place::Kind::kTrees) return StatOfTrees();
  if (place->kind == Place::Kind::kCurrent) return StatOfCurrent();
  thread_local NodeInfo info;
  if (auto described = Describe(*place, info); !described) return PassOn(std::move(described));
  return StatOf(info, place->tree);
}

Result<std::string> FileSystem::ReadLink(Ino ino) const {
  const auto place = Locate(ino);
  if (!place) return tl::unexpected<Error>(place.error());
  if (place->kind != Place::Kind::kCurrent) return Fail(ErrorCode::kInvalidArgument, "no symbolic link");
  return NameOf(highest());
}

Result<void> FileSystem::ListTrees(uint64_t after, const std::function<bool(const DirEntry&)>& visit) const {
  const auto show = [&](Ino ino, FileType type, std::string_view name, uint64_t offset) {
    return offset <= after || visit({ino, type, name, offset});
  };
  if (!show(kMountRoot, FileType::kDirectory, ".", kDotOffset)) return {};
  if (!show(kMountRoot, FileType::kDirectory, "..", kDotDotOffset)) return {};
  for (int k = 1; k <= levels(); ++k) {
    const std::string name = NameOf(*Level::FromNumber(k));
    if (!show(Ino(kRootNode, k), FileType::kDirectory, name, kFirstChildOffset + static_cast<uint64_t>(k))) return {};
  }
  if (!show(kCurrentLink, FileType::kSymlink, kCurrentName, kFirstChildOffset + kCurrentLink.number())) return {};
  const Ino original = InoOf(kRootNode, Tree::Original());
  if (HasTree(levels(), Tree::Original()))
    show(original, FileType::kDirectory, kOriginalName, kFirstChildOffset + original.number());
  return {};
}

Result<void> FileSystem::ListNode(const NodeInfo& info, Tree tree, uint64_t after,
                                  const std::function<bool(const DirEntry&)>& visit) const {
  const Ino self = InoOf(info.node, tree), above = info.node == kRootNode ? kMountRoot : InoOf(info.parent, tree);
  if (after < kDotOffset && !visit({self, FileType::kDirectory, ".", kDotOffset})) return {};
  if (after < kDotDotOffset && !visit({above, FileType::kDirectory, "..", kDotDotOffset})) return {};
  const uint64_t node = info.node, last = after > kFirstChildOffset ? after - kFirstChildOffset : 0;
  auto listed = catalog_->List(node, last, [&](const DirectoryItem& item) {
    const FileType type = item.kind == NodeKind::kDirectory ? FileType::kDirectory : FileType::kRegular;
    return visit({InoOf(item.node, tree), type, item.name, kFirstChildOffset + item.node});
  });
  if (!listed) return CatalogFault(std::move(listed).error());
  return {};
}

Result<void> FileSystem::ReadDir(Ino ino, uint64_t after, const std::function<bool(const DirEntry&)>& visit) const {
  const auto place = Locate(ino);
  if (!place) return tl::unexpected<Error>(place.error());
  if (place->kind == Place::Kind::kTrees) return ListTrees(after, visit);
  if (place->kind == Place::Kind::kCurrent) return NotDirectory();
  NodeInfo info;
  if (auto described = Describe(*place, info); !described) return described;
  if (info.kind != NodeKind::kDirectory) return NotDirectory();
  return ListNode(info, place->tree, after, visit);
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
  if (place->kind == Place::Kind::kTrees) return Fail(ErrorCode::kIsDirectory, "a directory is no file");
  if (place->kind == Place::Kind::kCurrent) return Fail(ErrorCode::kInvalidArgument, "a symbolic link is no file");
  thread_local NodeInfo info;
  if (auto described = Describe(*place, info); !described) return PassOn(std::move(described));
  if (info.kind == NodeKind::kDirectory) return Fail(ErrorCode::kIsDirectory, "a directory is no file");
  const uint64_t size = SizeInTree(info.layout, info.source_size, place->tree, highest());
  if (offset >= size) return size_t{0};
  const MutableByteSpan wanted = out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), size - offset)));
  const bool restored = place->tree.is_original() && NeedsRestoring(info.layout);
  auto read = restored ? ReadRestored(info, offset, wanted, waiting)
                       : ReadNode(info, place->tree.LevelOr(highest()), offset, wanted, waiting);
  if (!read) return PassOn(std::move(read));
  return wanted.size();
}

Result<CrcWindow> FileSystem::Crcs(const NodeInfo& info, const CrcRange& needed) const {
  if (info.crc_count <= kMaxInlineCrcs) return CrcWindow{0, info.layout.crcs};
  thread_local std::vector<uint32_t> some;
  if (auto read = catalog_->ReadCrcs(info.node, needed.first, needed.count, some); !read)
    return CatalogFault(std::move(read).error());
  return CrcWindow{needed.first, some};
}

Result<void> FileSystem::ReadNode(const NodeInfo& info, Level level, uint64_t offset, MutableByteSpan out,
                                  Waiting waiting) const {
  const bool apart = info.crc_count > kMaxInlineCrcs;
  const auto crcs = Crcs(info, apart ? CrcsNeeded(info.layout, level, levels(), offset, out.size()) : CrcRange());
  if (!crcs) return tl::unexpected<Error>(crcs.error());
  const StoreReader::Part part{info.shard, info.layout, level, levels(), *crcs, offset};
  if (waiting == Waiting::kNever) {
    if (store_->ReadAtHand(part, out)) return {};
    return NotAtHand();
  }
  auto read = store_->Read(part, out);
  if (!read) return ShardFault(info, level, std::move(read).error());
  return {};
}

Result<void> FileSystem::ReadRestored(const NodeInfo& info, uint64_t offset, MutableByteSpan out,
                                      Waiting waiting) const {
  if (waiting == Waiting::kNever) {
    if (!restored_->ReadAtHand(info.node, offset, out)) return NotAtHand();
    return {};
  }
  const auto of_image = [&](auto step) {
    using Value = typename std::invoke_result_t<decltype(step), const StoredImage&>::value_type;
    return [this, &info, step]() -> Result<Value> {
      const auto crcs = Crcs(info, {0, info.crc_count});
      if (!crcs) return tl::unexpected<Error>(crcs.error());
      Value value{};
      auto read = store_->Read(info.shard, highest(), [&](const ByteSource& shard) -> tl::expected<void, BlockFault> {
        auto done = step(StoredImage{info.layout, *crcs, shard, highest(), {info.source_size, info.source_sha256}});
        if (!done) return tl::unexpected<BlockFault>(std::move(done).error());
        value = *std::move(done);
        return {};
      });
      if (!read) return ShardFault(info, highest(), std::move(read).error());
      return value;
    };
  };
  const RestoredImages::Work work{of_image(MemoryToRestore), of_image(RestoreOriginal)};
  return restored_->Read(info.node, work, offset, out);
}

tl::unexpected<Error> FileSystem::CatalogFault(Error error) const {
  const bool damaged = error.code == ErrorCode::kDamaged;
  if (damaged) error.message += "; the next mount builds the catalog anew";
  if (!damaged) error.code = ErrorCode::kIo;  // to the user no missing file
  const bool first = !(damaged ? told_damaged_ : told_unreadable_).exchange(true);
  if (first && on_fault_) on_fault_(error, std::nullopt);
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
  if (fault.is_new && on_fault_) {
    Error told = error;
    if (fault.of_shard) told.message += "; no more such faults of this shard are told until it can be read again";
    on_fault_(told, info.shard);
  }
  return tl::unexpected<Error>(std::move(error));
}

Result<StatFs> FileSystem::GetStatFs(Ino ino) const {
  const auto place = Locate(ino);
  if (!place) return tl::unexpected<Error>(place.error());
  const CatalogTotals& totals = catalog_->totals();
  const Tree tree = place->tree;
  const uint64_t bytes = tree.is_original() ? totals.source_bytes : totals.level_bytes[tree.LevelOr(highest()).index()];
  const uint64_t blocks = CeilDiv(bytes, kStatFsBlock);
  return StatFs{kStatFsBlock, std::max<uint64_t>(blocks, 1), totals.nodes};
}

}  // namespace pcrfs
