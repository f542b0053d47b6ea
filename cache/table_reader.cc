#include "cache/table_reader.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "cache/mapping_guard.h"

namespace pcrfs {
namespace {

// Buffers that grew beyond this are not kept.
constexpr size_t kKeptBytes = size_t{64} << 10;

void Assertion(MDB_env* /*env*/, const char* /*message*/) { GiveUpGuarded(); }

// No writer makes larger ones. Shards list their directories, of which there may be many.
uint64_t MaxValueBytes(Table t, uint64_t file_size) {
  if (t == Table::kShards) return file_size;
  return t == Table::kNodes ? uint64_t{1} << 20 : uint64_t{4} << 10;
}

int Compare(ByteSpan a, ByteSpan b) { return AsText(a).compare(AsText(b)); }

}  // namespace

// A read transaction, since beginning one costs as much as using it, and memory for copies. The file never changes and
// nobody locks, so one is good for ever.
struct TableReader::Kept {
  LmdbTransaction transaction;
  int failed = 0;  // why there is none
  Record got, scanned;
};

// What is kept for the next look-up; it belongs to whoever took it. More than one slot only so that threads do not meet
// in one cache line; a thread that finds its slot empty begins another.
class TableReader::Pool {
 public:
  explicit Pool(MDB_env* env) : env_(env) {}
  ~Pool() {
    for (Slot& slot : slots_) std::unique_ptr<Kept>(slot.kept.load());
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  [[nodiscard]] std::unique_ptr<Kept> Take() {
    if (Kept* kept = ThisThreadsSlot().exchange(nullptr, std::memory_order_acq_rel)) return std::unique_ptr<Kept>(kept);
    auto made = std::make_unique<Kept>();
    MDB_txn* begun = nullptr;
    made->failed = MDB_CORRUPTED;
    if (Guarded([&] { made->failed = mdb_txn_begin(env_, nullptr, MDB_RDONLY, &begun); }) && made->failed == 0)
      made->transaction.reset(begun);
    return made;
  }

  void GiveBack(std::unique_ptr<Kept> kept) {
    for (Record* record : {&kept->got, &kept->scanned})
      if (record->sealed.capacity() > kKeptBytes) *record = Record();
    // Destroys what another thread gave back meanwhile.
    std::unique_ptr<Kept>(ThisThreadsSlot().exchange(kept.release(), std::memory_order_acq_rel));
  }

 private:
  struct alignas(64) Slot {
    std::atomic<Kept*> kept{nullptr};
  };

  std::atomic<Kept*>& ThisThreadsSlot() {
    static std::atomic<size_t> threads{0};
    thread_local const size_t number = threads.fetch_add(1, std::memory_order_relaxed);
    return slots_[number % slots_.size()].kept;
  }

  MDB_env* env_;
  std::array<Slot, 64> slots_;
};

TableReader::TableReader(std::string path) : path_(std::move(path)) {}
TableReader::~TableReader() = default;

Result<std::unique_ptr<TableReader>> TableReader::Open(const std::string& path, const FileSource& checked) {
  InstallMappingGuard();
  std::unique_ptr<TableReader> reader(new TableReader(path));
  if (auto opened = reader->OpenEnvironment(checked); !opened) return PassOn(std::move(opened));
  if (auto opened = reader->OpenTables(); !opened) return PassOn(std::move(opened));
  reader->pool_ = std::make_unique<Pool>(reader->env_.get());
  return reader;
}

Result<void> TableReader::OpenEnvironment(const FileSource& checked) {
  MDB_env* created = nullptr;
  if (const int rc = mdb_env_create(&created); rc != 0) return LmdbFail("opening", path_, rc);
  env_.reset(created);
  mdb_env_set_maxdbs(created, kTableNames.size());
  mdb_env_set_mapsize(created, checked.size());  // not a byte more, there is nothing behind it
  mdb_env_set_assert(created, Assertion);
  constexpr unsigned kFlags = MDB_RDONLY | MDB_NOLOCK | MDB_NOSUBDIR | MDB_NORDAHEAD;
  if (const int rc = mdb_env_open(created, path_.c_str(), kFlags, 0); rc != 0) return LmdbFail("opening", path_, rc);
  int fd = -1;
  struct stat status;
  mdb_env_get_fd(created, &fd);
  if (fstat(fd, &status) != 0) return SystemFail("looking at " + Quoted(path_), errno);
  if (status.st_dev != checked.status().st_dev || status.st_ino != checked.status().st_ino)
    return Fail(ErrorCode::kStale, Quoted(path_) + " was replaced while it was opened");
  file_size_ = checked.size();
  return {};
}

Result<void> TableReader::OpenTables() {
  MDB_txn* begun = nullptr;
  if (const int rc = mdb_txn_begin(env_.get(), nullptr, MDB_RDONLY, &begun); rc != 0)
    return LmdbFail("opening", path_, rc);
  LmdbTransaction transaction(begun);
  for (size_t t = 0; t < tables_.size(); ++t)
    if (const int rc = mdb_dbi_open(begun, kTableNames[t], 0, &tables_[t]); rc != 0)
      return LmdbFail("opening", path_, rc);
  if (const int rc = mdb_txn_commit(transaction.release()); rc != 0) return LmdbFail("opening", path_, rc);
  return {};
}

bool TableReader::IsAtItsPath() const {
  int fd = -1;
  mdb_env_get_fd(env_.get(), &fd);
  struct stat opened, there;
  return fstat(fd, &opened) == 0 && stat(path_.c_str(), &there) == 0 && opened.st_dev == there.st_dev &&
         opened.st_ino == there.st_ino;
}

TableReader::Reading::Reading(const TableReader& reader) : reader_(reader), kept_(reader.pool_->Take()) {}

// LMDB answers nothing more in a transaction that met a damaged page, and one that began on such a page remembers it.
TableReader::Reading::~Reading() {
  if (kept_->transaction && !spoilt_) reader_.pool_->GiveBack(std::move(kept_));
}

template <typename Function>
int TableReader::Reading::Call(Function function) {
  if (!kept_->transaction) return kept_->failed;
  int rc = MDB_CORRUPTED;
  if (!Guarded([&] { rc = function(kept_->transaction.get()); })) rc = MDB_CORRUPTED;
  return rc;
}

tl::unexpected<Error> TableReader::Reading::Failed(int number) {
  spoilt_ = true;
  return LmdbFail("reading", reader_.path_, number);
}

tl::unexpected<Error> TableReader::Reading::Lacks(Table t) {
  spoilt_ = true;
  return Fail(ErrorCode::kDamaged, "the catalog " + Quoted(reader_.path_) + " lacks a record in its table " +
                                       kTableNames[static_cast<size_t>(t)]);
}

Result<void> TableReader::Reading::CopyValue(Table t, const MDB_val& value, Record& record) {
  if (value.mv_size > MaxValueBytes(t, reader_.file_size_)) return Failed(MDB_CORRUPTED);
  record.sealed.resize(value.mv_size);
  const int rc = Call([&](MDB_txn*) {
    std::copy_n(static_cast<const uint8_t*>(value.mv_data), value.mv_size, record.sealed.data());
    return 0;
  });
  if (rc != 0) return Failed(rc);
  auto unsealed = Unseal(t, record.key, record.sealed);
  spoilt_ = spoilt_ || !unsealed;
  if (!unsealed) return PassOn(std::move(unsealed));
  record.value = *unsealed;
  if (!IsLinked(t)) return {};
  return SplitLink(record.value, record.link);
}

Result<ByteSpan> TableReader::Reading::Get(Table t, const CatalogKey& key) {
  Record& record = kept_->got;
  record.key.assign(key.bytes().begin(), key.bytes().end());
  MDB_val lmdb_key = ToLmdb(record.key), value{};
  const int rc = Call([&](MDB_txn* transaction) { return mdb_get(transaction, reader_.table(t), &lmdb_key, &value); });
  if (rc == MDB_NOTFOUND && IsLinked(t))
    if (auto absent = CheckAbsent(t, key); !absent) return PassOn(std::move(absent));
  if (rc == MDB_NOTFOUND) return Fail(ErrorCode::kNotFound, "the catalog has no such record");
  if (rc != 0) return Failed(rc);
  if (auto copied = CopyValue(t, value, record); !copied) return PassOn(std::move(copied));
  return record.value;
}

Result<ByteSpan> TableReader::Reading::Needed(Table t, const CatalogKey& key) {
  auto value = Get(t, key);
  if (!value && value.error().code == ErrorCode::kNotFound) return Lacks(t);
  return value;
}

Result<bool> TableReader::Reading::Move(Table t, MDB_cursor* cursor, MDB_cursor_op where, Record& record) {
  // Of MDB_SET_RANGE the key is what is looked for, and is replaced.
  MDB_val key = ToLmdb(record.key), value{};
  int rc = Call([&](MDB_txn*) { return mdb_cursor_get(cursor, &key, &value, where); });
  if (rc == MDB_NOTFOUND) return false;
  if (rc == 0 && key.mv_size > sizeof(CatalogKey)) rc = MDB_CORRUPTED;
  if (rc != 0) return Failed(rc);
  Bytes copy(key.mv_size);
  rc = Call([&](MDB_txn*) {
    std::copy_n(static_cast<const uint8_t*>(key.mv_data), key.mv_size, copy.data());
    return 0;
  });
  if (rc != 0) return Failed(rc);
  record.key = std::move(copy);
  if (auto copied = CopyValue(t, value, record); !copied) return PassOn(std::move(copied));
  return true;
}

Result<void> TableReader::Reading::MoveBefore(Table t, MDB_cursor* cursor, ByteSpan first, Record& record) {
  record.key.assign(first.begin(), first.end());
  const auto behind = Move(t, cursor, MDB_SET_RANGE, record);
  if (!behind) return tl::unexpected<Error>(behind.error());
  const auto before = Move(t, cursor, *behind ? MDB_PREV : MDB_LAST, record);
  if (!before) return tl::unexpected<Error>(before.error());
  if (!*before || Compare(record.key, first) >= 0) return Lacks(t);
  return {};
}

Result<void> TableReader::Reading::Scan(Table t, const CatalogKey& first,
                                        const std::function<Result<bool>(ByteSpan key, ByteSpan value)>& visit) {
  MDB_cursor* opened = nullptr;
  const int rc = Call([&](MDB_txn* transaction) { return mdb_cursor_open(transaction, reader_.table(t), &opened); });
  if (rc != 0) return Failed(rc);
  const LmdbCursor cursor(opened);
  Record& record = kept_->scanned;
  if (auto moved = MoveBefore(t, opened, first.bytes(), record); !moved) return moved;
  while (true) {
    const uint32_t link = record.link;
    const auto moved = Move(t, opened, MDB_NEXT, record);
    if (!moved) return tl::unexpected<Error>(moved.error());
    if (link != LinkTo(*moved ? ByteSpan(record.key) : ByteSpan())) return Lacks(t);
    if (!*moved) return {};
    if (Compare(record.key, first.bytes()) < 0) return Lacks(t);
    const auto go_on = visit(record.key, record.value);
    if (!go_on) return tl::unexpected<Error>(go_on.error());
    if (!*go_on) return {};
  }
}

Result<void> TableReader::Reading::CheckAbsent(Table t, const CatalogKey& key) {
  return Scan(t, key, [&](ByteSpan found, ByteSpan) -> Result<bool> {
    if (Compare(found, key.bytes()) == 0) return Lacks(t);
    return false;
  });
}

}  // namespace pcrfs
