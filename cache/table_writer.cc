#include "cache/table_writer.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace pcrfs {
namespace {

constexpr uint64_t kBatchRecords = 65536;
constexpr uint64_t kBatchBytes = uint64_t{32} << 20;

// LMDB needs the address space beforehand. This much is free whenever a batch begins, more than any batch can fill.
constexpr uint64_t kMapRoom = uint64_t{1} << 30;

constexpr const char* kScratchName = "scratch";

// LMDB calls a write that was cut short EIO, whatever the reason.
bool DiskIsFull(const std::string& path) {
  struct statvfs status;
  return statvfs(path.c_str(), &status) == 0 && status.f_bavail * status.f_frsize < (1 << 20);
}

}  // namespace

Result<void> TableWriter::Create() {
  MDB_env* created = nullptr;
  if (const int rc = mdb_env_create(&created); rc != 0) return LmdbFail("creating", path_, rc);
  env_.reset(created);
  mdb_env_set_maxdbs(created, kTableNames.size() + 1);
  mdb_env_set_mapsize(created, kMapRoom);
  constexpr unsigned kFlags = MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC | MDB_NORDAHEAD;
  if (const int rc = mdb_env_open(created, path_.c_str(), kFlags, 0600); rc != 0)
    return LmdbFail("creating", path_, rc);
  return BeginBatch();
}

Result<void> TableWriter::BeginBatch() {
  MDB_envinfo info;
  MDB_stat stat;
  mdb_env_info(env_.get(), &info);
  mdb_env_stat(env_.get(), &stat);
  const uint64_t needed = (info.me_last_pgno + 1) * stat.ms_psize + kMapRoom;
  if (needed > info.me_mapsize)
    if (const int rc = mdb_env_set_mapsize(env_.get(), std::max<uint64_t>(needed, 2 * info.me_mapsize)); rc != 0)
      return LmdbFail("enlarging", path_, rc);
  MDB_txn* begun = nullptr;
  if (const int rc = mdb_txn_begin(env_.get(), nullptr, 0, &begun); rc != 0) return LmdbFail("writing", path_, rc);
  transaction_.reset(begun);
  for (size_t t = 0; t < tables_.size(); ++t) {
    if (const int rc = mdb_dbi_open(begun, kTableNames[t], MDB_CREATE, &tables_[t]); rc != 0)
      return LmdbFail("writing", path_, rc);
    MDB_cursor* cursor = nullptr;
    if (const int rc = mdb_cursor_open(begun, tables_[t], &cursor); rc != 0) return LmdbFail("writing", path_, rc);
    cursors_[t].reset(cursor);
  }
  if (const int rc = mdb_dbi_open(begun, kScratchName, MDB_CREATE, &scratch_); rc != 0)
    return LmdbFail("writing", path_, rc);
  batch_records_ = batch_bytes_ = 0;
  return {};
}

Result<void> TableWriter::EndBatch() {
  for (LmdbCursor& cursor : cursors_) cursor.reset();
  const int rc = mdb_txn_commit(transaction_.release());
  if (rc != 0) return LmdbFail("writing", path_, rc == EIO && DiskIsFull(path_) ? ENOSPC : rc);
  return {};
}

Result<bool> TableWriter::Append(Table table, ByteSpan key, ByteSpan value) {
  MDB_val lmdb_key = ToLmdb(key), lmdb_value = ToLmdb(value);
  MDB_cursor* cursor = cursors_[static_cast<size_t>(table)].get();
  const int rc = mdb_cursor_put(cursor, &lmdb_key, &lmdb_value, MDB_APPEND);
  if (rc == MDB_KEYEXIST) return false;
  if (rc != 0) return LmdbFail("writing", path_, rc);
  ++batch_records_;
  batch_bytes_ += key.size() + value.size();
  return true;
}

Result<ByteSpan> TableWriter::Find(MDB_dbi table, ByteSpan key) const {
  MDB_val lmdb_key = ToLmdb(key), found;
  const int rc = mdb_get(transaction_.get(), table, &lmdb_key, &found);
  if (rc == MDB_NOTFOUND) return Fail(ErrorCode::kNotFound, "the catalog has no such record");
  if (rc != 0) return LmdbFail("reading", path_, rc);
  return FromLmdb(found);
}

Result<Bytes> TableWriter::Get(Table table, ByteSpan key) const {
  const auto found = Find(tables_[static_cast<size_t>(table)], key);
  if (!found) return tl::unexpected<Error>(found.error());
  const auto value = Unseal(table, key, *found);
  if (!value) return tl::unexpected<Error>(value.error());
  return Bytes(value->begin(), value->end());
}

Result<void> TableWriter::PutScratch(ByteSpan key, ByteSpan value) {
  MDB_val lmdb_key = ToLmdb(key), lmdb_value = ToLmdb(value);
  if (const int rc = mdb_put(transaction_.get(), scratch_, &lmdb_key, &lmdb_value, 0); rc != 0)
    return LmdbFail("writing", path_, rc);
  ++batch_records_;
  return {};
}

Result<Bytes> TableWriter::GetScratch(ByteSpan key) const {
  const auto found = Find(scratch_, key);
  if (!found) return tl::unexpected<Error>(found.error());
  return Bytes(found->begin(), found->end());
}

Result<void> TableWriter::DropScratch() {
  if (const int rc = mdb_drop(transaction_.get(), scratch_, 0); rc != 0) return LmdbFail("writing", path_, rc);
  return {};
}

Result<void> TableWriter::NextBatchWhenFull() {
  if (batch_records_ < kBatchRecords && batch_bytes_ < kBatchBytes) return {};
  if (auto ended = EndBatch(); !ended) return ended;
  return BeginBatch();
}

Result<void> TableWriter::Finish() {
  if (auto ended = EndBatch(); !ended) return ended;
  env_.reset();
  return {};
}

}  // namespace pcrfs
