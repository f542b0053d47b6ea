// The LMDB side of writing a catalog: batches, and keys put in ascending order, so that pages are filled to the brim.
//
// A batch is one LMDB transaction; between batches the file grows. Memory: pages not yet written, about 32 MiB of
// records' worth. Nothing is synced: whoever opens a catalog checks all of it.
//
// Ownership: owns environment and file until Finish. One thread. Errors: kNoSpace, kIo; kDamaged when what it wrote
// does not read back.
#ifndef PCRFS_CACHE_TABLE_WRITER_H_
#define PCRFS_CACHE_TABLE_WRITER_H_

#include <array>
#include <cstdint>
#include <string>

#include "cache/catalog_schema.h"
#include "cache/lmdb_handles.h"
#include "format/bytes.h"
#include "format/error.h"

namespace pcrfs {

class TableWriter {
 public:
  explicit TableWriter(std::string path) : path_(std::move(path)) {}
  [[nodiscard]] Result<void> Create();

  // `value` is sealed. False, and nothing is changed, when `key` is not beyond the table's last.
  [[nodiscard]] Result<bool> Append(Table table, ByteSpan key, ByteSpan value);
  // What was appended, without its CRC; kNotFound.
  [[nodiscard]] Result<Bytes> Get(Table table, ByteSpan key) const;

  // A table for the writer's own use, in any order of keys, of which nothing remains in the end. Values are not sealed.
  [[nodiscard]] Result<void> PutScratch(ByteSpan key, ByteSpan value);
  [[nodiscard]] Result<Bytes> GetScratch(ByteSpan key) const;
  [[nodiscard]] Result<void> DropScratch();

  // To be called now and then.
  [[nodiscard]] Result<void> NextBatchWhenFull();
  [[nodiscard]] Result<void> Finish();

 private:
  Result<void> BeginBatch();
  Result<void> EndBatch();
  Result<ByteSpan> Find(MDB_dbi table, ByteSpan key) const;

  std::string path_;
  LmdbEnv env_;
  std::array<MDB_dbi, kTableNames.size()> tables_{};
  MDB_dbi scratch_ = 0;
  LmdbTransaction transaction_;
  std::array<LmdbCursor, kTableNames.size()> cursors_;  // go before the transaction
  uint64_t batch_records_ = 0, batch_bytes_ = 0;
};

}  // namespace pcrfs

#endif  // PCRFS_CACHE_TABLE_WRITER_H_
