#include "cache/catalog_writer.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "cache/catalog_schema.h"
#include "cache/table_writer.h"
#include "format/checksum.h"
#include "format/level.h"
#include "format/sorted_spool.h"

namespace pcrfs {
namespace {

uint64_t CountBlocks(const EntryLayout& layout) {
  if (!layout.checked) return 0;
  uint64_t count = BlockCount(layout.tail.size) + BlockCount(layout.restore.size);
  for (const Extent& extent : layout.extents) count += BlockCount(extent.size);
  return count;
}

Result<void> CheckInvariants(const std::string& name, const ShardIndex& index) {
  const auto broken = [&](const std::string& what) {
    return Fail(ErrorCode::kInvalidArgument, "the index of shard " + Quoted(name) + " contradicts itself: " + what);
  };
  if (index.directory_attributes.size() != index.directories.size() + 1) return broken("attributes of directories");
  for (const Entry& entry : index.entries) {
    if (entry.directory > index.directories.size()) return broken("directory of " + Quoted(entry.name));
    if (!IsValidName(entry.name)) return broken("name " + Quoted(entry.name));
    if (entry.layout.extents.empty()) return broken("no extent of " + Quoted(entry.name));
    if (entry.layout.crcs.size() != CountBlocks(entry.layout)) return broken("checksums of " + Quoted(entry.name));
  }
  return {};
}

// A shard's directories, and their nodes as far as they are known; position 0 is the root.
class ShardDirectories {
 public:
  explicit ShardDirectories(const ShardIndex& index) : index_(index), nodes_(index.directories.size() + 1) {
    nodes_[0] = kRootNode;
  }

  [[nodiscard]] size_t count() const { return nodes_.size(); }
  [[nodiscard]] uint64_t& node(size_t directory) { return nodes_[directory]; }  // 0 = not yet known
  [[nodiscard]] const Attributes& attributes(size_t directory) const { return index_.directory_attributes[directory]; }
  [[nodiscard]] std::string_view Path(size_t directory) const {
    return directory == 0 ? std::string_view() : std::string_view(index_.directories[directory - 1]);
  }
  [[nodiscard]] std::string_view Name(size_t directory) const {
    const std::string_view path = Path(directory);
    return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  }
  // Nothing when the index does not list it.
  [[nodiscard]] std::optional<size_t> Parent(size_t directory) const {
    const std::string_view path = Path(directory);
    const size_t slash = path.rfind('/');
    if (slash == std::string_view::npos) return 0;
    const std::string_view parent = path.substr(0, slash);
    const auto found = std::ranges::lower_bound(index_.directories, parent);
    if (found == index_.directories.end() || *found != parent) return std::nullopt;
    return static_cast<size_t>(found - index_.directories.begin()) + 1;
  }

 private:
  const ShardIndex& index_;
  std::vector<uint64_t> nodes_;
};

}  // namespace

struct CatalogWriter::Impl {
  explicit Impl(const std::string& path) : tables(path), names(path + ".names"), children(path + ".children") {}

  TableWriter tables;
  SortedSpool names, children;  // what goes into kNames and kChildren at the end
  ByteWriter value;             // reused
  std::vector<std::string> shard_names;
  CatalogTotals totals;

  Result<void> AddRoot(const Attributes& attributes);
  Result<void> AddDirectory(ShardDirectories& directories, size_t directory, size_t parent);
  Result<void> EnsureDirectory(ShardDirectories& directories, size_t directory);
  Result<void> AddEntry(ShardDirectories& directories, const Entry& entry);

  // The next node number, and its place in kNames and kChildren.
  Result<uint64_t> NumberNode(uint64_t parent, std::string_view name, NodeKind kind);
  // Seals `value` and appends it.
  Result<void> Append(Table table, const CatalogKey& key);
  Result<void> AppendCrcs(uint64_t node, const std::vector<uint32_t>& crcs);
  Result<void> AppendAll(Table table, SortedSpool& spool);
  void Count(const Entry& entry);

  // What is wrong with two records of kNames that have one key. Needs kNodes and kChildren complete.
  Error Conflict(ByteSpan key, ByteSpan first_payload, ByteSpan second_payload);
  Result<NodeInfo> Node(uint64_t node);
  Result<std::string> FolderPath(uint64_t node);
  uint32_t shard() const { return static_cast<uint32_t>(shard_names.size() - 1); }
};

Result<void> CatalogWriter::Impl::Append(Table table, const CatalogKey& key) {
  Seal(table, key.bytes(), value);
  const auto appended = tables.Append(table, key.bytes(), value.bytes());
  if (!appended) return tl::unexpected<Error>(appended.error());
  if (!*appended) return Fail(ErrorCode::kDamaged, "a record is twice in the catalog, key " + Hex(key.bytes()));
  return {};
}

Result<uint64_t> CatalogWriter::Impl::NumberNode(uint64_t parent, std::string_view name, NodeKind kind) {
  const uint64_t node = ++totals.nodes;
  const CatalogKey name_key(parent, name), child_key(parent, node);
  value.Clear();
  EncodeName({node, kind}, value);
  if (auto added = names.Add(name_key.bytes(), value.bytes()); !added) return PassOn(std::move(added));
  value.Clear();
  EncodeChild({kind, name}, value);
  if (auto added = children.Add(child_key.bytes(), value.bytes()); !added) return PassOn(std::move(added));
  return node;
}

Result<void> CatalogWriter::Impl::AddRoot(const Attributes& attributes) {
  totals.nodes = kRootNode;
  value.Clear();
  EncodeDirectoryNode(kRootNode, 0, attributes, value);
  return Append(Table::kNodes, CatalogKey(kRootNode));
}

// Directories are asked for by every shard that lists them, so their nodes are kept where they can be found.
Result<void> CatalogWriter::Impl::AddDirectory(ShardDirectories& directories, size_t directory, size_t parent) {
  const std::string_view name = directories.Name(directory);
  if (!IsValidName(name))
    return Fail(ErrorCode::kInvalidArgument, "shard " + Quoted(shard_names.back()) + " lists a directory " +
                                                 Quoted(directories.Path(directory)) + ", which is no path");
  const uint64_t parent_node = directories.node(parent);
  const CatalogKey key(parent_node, name);
  if (const auto known = tables.GetScratch(key.bytes()); known || known.error().code != ErrorCode::kNotFound) {
    if (!known) return tl::unexpected<Error>(known.error());
    directories.node(directory) = ByteReader(*known).U64();
    return {};
  }
  const auto node = NumberNode(parent_node, name, NodeKind::kDirectory);
  if (!node) return tl::unexpected<Error>(node.error());
  directories.node(directory) = *node;
  ++totals.directories;
  value.Clear();
  value.U64(*node);
  if (auto put = tables.PutScratch(key.bytes(), value.bytes()); !put) return put;
  value.Clear();
  EncodeDirectoryNode(parent_node, shard(), directories.attributes(directory), value);
  return Append(Table::kNodes, CatalogKey(*node));
}

Result<void> CatalogWriter::Impl::EnsureDirectory(ShardDirectories& directories, size_t directory) {
  std::vector<std::pair<size_t, size_t>> missing;  // directory, its parent; the topmost last
  while (directories.node(directory) == 0) {
    const auto parent = directories.Parent(directory);
    if (!parent)
      return Fail(ErrorCode::kInvalidArgument, "shard " + Quoted(shard_names.back()) + " lists directory " +
                                                   Quoted(directories.Path(directory)) + " without its parent");
    missing.emplace_back(directory, *parent);
    directory = *parent;
  }
  for (; !missing.empty(); missing.pop_back())
    if (auto added = AddDirectory(directories, missing.back().first, missing.back().second); !added) return added;
  return {};
}

Result<void> CatalogWriter::Impl::AddEntry(ShardDirectories& directories, const Entry& entry) {
  if (auto ensured = EnsureDirectory(directories, entry.directory); !ensured) return ensured;
  const uint64_t parent = directories.node(entry.directory);
  const auto node = NumberNode(parent, entry.name, NodeKindOf(entry.layout.kind));
  if (!node) return tl::unexpected<Error>(node.error());
  value.Clear();
  EncodeEntryNode(parent, shard(), entry, value);
  if (auto appended = Append(Table::kNodes, CatalogKey(*node)); !appended) return appended;
  if (auto appended = AppendCrcs(*node, entry.layout.crcs); !appended) return appended;
  Count(entry);
  return tables.NextBatchWhenFull();
}

Result<void> CatalogWriter::Impl::AppendCrcs(uint64_t node, const std::vector<uint32_t>& crcs) {
  if (crcs.size() <= kMaxInlineCrcs) return {};
  for (size_t first = 0; first < crcs.size(); first += kMaxInlineCrcs) {
    value.Clear();
    for (size_t i = first; i < std::min<size_t>(crcs.size(), first + kMaxInlineCrcs); ++i) value.U32(crcs[i]);
    if (auto appended = Append(Table::kCrcs, {node, first / kMaxInlineCrcs}); !appended) return appended;
    if (auto next = tables.NextBatchWhenFull(); !next) return next;
  }
  return {};
}

// Each record is written when the next one's key is known, since it is linked to that.
Result<void> CatalogWriter::Impl::AppendAll(Table table, SortedSpool& spool) {
  const CatalogKey first = FirstKey(table);
  Bytes key(first.bytes().begin(), first.bytes().end()), payload;
  const auto append = [&](ByteSpan next_key) -> Result<void> {
    value.Clear();
    value.Append(payload);
    value.U32(LinkTo(next_key));
    Seal(table, key, value);
    const auto appended = tables.Append(table, key, value.bytes());
    if (!appended) return tl::unexpected<Error>(appended.error());
    if (!*appended) return Fail(ErrorCode::kDamaged, "a record is twice in the catalog, key " + Hex(key));
    return tables.NextBatchWhenFull();
  };
  auto drained = spool.Drain([&](ByteSpan next_key, ByteSpan next_payload) -> Result<void> {
    if (std::ranges::equal(key, next_key)) return tl::unexpected<Error>(Conflict(key, payload, next_payload));
    if (auto appended = append(next_key); !appended) return appended;
    key.assign(next_key.begin(), next_key.end());
    payload.assign(next_payload.begin(), next_payload.end());
    return {};
  });
  if (!drained) return drained;
  return append({});
}

void CatalogWriter::Impl::Count(const Entry& entry) {
  ++(entry.layout.kind == EntryKind::kImage ? totals.images : totals.opaque_files);
  for (int k = 1; k <= totals.levels; ++k)
    totals.level_bytes[static_cast<size_t>(k - 1)] += SizeAtLevel(entry.layout, *Level::FromNumber(k), totals.levels);
  totals.source_bytes += OriginalSize(entry.layout, entry.source_size, *Level::FromNumber(totals.levels));
}

Result<NodeInfo> CatalogWriter::Impl::Node(uint64_t node) {
  const auto record = tables.Get(Table::kNodes, CatalogKey(node).bytes());
  if (!record) return tl::unexpected<Error>(record.error());
  NodeInfo info;
  if (auto decoded = DecodeNode(node, *record, info); !decoded) return PassOn(std::move(decoded));
  return info;
}

// With a '/' behind it unless it is the root's.
Result<std::string> CatalogWriter::Impl::FolderPath(uint64_t node) {
  std::string path;
  while (node != kRootNode) {
    const auto info = Node(node);
    if (!info) return tl::unexpected<Error>(info.error());
    const auto record = tables.Get(Table::kChildren, CatalogKey(info->parent, node).bytes());
    if (!record) return tl::unexpected<Error>(record.error());
    ByteSpan payload = *record;
    uint32_t link = 0;
    if (auto split = SplitLink(payload, link); !split) return PassOn(std::move(split));
    const auto child = DecodeChild(payload);
    if (!child) return tl::unexpected<Error>(child.error());
    path.insert(0, std::string(child->name) + "/");
    node = info->parent;
  }
  return path;
}

Error CatalogWriter::Impl::Conflict(ByteSpan key, ByteSpan first_payload, ByteSpan second_payload) {
  const auto node_of = [&](ByteSpan payload) -> Result<NodeInfo> {
    const auto name = DecodeName(payload);
    if (!name) return tl::unexpected<Error>(name.error());
    return Node(name->node);
  };
  const auto first = node_of(first_payload), second = node_of(second_payload);
  if (!first || !second) return first ? second.error() : first.error();
  const auto folder = FolderPath(first->parent);
  if (!folder) return folder.error();
  const std::string path = Quoted(*folder + std::string(AsText(key.subspan(sizeof(uint64_t)))));
  const std::string there = Quoted(shard_names.at(first->shard)), here = Quoted(shard_names.at(second->shard));
  if (first->kind != NodeKind::kDirectory && second->kind != NodeKind::kDirectory)
    return {ErrorCode::kDamaged, path + " is held by two shards, " + there + " and " + here};
  const bool first_is_directory = first->kind == NodeKind::kDirectory;
  return {ErrorCode::kDamaged, path + " is a directory in shard " + (first_is_directory ? there : here) +
                                   " and a file in shard " + (first_is_directory ? here : there)};
}

CatalogWriter::CatalogWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CatalogWriter::~CatalogWriter() = default;
CatalogWriter::CatalogWriter(CatalogWriter&&) noexcept = default;

Result<CatalogWriter> CatalogWriter::Create(const std::string& path, int levels) {
  if (!Level::FromNumber(levels))
    return Fail(ErrorCode::kInvalidArgument, "no data set has " + std::to_string(levels) + " levels");
  auto impl = std::make_unique<Impl>(path);
  impl->totals.levels = levels;
  impl->totals.level_bytes.resize(static_cast<size_t>(levels));
  if (auto created = impl->tables.Create(); !created) return PassOn(std::move(created));
  return CatalogWriter(std::move(impl));
}

Result<void> CatalogWriter::AddShard(const std::string& name, const ShardIndex& index) {
  if (auto checked = CheckInvariants(name, index); !checked) return checked;
  if (impl_->shard_names.empty())
    if (auto added = impl_->AddRoot(index.directory_attributes[0]); !added) return added;
  impl_->shard_names.push_back(name);
  ShardRecord record{impl_->totals.nodes + 1, index.levels, {}};
  ShardDirectories directories(index);
  for (const Entry& entry : index.entries)
    if (auto added = impl_->AddEntry(directories, entry); !added) return added;
  for (size_t d = 0; d < directories.count(); ++d) {
    if (auto ensured = impl_->EnsureDirectory(directories, d); !ensured) return ensured;
    if (auto next = impl_->tables.NextBatchWhenFull(); !next) return next;
    record.directories.push_back({directories.node(d), directories.attributes(d)});
  }
  impl_->value.Clear();
  EncodeShard(record, impl_->value);
  return impl_->Append(Table::kShards, CatalogKey(impl_->shard()));
}

Result<CatalogTotals> CatalogWriter::Finish() {
  if (impl_->shard_names.empty())
    if (auto added = impl_->AddRoot({0755, 0}); !added) return PassOn(std::move(added));
  if (auto dropped = impl_->tables.DropScratch(); !dropped) return PassOn(std::move(dropped));
  if (auto all = impl_->AppendAll(Table::kChildren, impl_->children); !all) return PassOn(std::move(all));
  if (auto all = impl_->AppendAll(Table::kNames, impl_->names); !all) return PassOn(std::move(all));
  if (auto finished = impl_->tables.Finish(); !finished) return PassOn(std::move(finished));
  return std::move(impl_->totals);
}

}  // namespace pcrfs
