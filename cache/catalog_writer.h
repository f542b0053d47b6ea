// Writes the LMDB file of a catalog from shard indexes, one after the other, and numbers the nodes as it goes.
//
// Knows nothing of folders, locks and data sets (catalog_builder.h does), so that tests and other kinds of data sets
// can feed it. Memory: one shard index at a time, 64 MiB of names to sort and some 40 MB of pages not yet written,
// however many images. What it writes is not synced: whoever opens a catalog checks all of it.
//
// Ownership: owns the file until Finish. One thread at a time. Errors: kDamaged for a path that two shards hold or that
// is both file and directory (message names path and shards; found by Finish), kInvalidArgument for an index that
// breaks the invariants of shard_index.h, kNoSpace, kIo. After an error the writer and its file are of no more use.
#ifndef PCRFS_CACHE_CATALOG_WRITER_H_
#define PCRFS_CACHE_CATALOG_WRITER_H_

#include <memory>
#include <string>

#include "cache/catalog.h"
#include "format/error.h"
#include "format/shard_index.h"

namespace pcrfs {

class CatalogWriter {
 public:
  // Makes the file at `path`, which must not exist. `levels`: how many the data set shows, 1..31.
  [[nodiscard]] static Result<CatalogWriter> Create(const std::string& path, int levels);
  ~CatalogWriter();
  CatalogWriter(CatalogWriter&&) noexcept;
  CatalogWriter& operator=(CatalogWriter&&) = delete;

  // Shards in row order. Of `index`, levels, directories, directory_attributes and entries are used; `name` is for
  // messages.
  [[nodiscard]] Result<void> AddShard(const std::string& name, const ShardIndex& index);
  // Writes what is left and closes the file.
  [[nodiscard]] Result<CatalogTotals> Finish();

 private:
  struct Impl;
  explicit CatalogWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pcrfs

#endif  // PCRFS_CACHE_CATALOG_WRITER_H_
