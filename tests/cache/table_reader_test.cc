// Records that are lost from a catalog, or put into it, by somebody who can make every checksum right: the links
// between records tell. (What goes bad by itself is in catalog_test.cc and fs/catalog_damage_test.cc.)
#include "cache/table_reader.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "cache/catalog.h"
#include "cache/catalog_head.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_catalog.h"
#include "tests/support/test_shard_index.h"

namespace pcrfs {
namespace {

using testing::TempDir;
using testing::TestShardBuilder;
using testing::WriteFile;

class TableReaderTest : public ::testing::Test {
 protected:
  TableReaderTest() {
    TestShardBuilder shard("PCR_0.files");
    for (int i = 0; i < 30; ++i) shard.AddOpaque("folder/" + std::to_string(i), {1, 2, 3});
    shard.AddOpaque("other/file", {4});
    testing::WriteTestCatalog(folder_.path(), {shard.Build()});
    const auto catalog = Open();
    directory_ = *catalog->Find(kRootNode, "folder");
    node_ = *catalog->Find(directory_, "7");
  }

  std::unique_ptr<Catalog> Open() const {
    auto catalog = Catalog::Open(folder_.path());
    EXPECT_TRUE(catalog) << catalog.error().message;
    return *std::move(catalog);
  }

  // Changes a table by LMDB itself and makes the head vouch for it.
  void Change(Table table, const std::function<int(MDB_txn*, MDB_dbi)>& change) {
    const std::string path = folder_ / kCatalogFile;
    MDB_env* env = nullptr;
    ASSERT_EQ(mdb_env_create(&env), 0);
    const LmdbEnv owned(env);
    mdb_env_set_maxdbs(env, kTableNames.size());
    mdb_env_set_mapsize(env, size_t{1} << 24);
    ASSERT_EQ(mdb_env_open(env, path.c_str(), MDB_NOSUBDIR | MDB_NOLOCK, 0600), 0);
    MDB_txn* transaction = nullptr;
    MDB_dbi dbi = 0;
    ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &transaction), 0);
    ASSERT_EQ(mdb_dbi_open(transaction, kTableNames[static_cast<size_t>(table)], 0, &dbi), 0);
    ASSERT_EQ(change(transaction, dbi), 0);
    ASSERT_EQ(mdb_txn_commit(transaction), 0);
    auto head = *ReadCatalogHead(folder_.path());
    const auto file = *FileSource::Open(path, FileSource::Access::kSequential);
    head.file_size = file->size();
    head.file_crcs = *CatalogFileCrcs(*file);
    WriteFile(folder_ / kCatalogHeadFile, EncodeCatalogHead(head));
  }
  void Remove(Table table, const CatalogKey& key) {
    Change(table, [&](MDB_txn* transaction, MDB_dbi dbi) {
      MDB_val lmdb_key = ToLmdb(key.bytes());
      return mdb_del(transaction, dbi, &lmdb_key, nullptr);
    });
  }

  template <typename T>
  static ErrorCode CodeOf(const Result<T>& result) {
    return result ? ErrorCode::kExists : result.error().code;
  }
  static size_t Count(const Catalog& catalog, uint64_t directory, Result<void>& result) {
    size_t count = 0;
    result = catalog.List(directory, 0, [&](const DirectoryItem&) { return ++count > 0; });
    return count;
  }

  TempDir folder_;
  uint64_t directory_ = 0, node_ = 0;
};

TEST_F(TableReaderTest, WithNothingLostAllIsFoundAndListed) {
  const auto catalog = Open();
  Result<void> listed;
  EXPECT_EQ(Count(*catalog, directory_, listed), 30u);
  EXPECT_TRUE(listed);
  EXPECT_EQ(CodeOf(catalog->Find(directory_, "70")), ErrorCode::kNotFound);
}

TEST_F(TableReaderTest, ANameThatWasLostIsDamageAndNoMissingFile) {
  Remove(Table::kNames, {directory_, std::string_view("7")});
  const auto catalog = Open();
  EXPECT_EQ(CodeOf(catalog->Find(directory_, "7")), ErrorCode::kDamaged);
  EXPECT_EQ(CodeOf(catalog->Find(directory_, "70")), ErrorCode::kDamaged) << "its place is beside the gap";
  EXPECT_TRUE(catalog->Find(directory_, "6"));
  EXPECT_TRUE(catalog->Find(directory_, "8"));
  EXPECT_EQ(CodeOf(catalog->Find(directory_, "20x")), ErrorCode::kNotFound);
}

TEST_F(TableReaderTest, AChildThatWasLostMakesNoListingShorter) {
  Remove(Table::kChildren, {directory_, node_});
  const auto catalog = Open();
  Result<void> listed;
  EXPECT_LT(Count(*catalog, directory_, listed), 30u);
  EXPECT_EQ(CodeOf(listed), ErrorCode::kDamaged);
  EXPECT_EQ(CodeOf(catalog->Path(node_)), ErrorCode::kDamaged);
}

TEST_F(TableReaderTest, TheLastRecordOfATableIsMissedToo) {
  const auto last = Open()->Find(kRootNode, "other");
  ASSERT_TRUE(last);
  Remove(Table::kChildren, {*last, Open()->totals().nodes});
  Result<void> listed;
  EXPECT_EQ(Count(*Open(), *last, listed), 0u);
  EXPECT_EQ(CodeOf(listed), ErrorCode::kDamaged);
}

TEST_F(TableReaderTest, TheFirstRecordOfATableIsMissedToo) {
  Remove(Table::kNames, FirstKey(Table::kNames));
  EXPECT_EQ(CodeOf(Open()->Find(kRootNode, "a")), ErrorCode::kDamaged);
}

TEST_F(TableReaderTest, AWholeRecordOfAnotherTreeIsSeen) {
  ByteWriter value;
  EncodeName({node_, NodeKind::kOpaque}, value);
  value.U32(0);
  const CatalogKey key(directory_, std::string_view("71"));
  Seal(Table::kNames, key.bytes(), value);
  Change(Table::kNames, [&](MDB_txn* transaction, MDB_dbi dbi) {
    MDB_val lmdb_key = ToLmdb(key.bytes()), lmdb_value = ToLmdb(value.bytes());
    return mdb_put(transaction, dbi, &lmdb_key, &lmdb_value, 0);
  });
  const auto catalog = Open();
  EXPECT_EQ(CodeOf(catalog->Find(directory_, "70")), ErrorCode::kDamaged);
  EXPECT_EQ(CodeOf(catalog->Find(directory_, "72")), ErrorCode::kDamaged);
  EXPECT_TRUE(catalog->Find(directory_, "7"));
}

TEST_F(TableReaderTest, ANodeThatWasLostIsDamage) {
  Remove(Table::kNodes, CatalogKey(node_));
  const auto catalog = Open();
  NodeInfo info;
  EXPECT_EQ(CodeOf(catalog->Get(node_, info)), ErrorCode::kDamaged);
  EXPECT_EQ(CodeOf(catalog->ReadShard(0)), ErrorCode::kDamaged) << "and no rebuild leaves it out";
}

}  // namespace
}  // namespace pcrfs
