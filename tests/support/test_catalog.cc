#include "tests/support/test_catalog.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "cache/catalog_head.h"
#include "cache/catalog_writer.h"
#include "format/file.h"
#include "tests/support/temp_dir.h"

namespace pcrfs::testing {
namespace {

template <typename T>
T Must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::abort();
  }
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace

void WriteTestCatalog(const std::string& folder, const std::vector<TestShard>& shards, int levels) {
  const std::string path = folder + "/" + std::string(kCatalogFile);
  unlink(path.c_str());
  CatalogWriter writer = Must(CatalogWriter::Create(path, levels));
  CatalogHead head;
  for (const TestShard& shard : shards) {
    Must(writer.AddShard(shard.name, shard.index));
    head.shards.push_back({shard.name, shard.bytes.size(), 0, {}});
  }
  head.totals = Must(writer.Finish());
  const auto file = Must(FileSource::Open(path, FileSource::Access::kSequential));
  head.file_size = file->size();
  head.file_crcs = Must(CatalogFileCrcs(*file));
  WriteFile(folder + "/" + std::string(kCatalogHeadFile), EncodeCatalogHead(head));
}

}  // namespace pcrfs::testing
