// LMDB's handles as objects that close themselves, and its error numbers as errors. For cache/*.cc only: no other
// header of ours includes <lmdb.h>.
//
// Ownership: a transaction must go before its environment. Thread safety: LMDB's; a transaction belongs to one thread
// at a time.
#ifndef PCRFS_CACHE_LMDB_HANDLES_H_
#define PCRFS_CACHE_LMDB_HANDLES_H_

#include <lmdb.h>

#include <memory>
#include <string>
#include <string_view>

#include "format/bytes.h"
#include "format/error.h"

namespace pcrfs {

struct LmdbCloser {
  void operator()(MDB_env* env) const { mdb_env_close(env); }
  void operator()(MDB_txn* transaction) const { mdb_txn_abort(transaction); }
  void operator()(MDB_cursor* cursor) const { mdb_cursor_close(cursor); }
};
using LmdbEnv = std::unique_ptr<MDB_env, LmdbCloser>;
using LmdbTransaction = std::unique_ptr<MDB_txn, LmdbCloser>;
using LmdbCursor = std::unique_ptr<MDB_cursor, LmdbCloser>;

// LMDB's own numbers are negative, those of errno positive.
[[nodiscard]] inline tl::unexpected<Error> LmdbFail(std::string_view what, const std::string& path, int number) {
  const std::string context = std::string(what) + " the catalog " + Quoted(path);
  if (number > 0) return SystemFail(context, number);
  // What it says of its own limits is no damage; of a file that was whole when it was opened all else is.
  const bool damaged = number != MDB_MAP_FULL && number != MDB_DBS_FULL && number != MDB_READERS_FULL &&
                       number != MDB_TLS_FULL && number != MDB_TXN_FULL;
  return Fail(damaged ? ErrorCode::kDamaged : ErrorCode::kIo, context + ": " + mdb_strerror(number));
}

// LMDB takes pointers to non-const and does not write through them.
[[nodiscard]] inline MDB_val ToLmdb(ByteSpan bytes) { return {bytes.size(), const_cast<uint8_t*>(bytes.data())}; }
[[nodiscard]] inline ByteSpan FromLmdb(const MDB_val& value) {
  return {static_cast<const uint8_t*>(value.mv_data), value.mv_size};
}

}  // namespace pcrfs

#endif  // PCRFS_CACHE_LMDB_HANDLES_H_
