// The LMDB side of reading a catalog: checked records out of a file that nobody trusts.
//
// LMDB verifies nothing, and what was whole at Open may go bad later. So every record is copied out of the mapping, its
// CRC-32 checked, and only the copy is looked at; that a record is not there is believed only when the two beside its
// place are whole and linked to one another (catalog_schema.h); and what LMDB does on a page that has gone bad cannot
// end the process (mapping_guard.h). So the answer is right, or kDamaged.
//
// Ownership: owns the mapping. Thread safety: Readings from any number of threads, each of one thread. Not across fork.
#ifndef PCRFS_CACHE_TABLE_READER_H_
#define PCRFS_CACHE_TABLE_READER_H_

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "cache/catalog_schema.h"
#include "cache/lmdb_handles.h"
#include "format/bytes.h"
#include "format/error.h"
#include "format/file.h"

namespace pcrfs {

class TableReader {
 public:
  class Reading;

  // `checked` is the file at `path`, every byte of which was found to be right; kStale when another lies there by now.
  [[nodiscard]] static Result<std::unique_ptr<TableReader>> Open(const std::string& path, const FileSource& checked);
  ~TableReader();
  TableReader(const TableReader&) = delete;
  TableReader& operator=(const TableReader&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  // Whether the file that was opened still lies at its path.
  [[nodiscard]] bool IsAtItsPath() const;

 private:
  struct Record {
    Bytes key, sealed;
    ByteSpan value;     // in `sealed`
    uint32_t link = 0;  // of a linked table
  };
  struct Kept;
  class Pool;

  explicit TableReader(std::string path);
  [[nodiscard]] Result<void> OpenEnvironment(const FileSource& checked);
  [[nodiscard]] Result<void> OpenTables();
  [[nodiscard]] MDB_dbi table(Table t) const { return tables_[static_cast<size_t>(t)]; }

  std::string path_;
  LmdbEnv env_;
  std::array<MDB_dbi, kTableNames.size()> tables_{};
  uint64_t file_size_ = 0;
  std::unique_ptr<Pool> pool_;  // goes before env_
};

// One look at the tables, by one read transaction.
class TableReader::Reading {
 public:
  explicit Reading(const TableReader& reader);
  ~Reading();
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  // The value of `key`, without CRC and link, valid until the next Get; kNotFound when there is none, which in a table
  // that is not linked may mean that it went bad.
  [[nodiscard]] Result<ByteSpan> Get(Table t, const CatalogKey& key);
  // The same of a record that must be there: kDamaged when there is none.
  [[nodiscard]] Result<ByteSpan> Needed(Table t, const CatalogKey& key);
  // Records of a linked table from `first` on, until `visit` gives false or fails; key and value are valid during the
  // call, which may Get but not Scan.
  [[nodiscard]] Result<void> Scan(Table t, const CatalogKey& first,
                                  const std::function<Result<bool>(ByteSpan key, ByteSpan value)>& visit);

 private:
  // An LMDB call, guarded; its number.
  template <typename Function>
  [[nodiscard]] int Call(Function function);
  // `record.key` is there already.
  [[nodiscard]] Result<void> CopyValue(Table t, const MDB_val& value, Record& record);
  // False when the cursor has no record there.
  [[nodiscard]] Result<bool> Move(Table t, MDB_cursor* cursor, MDB_cursor_op where, Record& record);
  // Puts the cursor on the record before the place of `first`, which is copied to `record`.
  [[nodiscard]] Result<void> MoveBefore(Table t, MDB_cursor* cursor, ByteSpan first, Record& record);
  [[nodiscard]] Result<void> CheckAbsent(Table t, const CatalogKey& key);
  [[nodiscard]] tl::unexpected<Error> Failed(int number);
  [[nodiscard]] tl::unexpected<Error> Lacks(Table t);

  const TableReader& reader_;
  std::unique_ptr<Kept> kept_;
  bool spoilt_ = false;
};

}  // namespace pcrfs

#endif  // PCRFS_CACHE_TABLE_READER_H_
