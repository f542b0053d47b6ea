// How long a catalog of many images takes to write, check and ask: catalog_bench [IMAGES] [path|shuffle] [FOLDER].
// Not a test; run by hand.
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cache/catalog.h"
#include "cache/catalog_head.h"
#include "cache/catalog_writer.h"
#include "format/file.h"
#include "tests/support/temp_dir.h"

namespace pcrfs {
namespace {

constexpr uint64_t kShardImages = 256, kDirectories = 1000;

// Of the wall, or of this thread's processor, which neighbours on the machine disturb less.
class Clock {
 public:
  explicit Clock(clockid_t id = CLOCK_MONOTONIC) : id_(id), start_(Now()) {}
  double Seconds() const { return Now() - start_; }

 private:
  double Now() const {
    timespec now;
    clock_gettime(id_, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
  }

  clockid_t id_;
  double start_;
};

template <typename T>
T Must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

std::string DirectoryName(uint64_t d) {
  char name[32];
  std::snprintf(name, sizeof name, "n%08u", static_cast<unsigned>(1'440'764 + d * 13));
  return name;
}

Entry MakeEntry(uint64_t image, uint32_t directory, std::mt19937_64& random) {
  Entry entry;
  char name[64];
  std::snprintf(name, sizeof name, "n%08u_%06u.JPEG", static_cast<unsigned>(1'440'764 + directory * 13),
                static_cast<unsigned>(image));
  entry.name = name;
  entry.directory = directory;
  entry.attributes = {0644, 1'600'000'000'000'000'000 + static_cast<int64_t>(image)};
  entry.source_size = 110'000;
  for (uint8_t& byte : entry.source_sha256) byte = static_cast<uint8_t>(random());
  entry.layout.kind = EntryKind::kImage;
  for (uint64_t g = 0; g < 10; ++g) {
    const uint64_t size = 8'000 + random() % 4'000;
    entry.layout.extents.push_back(
        {g * kShardImages * 10'000 + (image % kShardImages) * 10'000, size, static_cast<uint32_t>(g)});
    entry.layout.crcs.push_back(static_cast<uint32_t>(random()));
  }
  return entry;
}

// Shard `number` of a data set of `images`, in path order or shuffled.
ShardIndex MakeShard(uint64_t number, uint64_t images, bool shuffle, std::mt19937_64& random) {
  ShardIndex index;
  index.levels = 10;
  const uint64_t per_directory = images / kDirectories + 1;
  std::vector<uint64_t> directories;
  for (uint64_t i = 0; i < kShardImages; ++i) {
    const uint64_t image = number * kShardImages + i;
    directories.push_back(shuffle ? random() % kDirectories : image / per_directory);
  }
  std::vector<uint64_t> listed = directories;
  std::ranges::sort(listed);
  listed.erase(std::unique(listed.begin(), listed.end()), listed.end());
  for (const uint64_t d : listed) index.directories.push_back(DirectoryName(d));
  index.directory_attributes.resize(listed.size() + 1, {0755, 0});
  for (uint64_t i = 0; i < kShardImages; ++i) {
    const auto position = std::ranges::lower_bound(listed, directories[i]) - listed.begin();
    index.entries.push_back(MakeEntry(number * kShardImages + i, static_cast<uint32_t>(position + 1), random));
  }
  index.image_count = kShardImages;
  return index;
}

void TimeLookUps(const Catalog& catalog, unsigned threads) {
  const auto work = [&](unsigned seed) {
    std::mt19937_64 random(seed);
    NodeInfo info;
    for (int i = 0; i < 300'000; ++i)
      if (auto got = catalog.Get(1 + random() % catalog.totals().nodes, info); !got) std::exit(1);
  };
  const Clock clock;
  std::vector<std::thread> running;
  for (unsigned t = 0; t < threads; ++t) running.emplace_back(work, t);
  for (std::thread& thread : running) thread.join();
  std::printf("get, %u threads        %8.2f us each\n", threads, clock.Seconds() / 300'000 * 1e6);
}

int Main(int argc, char** argv) {
  const uint64_t images = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'280'000;
  const bool shuffle = argc > 2 && std::string(argv[2]) == "shuffle";
  const testing::TempDir own;
  const std::string folder = argc > 3 ? argv[3] : own.path();
  const std::string path = folder + "/" + std::string(kCatalogFile);
  unlink(path.c_str());
  std::mt19937_64 random(1);
  double wall = 0, processor = 0;
  CatalogWriter writer = Must(CatalogWriter::Create(path, 10));
  CatalogHead head;
  for (uint64_t s = 0; s < images / kShardImages; ++s) {
    const ShardIndex index = MakeShard(s, images, shuffle, random);
    head.shards.push_back({"PCR_" + std::to_string(s) + ".pcr", 0, 0, {}});
    const Clock clock, cpu(CLOCK_THREAD_CPUTIME_ID);
    Must(writer.AddShard(head.shards.back().name, index));
    wall += clock.Seconds();
    processor += cpu.Seconds();
  }
  const Clock clock, cpu(CLOCK_THREAD_CPUTIME_ID);
  head.totals = Must(writer.Finish());
  wall += clock.Seconds();
  processor += cpu.Seconds();
  std::printf("write                 %8.2f s, %.2f s of processor\n", wall, processor);
  const auto file = Must(FileSource::Open(path, FileSource::Access::kSequential));
  head.file_size = file->size();
  const Clock crc;
  head.file_crcs = Must(CatalogFileCrcs(*file));
  std::printf("CRC of %6.1f MB       %8.3f s   (%.0f bytes an image)\n", static_cast<double>(head.file_size) / 1e6,
              crc.Seconds(), static_cast<double>(head.file_size) / static_cast<double>(images));
  testing::WriteFile(folder + "/" + std::string(kCatalogHeadFile), EncodeCatalogHead(head));
  fsync(file->fd());
  posix_fadvise(file->fd(), 0, 0, POSIX_FADV_DONTNEED);
  const Clock cold;
  (void)Must(Catalog::Open(folder));
  std::printf("open, cold            %8.3f s\n", cold.Seconds());
  const Clock open;
  const auto catalog = Must(Catalog::Open(folder));
  std::printf("open, cached          %8.3f s\n", open.Seconds());
  for (const unsigned threads : {1u, 2u, 16u}) TimeLookUps(*catalog, threads);
  const Clock again;
  for (size_t s = 0; s < catalog->shards().size(); ++s) (void)Must(catalog->ReadShard(s));
  std::printf("read all shards back  %8.2f s\n", again.Seconds());
  return 0;
}

}  // namespace
}  // namespace pcrfs

int main(int argc, char** argv) { return pcrfs::Main(argc, argv); }
