// Catalogs of shards made by hand, for tests that need no data set on disk.
#ifndef PCRFS_TESTS_SUPPORT_TEST_CATALOG_H_
#define PCRFS_TESTS_SUPPORT_TEST_CATALOG_H_

#include <string>
#include <vector>

#include "tests/support/test_shard_index.h"

namespace pcrfs::testing {

// Writes a catalog of these shards into `folder`, head and all; a failure ends the test program. Stamps have the name
// and size of each shard and otherwise zeros.
void WriteTestCatalog(const std::string& folder, const std::vector<TestShard>& shards, int levels = 10);

}  // namespace pcrfs::testing

#endif  // PCRFS_TESTS_SUPPORT_TEST_CATALOG_H_
