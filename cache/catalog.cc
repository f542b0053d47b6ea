#include "cache/catalog.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <optional>
#include <unordered_map>
#include <utility>

#include "cache/cache_folder.h"
#include "cache/catalog_head.h"
#include "cache/catalog_schema.h"
#include "cache/lmdb_handles.h"
#include "format/file.h"

namespace pcrfs {
namespace {

// Read transactions that are kept for the next look-up, since beginning one costs as much as using it. The file never
// changes and nobody locks, so one is good for ever; it belongs to whoever took it. More than one slot only so that
// threads do not meet in one cache line; a thread that finds its slot empty begins another.
class ReaderPool {
 public:
  explicit ReaderPool(MDB_env* env) : env_(env) {}
  ~ReaderPool() {
    for (Slot& slot : slots_) LmdbTransaction(slot.transaction.load());
  }
  ReaderPool(const ReaderPool&) = delete;
  ReaderPool& operator=(const ReaderPool&) = delete;

  // Null when LMDB has no memory for another.
  [[nodiscard]] LmdbTransaction Take() {
    if (MDB_txn* kept = ThisThreadsSlot().exchange(nullptr, std::memory_order_acq_rel)) return LmdbTransaction(kept);
    MDB_txn* begun = nullptr;
    if (mdb_txn_begin(env_, nullptr, MDB_RDONLY, &begun) != 0) return nullptr;
    return LmdbTransaction(begun);
  }

  void GiveBack(LmdbTransaction transaction) {
    // Destroys what another thread gave back meanwhile.
    LmdbTransaction(ThisThreadsSlot().exchange(transaction.release(), std::memory_order_acq_rel));
  }

 private:
  struct alignas(64) Slot {
    std::atomic<MDB_txn*> transaction{nullptr};
  };

  std::atomic<MDB_txn*>& ThisThreadsSlot() {
    static std::atomic<size_t> threads{0};
    thread_local const size_t number = threads.fetch_add(1, std::memory_order_relaxed);
    return slots_[number % slots_.size()].transaction;
  }

  MDB_env* env_;
  std::array<Slot, 64> slots_;
};

class Reader {
 public:
  explicit Reader(ReaderPool& pool) : pool_(pool), transaction_(pool.Take()) {}
  ~Reader() {
    if (transaction_ && !spoilt_) pool_.GiveBack(std::move(transaction_));
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  [[nodiscard]] MDB_txn* get() const { return transaction_.get(); }
  // LMDB answers nothing more in a transaction that met a damaged page.
  void Spoil() { spoilt_ = true; }

 private:
  ReaderPool& pool_;
  LmdbTransaction transaction_;
  bool spoilt_ = false;
};

// Files that someone else could have written are not used.
Result<void> CheckOwnFile(const FileSource& file) {
  const struct stat& status = file.status();
  if (IsOwn(status)) return {};
  return Fail(ErrorCode::kPermission,
              Quoted(file.name()) + " is not used: others than this user and root own it or can write to it");
}

// The file at `path`, whole and as `head` says.
Result<std::unique_ptr<FileSource>> OpenChecked(const std::string& path, const CatalogHead& head) {
  auto file = FileSource::Open(path, FileSource::Access::kSequential);
  if (!file) return file;
  if (auto own = CheckOwnFile(**file); !own) return PassOn(std::move(own));
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
  std::string path, head_path;
  CatalogHead head;
  LmdbEnv env;
  std::array<MDB_dbi, kTableNames.size()> tables{};
  std::optional<ReaderPool> readers;  // goes before env

  Result<void> OpenEnvironment(const FileSource& checked);
  Result<void> OpenTables();

  [[nodiscard]] MDB_dbi table(Table t) const { return tables[static_cast<size_t>(t)]; }
  tl::unexpected<Error> Failed(Reader& reader, int number) const;

  // The checked value of `key`, in the mapping; kNotFound when there is none.
  Result<ByteSpan> Value(Reader& reader, Table t, const CatalogKey& key) const;
  // The same of a record that must be there: kDamaged when there is none.
  Result<ByteSpan> Needed(Reader& reader, Table t, const CatalogKey& key) const;
  // That the records on both sides of where `key` would lie are whole: one whose key has gone bad is not found under
  // the right one, and turns a search away from its neighbours.
  Result<void> CheckAround(Reader& reader, Table t, const CatalogKey& key) const;
  // Visits checked records from `first` on, until `visit` gives false or fails.
  Result<void> Scan(Reader& reader, Table t, const CatalogKey& first,
                    const std::function<Result<bool>(ByteSpan key, ByteSpan value)>& visit) const;

  Result<void> Get(Reader& reader, uint64_t node, NodeInfo& info) const;
  Result<std::string_view> Name(Reader& reader, uint64_t parent, uint64_t node) const;
  Result<void> ReadCrcs(Reader& reader, uint64_t node, uint64_t first, uint64_t count,
                        std::vector<uint32_t>& crcs) const;
  Result<ShardRecord> GetShard(Reader& reader, size_t position) const;
  Result<void> ReadDirectories(Reader& reader, const ShardRecord& record, ShardIndex& index,
                               std::unordered_map<uint64_t, uint32_t>& positions) const;
  Result<Entry> ReadEntry(Reader& reader, uint32_t directory, NodeInfo& info) const;
};

Result<void> Catalog::Impl::OpenEnvironment(const FileSource& checked) {
  MDB_env* created = nullptr;
  if (const int rc = mdb_env_create(&created); rc != 0) return LmdbFail("opening", path, rc);
  env.reset(created);
  mdb_env_set_maxdbs(created, kTableNames.size());
  mdb_env_set_mapsize(created, checked.size());  // not a byte more, there is nothing behind it
  constexpr unsigned kFlags = MDB_RDONLY | MDB_NOLOCK | MDB_NOSUBDIR | MDB_NORDAHEAD;
  if (const int rc = mdb_env_open(created, path.c_str(), kFlags, 0); rc != 0) return LmdbFail("opening", path, rc);
  int fd = -1;
  struct stat status;
  mdb_env_get_fd(created, &fd);
  if (fstat(fd, &status) != 0) return SystemFail("looking at " + Quoted(path), errno);
  if (status.st_dev != checked.status().st_dev || status.st_ino != checked.status().st_ino)
    return Fail(ErrorCode::kStale, Quoted(path) + " was replaced while it was opened");
  return {};
}

Result<void> Catalog::Impl::OpenTables() {
  MDB_txn* begun = nullptr;
  if (const int rc = mdb_txn_begin(env.get(), nullptr, MDB_RDONLY, &begun); rc != 0)
    return LmdbFail("opening", path, rc);
  LmdbTransaction transaction(begun);
  for (size_t t = 0; t < tables.size(); ++t)
    if (const int rc = mdb_dbi_open(begun, kTableNames[t], 0, &tables[t]); rc != 0)
      return LmdbFail("opening", path, rc);
  if (const int rc = mdb_txn_commit(transaction.release()); rc != 0) return LmdbFail("opening", path, rc);
  readers.emplace(env.get());
  return {};
}

tl::unexpected<Error> Catalog::Impl::Failed(Reader& reader, int number) const {
  reader.Spoil();
  return LmdbFail("reading", path, number);
}

Result<ByteSpan> Catalog::Impl::Value(Reader& reader, Table t, const CatalogKey& key) const {
  if (reader.get() == nullptr) return LmdbFail("reading", path, ENOMEM);
  MDB_val lmdb_key = ToLmdb(key.bytes()), value;
  const int rc = mdb_get(reader.get(), table(t), &lmdb_key, &value);
  if (rc == MDB_NOTFOUND) return Fail(ErrorCode::kNotFound, "the catalog has no such record");
  if (rc != 0) return Failed(reader, rc);
  return Unseal(t, key.bytes(), FromLmdb(value));
}

Result<ByteSpan> Catalog::Impl::Needed(Reader& reader, Table t, const CatalogKey& key) const {
  auto value = Value(reader, t, key);
  if (value || value.error().code != ErrorCode::kNotFound) return value;
  return Fail(ErrorCode::kDamaged,
              "the catalog " + Quoted(path) + " lacks a record in its table " + kTableNames[static_cast<size_t>(t)]);
}

Result<void> Catalog::Impl::CheckAround(Reader& reader, Table t, const CatalogKey& key) const {
  if (reader.get() == nullptr) return LmdbFail("reading", path, ENOMEM);
  MDB_cursor* opened = nullptr;
  if (const int rc = mdb_cursor_open(reader.get(), table(t), &opened); rc != 0) return Failed(reader, rc);
  const LmdbCursor cursor(opened);
  MDB_val found = ToLmdb(key.bytes()), value;
  const auto check = [&](MDB_cursor_op where) -> Result<bool> {  // false when nothing is there
    const int rc = mdb_cursor_get(opened, &found, &value, where);
    if (rc == MDB_NOTFOUND) return false;
    if (rc != 0) return Failed(reader, rc);
    if (const auto payload = Unseal(t, FromLmdb(found), FromLmdb(value)); !payload)
      return tl::unexpected<Error>(payload.error());
    return true;
  };
  auto behind = check(MDB_SET_RANGE);
  if (!behind) return PassOn(std::move(behind));
  if (auto before = check(*behind ? MDB_PREV : MDB_LAST); !before) return PassOn(std::move(before));
  return {};
}

Result<void> Catalog::Impl::Scan(Reader& reader, Table t, const CatalogKey& first,
                                 const std::function<Result<bool>(ByteSpan key, ByteSpan value)>& visit) const {
  if (auto whole = CheckAround(reader, t, first); !whole) return whole;
  MDB_cursor* opened = nullptr;
  if (const int rc = mdb_cursor_open(reader.get(), table(t), &opened); rc != 0) return Failed(reader, rc);
  const LmdbCursor cursor(opened);
  MDB_val key = ToLmdb(first.bytes()), value;
  int rc = mdb_cursor_get(opened, &key, &value, MDB_SET_RANGE);
  for (; rc == 0; rc = mdb_cursor_get(opened, &key, &value, MDB_NEXT)) {
    const auto payload = Unseal(t, FromLmdb(key), FromLmdb(value));
    if (!payload) return tl::unexpected<Error>(payload.error());
    const auto go_on = visit(FromLmdb(key), *payload);
    if (!go_on) return tl::unexpected<Error>(go_on.error());
    if (!*go_on) return {};
  }
  if (rc != MDB_NOTFOUND) return Failed(reader, rc);
  return {};
}

Result<void> Catalog::Impl::Get(Reader& reader, uint64_t node, NodeInfo& info) const {
  // Numbers are dense, so each of them has its record.
  const bool numbered = node >= kRootNode && node <= head.totals.nodes;
  const auto value =
      numbered ? Needed(reader, Table::kNodes, CatalogKey(node)) : Value(reader, Table::kNodes, CatalogKey(node));
  if (!value) return tl::unexpected<Error>(value.error());
  if (auto decoded = DecodeNode(node, *value, info); !decoded) return decoded;
  if (info.kind != NodeKind::kDirectory && info.shard >= head.shards.size())
    return Fail(ErrorCode::kDamaged, "the catalog places an entry in a shard that it does not list");
  return {};
}

Result<std::string_view> Catalog::Impl::Name(Reader& reader, uint64_t parent, uint64_t node) const {
  const auto value = Needed(reader, Table::kChildren, {parent, node});
  if (!value) return tl::unexpected<Error>(value.error());
  const auto child = DecodeChild(*value);
  if (!child) return tl::unexpected<Error>(child.error());
  return child->name;
}

Result<void> Catalog::Impl::ReadCrcs(Reader& reader, uint64_t node, uint64_t first, uint64_t count,
                                     std::vector<uint32_t>& crcs) const {
  crcs.clear();
  for (const uint64_t end = first + count; first < end;) {
    const uint64_t chunk = first / kMaxInlineCrcs, skip = first % kMaxInlineCrcs;
    const auto value = Needed(reader, Table::kCrcs, {node, chunk});
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

Result<ShardRecord> Catalog::Impl::GetShard(Reader& reader, size_t position) const {
  const auto value = Needed(reader, Table::kShards, CatalogKey(position));
  if (!value) return tl::unexpected<Error>(value.error());
  return DecodeShard(*value);
}

// `positions`: from the node of a directory to its position in the shard's list.
Result<void> Catalog::Impl::ReadDirectories(Reader& reader, const ShardRecord& record, ShardIndex& index,
                                            std::unordered_map<uint64_t, uint32_t>& positions) const {
  NodeInfo info;
  for (const ShardRecord::Directory& directory : record.directories) {
    if (!positions.emplace(directory.node, positions.size()).second)
      return Fail(ErrorCode::kDamaged, "the catalog lists a directory of a shard twice");
    index.directory_attributes.push_back(directory.attributes);
    if (directory.node == kRootNode) continue;
    if (auto got = Get(reader, directory.node, info); !got) return got;
    const auto name = Name(reader, info.parent, directory.node);
    if (!name) return tl::unexpected<Error>(name.error());
    const auto parent = positions.find(info.parent);
    if (parent == positions.end()) return Fail(ErrorCode::kDamaged, "the catalog lists a directory before its parent");
    const std::string above = parent->second == 0 ? "" : index.directories[parent->second - 1] + "/";
    index.directories.push_back(above + std::string(*name));
  }
  return {};
}

Result<Entry> Catalog::Impl::ReadEntry(Reader& reader, uint32_t directory, NodeInfo& info) const {
  const auto name = Name(reader, info.parent, info.node);
  if (!name) return tl::unexpected<Error>(name.error());
  if (info.crc_count > kMaxInlineCrcs)
    if (auto read = ReadCrcs(reader, info.node, 0, info.crc_count, info.layout.crcs); !read)
      return PassOn(std::move(read));
  return Entry{directory, std::string(*name), info.attributes, info.source_size, info.source_sha256, info.layout};
}

Catalog::Catalog(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Catalog::~Catalog() = default;

Result<std::unique_ptr<Catalog>> Catalog::Open(const std::string& folder) {
  if (auto own = CheckOwnFolder(folder); !own) return PassOn(std::move(own));
  auto impl = std::make_unique<Impl>();
  impl->path = folder + "/" + std::string(kCatalogFile);
  impl->head_path = folder + "/" + std::string(kCatalogHeadFile);
  auto head = ReadCatalogHead(folder);
  if (!head) return PassOn(std::move(head));
  impl->head = *std::move(head);
  const auto checked = OpenChecked(impl->path, impl->head);
  if (!checked) return tl::unexpected<Error>(checked.error());
  if (auto opened = impl->OpenEnvironment(**checked); !opened) return PassOn(std::move(opened));
  if (auto opened = impl->OpenTables(); !opened) return PassOn(std::move(opened));
  return std::unique_ptr<Catalog>(new Catalog(std::move(impl)));
}

const CatalogTotals& Catalog::totals() const { return impl_->head.totals; }
const std::vector<ShardStamp>& Catalog::shards() const { return impl_->head.shards; }

void Catalog::SetAside() const {
  int fd = -1;
  mdb_env_get_fd(impl_->env.get(), &fd);
  struct stat opened, there;
  const bool current = fstat(fd, &opened) == 0 && stat(impl_->path.c_str(), &there) == 0 &&
                       opened.st_dev == there.st_dev && opened.st_ino == there.st_ino;
  if (current) unlink(impl_->head_path.c_str());
}

Result<uint64_t> Catalog::Find(uint64_t parent, std::string_view name) const {
  if (name.empty() || name.size() > kMaxNameBytes) return Fail(ErrorCode::kNotFound, "no such name");
  Reader reader(*impl_->readers);
  const CatalogKey key(parent, name);
  const auto value = impl_->Value(reader, Table::kNames, key);
  if (!value && value.error().code == ErrorCode::kNotFound)
    if (auto whole = impl_->CheckAround(reader, Table::kNames, key); !whole) return PassOn(std::move(whole));
  if (!value) return tl::unexpected<Error>(value.error());
  const auto record = DecodeName(*value);
  if (!record) return tl::unexpected<Error>(record.error());
  return record->node;
}

Result<void> Catalog::Get(uint64_t node, NodeInfo& info) const {
  Reader reader(*impl_->readers);
  return impl_->Get(reader, node, info);
}

Result<void> Catalog::ReadCrcs(uint64_t node, uint64_t first, uint64_t count, std::vector<uint32_t>& crcs) const {
  Reader reader(*impl_->readers);
  return impl_->ReadCrcs(reader, node, first, count, crcs);
}

Result<void> Catalog::List(uint64_t directory, uint64_t after,
                           const std::function<bool(const DirectoryItem&)>& visit) const {
  if (after == UINT64_MAX) return {};
  Reader reader(*impl_->readers);
  return impl_->Scan(reader, Table::kChildren, {directory, after + 1},
                     [&](ByteSpan key, ByteSpan value) -> Result<bool> {
                       const auto numbers = DecodeChildKey(key);
                       if (!numbers) return tl::unexpected<Error>(numbers.error());
                       if (numbers->parent != directory) return false;
                       const auto child = DecodeChild(value);
                       if (!child) return tl::unexpected<Error>(child.error());
                       return visit({numbers->node, child->kind, child->name});
                     });
}

Result<std::string> Catalog::Path(uint64_t node) const {
  Reader reader(*impl_->readers);
  std::string path;
  NodeInfo info;
  while (node != kRootNode) {
    if (auto got = impl_->Get(reader, node, info); !got) return PassOn(std::move(got));
    const auto name = impl_->Name(reader, info.parent, node);
    if (!name) return tl::unexpected<Error>(name.error());
    path.insert(0, std::string(*name) + (path.empty() ? "" : "/"));
    node = info.parent;  // always smaller
  }
  return path;
}

Result<ShardIndex> Catalog::ReadShard(size_t position) const {
  if (position >= shards().size()) return Fail(ErrorCode::kInvalidArgument, "the catalog has no such shard");
  Reader reader(*impl_->readers);
  const auto record = impl_->GetShard(reader, position);
  if (!record) return tl::unexpected<Error>(record.error());
  ShardIndex index;
  index.levels = record->levels;
  std::unordered_map<uint64_t, uint32_t> directories;
  if (auto read = impl_->ReadDirectories(reader, *record, index, directories); !read) return PassOn(std::move(read));
  NodeInfo info;
  const auto visit = [&](ByteSpan key, ByteSpan value) -> Result<bool> {
    const auto node = DecodeNodeKey(key);
    if (!node) return tl::unexpected<Error>(node.error());
    if (auto decoded = DecodeNode(*node, value, info); !decoded) return tl::unexpected<Error>(decoded.error());
    if (info.shard != position) return false;
    if (info.kind == NodeKind::kDirectory) return true;
    const auto directory = directories.find(info.parent);
    if (directory == directories.end())
      return Fail(ErrorCode::kDamaged, "the catalog lists an entry without its directory");
    auto entry = impl_->ReadEntry(reader, directory->second, info);
    if (!entry) return PassOn(std::move(entry));
    index.image_count += info.kind == NodeKind::kImage ? 1 : 0;
    index.entries.push_back(*std::move(entry));
    return true;
  };
  if (auto scanned = impl_->Scan(reader, Table::kNodes, CatalogKey(record->first_node), visit); !scanned)
    return PassOn(std::move(scanned));
  return index;
}

}  // namespace pcrfs
