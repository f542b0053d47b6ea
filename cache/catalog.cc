#include "cache/catalog.h"

#include <unistd.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "cache/cache_folder.h"
#include "cache/catalog_head.h"
#include "cache/catalog_schema.h"
#include "cache/table_reader.h"
#include "format/file.h"

namespace pcrfs {
namespace {

// The file at `path`, whole and as `head` says.
Result<std::unique_ptr<FileSource>> OpenChecked(const std::string& path, const CatalogHead& head) {
  auto file = OpenOwnFile(path);
  if (!file) return file;
  if ((*file)->size() != head.file_size)
    return Fail(ErrorCode::kDamaged, Quoted(path) + " has " + std::to_string((*file)->size()) +
                                         " bytes, and catalog.head expects " + std::to_string(head.file_size));
  const auto crcs = CatalogFileCrcs(**file);
  if (!crcs) return tl::unexpected<Error>(crcs.error());
  if (*crcs != head.file_crcs)
    return Fail(ErrorCode::kDamaged, Quoted(path) + " does not have the CRC-32s of catalog.head");
  return file;
}

}  // namespace

struct Catalog::Impl {
  using Reading = TableReader::Reading;

  std::string head_path;
  CatalogHead head;
  std::unique_ptr<TableReader> tables;

  Result<void> Get(Reading& reading, uint64_t node, NodeInfo& info) const;
  Result<std::string> Name(Reading& reading, uint64_t parent, uint64_t node) const;
  Result<void> ReadCrcs(Reading& reading, uint64_t node, uint64_t first, uint64_t count,
                        std::vector<uint32_t>& crcs) const;
  Result<ShardRecord> GetShard(Reading& reading, size_t position) const;
  // The first number behind those of the shard at `position`.
  Result<uint64_t> EndOfShard(Reading& reading, size_t position) const;
  Result<void> ReadDirectories(Reading& reading, const ShardRecord& record, ShardIndex& index,
                               std::unordered_map<uint64_t, uint32_t>& positions) const;
  Result<Entry> ReadEntry(Reading& reading, uint32_t directory, NodeInfo& info) const;
};

Result<void> Catalog::Impl::Get(Reading& reading, uint64_t node, NodeInfo& info) const {
  // Numbers are dense, so each of them has its record.
  if (node < kRootNode || node > head.totals.nodes) return Fail(ErrorCode::kNotFound, "the catalog has no such node");
  const auto value = reading.Needed(Table::kNodes, CatalogKey(node));
  if (!value) return tl::unexpected<Error>(value.error());
  if (auto decoded = DecodeNode(node, *value, info); !decoded) return decoded;
  if (info.kind != NodeKind::kDirectory && info.shard >= head.shards.size())
    return Fail(ErrorCode::kDamaged, "the catalog places an entry in a shard that it does not list");
  return {};
}

Result<std::string> Catalog::Impl::Name(Reading& reading, uint64_t parent, uint64_t node) const {
  const auto value = reading.Needed(Table::kChildren, {parent, node});
  if (!value) return tl::unexpected<Error>(value.error());
  const auto child = DecodeChild(*value);
  if (!child) return tl::unexpected<Error>(child.error());
  return std::string(child->name);
}

Result<void> Catalog::Impl::ReadCrcs(Reading& reading, uint64_t node, uint64_t first, uint64_t count,
                                     std::vector<uint32_t>& crcs) const {
  crcs.clear();
  for (const uint64_t end = first + count; first < end;) {
    const uint64_t chunk = first / kMaxInlineCrcs, skip = first % kMaxInlineCrcs;
    const auto value = reading.Needed(Table::kCrcs, {node, chunk});
    if (!value) return tl::unexpected<Error>(value.error());
    ByteReader in(*value);
    in.Take(skip * 4);
    const uint64_t here = std::min(end - first, kMaxInlineCrcs - skip);
    for (uint64_t i = 0; i < here; ++i) crcs.push_back(in.U32());
    if (!in.ok()) return Fail(ErrorCode::kDamaged, "the catalog lacks checksums of node " + std::to_string(node));
    first += here;
  }
  return {};
}

Result<ShardRecord> Catalog::Impl::GetShard(Reading& reading, size_t position) const {
  const auto value = reading.Needed(Table::kShards, CatalogKey(position));
  if (!value) return tl::unexpected<Error>(value.error());
  return DecodeShard(*value);
}

Result<uint64_t> Catalog::Impl::EndOfShard(Reading& reading, size_t position) const {
  if (position + 1 == head.shards.size()) return head.totals.nodes + 1;
  const auto next = GetShard(reading, position + 1);
  if (!next) return tl::unexpected<Error>(next.error());
  return next->first_node;
}

// `positions`: from the node of a directory to its position in the shard's list.
Result<void> Catalog::Impl::ReadDirectories(Reading& reading, const ShardRecord& record, ShardIndex& index,
                                            std::unordered_map<uint64_t, uint32_t>& positions) const {
  NodeInfo info;
  for (const ShardRecord::Directory& directory : record.directories) {
    if (!positions.emplace(directory.node, positions.size()).second)
      return Fail(ErrorCode::kDamaged, "the catalog lists a directory of a shard twice");
    index.directory_attributes.push_back(directory.attributes);
    if (directory.node == kRootNode) continue;
    if (auto got = Get(reading, directory.node, info); !got) return got;
    const auto name = Name(reading, info.parent, directory.node);
    if (!name) return tl::unexpected<Error>(name.error());
    const auto parent = positions.find(info.parent);
    if (parent == positions.end()) return Fail(ErrorCode::kDamaged, "the catalog lists a directory before its parent");
    const std::string above = parent->second == 0 ? "" : index.directories[parent->second - 1] + "/";
    index.directories.push_back(above + *name);
  }
  return {};
}

Result<Entry> Catalog::Impl::ReadEntry(Reading& reading, uint32_t directory, NodeInfo& info) const {
  const auto name = Name(reading, info.parent, info.node);
  if (!name) return tl::unexpected<Error>(name.error());
  if (info.crc_count > kMaxInlineCrcs)
    if (auto read = ReadCrcs(reading, info.node, 0, info.crc_count, info.layout.crcs); !read)
      return PassOn(std::move(read));
  return Entry{directory, *name, info.attributes, info.source_size, info.source_sha256, info.layout};
}

Catalog::Catalog(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Catalog::~Catalog() = default;

Result<std::unique_ptr<Catalog>> Catalog::Open(const std::string& folder) {
  if (auto own = CheckOwnFolder(folder); !own) return PassOn(std::move(own));
  auto impl = std::make_unique<Impl>();
  const std::string path = folder + "/" + std::string(kCatalogFile);
  impl->head_path = folder + "/" + std::string(kCatalogHeadFile);
  auto head = ReadCatalogHead(folder);
  if (!head) return PassOn(std::move(head));
  impl->head = *std::move(head);
  const auto checked = OpenChecked(path, impl->head);
  if (!checked) return tl::unexpected<Error>(checked.error());
  auto tables = TableReader::Open(path, **checked);
  if (!tables) return PassOn(std::move(tables));
  impl->tables = *std::move(tables);
  return std::unique_ptr<Catalog>(new Catalog(std::move(impl)));
}

const CatalogTotals& Catalog::totals() const { return impl_->head.totals; }
const std::vector<ShardStamp>& Catalog::shards() const { return impl_->head.shards; }

void Catalog::SetAside() const {
  if (impl_->tables->IsAtItsPath()) unlink(impl_->head_path.c_str());
}

Result<uint64_t> Catalog::Find(uint64_t parent, std::string_view name) const {
  if (name.empty() || name.size() > kMaxNameBytes) return Fail(ErrorCode::kNotFound, "no such name");
  TableReader::Reading reading(*impl_->tables);
  const auto value = reading.Get(Table::kNames, CatalogKey(parent, name));
  if (!value) return tl::unexpected<Error>(value.error());
  const auto record = DecodeName(*value);
  if (!record) return tl::unexpected<Error>(record.error());
  return record->node;
}

Result<void> Catalog::Get(uint64_t node, NodeInfo& info) const {
  TableReader::Reading reading(*impl_->tables);
  return impl_->Get(reading, node, info);
}

Result<void> Catalog::ReadCrcs(uint64_t node, uint64_t first, uint64_t count, std::vector<uint32_t>& crcs) const {
  TableReader::Reading reading(*impl_->tables);
  return impl_->ReadCrcs(reading, node, first, count, crcs);
}

Result<void> Catalog::List(uint64_t directory, uint64_t after,
                           const std::function<bool(const DirectoryItem&)>& visit) const {
  if (after == UINT64_MAX) return {};
  TableReader::Reading reading(*impl_->tables);
  return reading.Scan(Table::kChildren, {directory, after + 1}, [&](ByteSpan key, ByteSpan value) -> Result<bool> {
    const auto numbers = DecodeChildKey(key);
    if (!numbers) return tl::unexpected<Error>(numbers.error());
    if (numbers->parent != directory) return false;
    const auto child = DecodeChild(value);
    if (!child) return tl::unexpected<Error>(child.error());
    return visit({numbers->node, child->kind, child->name});
  });
}

Result<uint64_t> Catalog::LastNodeOf(size_t position) const {
  if (position >= shards().size()) return Fail(ErrorCode::kInvalidArgument, "the catalog has no such shard");
  TableReader::Reading reading(*impl_->tables);
  const auto end = impl_->EndOfShard(reading, position);
  if (!end) return tl::unexpected<Error>(end.error());
  return *end - 1;
}

Result<std::string> Catalog::Path(uint64_t node) const {
  TableReader::Reading reading(*impl_->tables);
  std::string path;
  NodeInfo info;
  while (node != kRootNode) {
    if (auto got = impl_->Get(reading, node, info); !got) return PassOn(std::move(got));
    const auto name = impl_->Name(reading, info.parent, node);
    if (!name) return tl::unexpected<Error>(name.error());
    path.insert(0, *name + (path.empty() ? "" : "/"));
    node = info.parent;  // always smaller
  }
  return path;
}

Result<ShardIndex> Catalog::ReadShard(size_t position) const {
  if (position >= shards().size()) return Fail(ErrorCode::kInvalidArgument, "the catalog has no such shard");
  TableReader::Reading reading(*impl_->tables);
  const auto record = impl_->GetShard(reading, position);
  if (!record) return tl::unexpected<Error>(record.error());
  const auto end = impl_->EndOfShard(reading, position);
  if (!end) return tl::unexpected<Error>(end.error());
  ShardIndex index;
  index.levels = record->levels;
  std::unordered_map<uint64_t, uint32_t> directories;
  if (auto read = impl_->ReadDirectories(reading, *record, index, directories); !read) return PassOn(std::move(read));
  NodeInfo info;
  for (uint64_t node = record->first_node; node < *end; ++node) {
    if (auto got = impl_->Get(reading, node, info); !got) return PassOn(std::move(got));
    if (info.kind == NodeKind::kDirectory) continue;
    const auto directory = directories.find(info.parent);
    if (info.shard != position || directory == directories.end())
      return Fail(ErrorCode::kDamaged, "the catalog lists an entry without its directory");
    auto entry = impl_->ReadEntry(reading, directory->second, info);
    if (!entry) return PassOn(std::move(entry));
    index.image_count += info.kind == NodeKind::kImage ? 1 : 0;
    index.entries.push_back(*std::move(entry));
  }
  return index;
}

}  // namespace pcrfs
