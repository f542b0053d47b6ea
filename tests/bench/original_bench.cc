// original_bench FOLDER [ROUNDS [READERS]]: packs FOLDER, mounts it, and reads its restorable images through original/
// by READERS threads (2), against as many threads that do jpeg_read_coefficients and jpeg_write_coefficients in memory
// on the same images as scan10 shows them. Rounds of both take turns; pages are dropped before each. Says the best of
// each and their ratio, by the clock and by processor time (of all threads and the kernel). Every image's SHA-256 is
// compared first.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "format/checksum.h"
#include "format/dataset.h"
#include "format/file.h"
#include "tests/bench/coefficient_loop.h"
#include "tests/support/mount_fixture.h"

namespace pcrfs {
namespace {

struct Cost {
  double wall = 1e9, processor = 1e9;  // seconds

  void TakeBest(const Cost& other) {
    wall = std::min(wall, other.wall);
    processor = std::min(processor, other.processor);
  }
};

double Now(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// `job` for each number below `count`, by so many threads.
Cost Measure(size_t count, unsigned threads, const std::function<void(size_t)>& job) {
  std::atomic<size_t> next = 0;
  const double wall = Now(CLOCK_MONOTONIC), processor = Now(CLOCK_PROCESS_CPUTIME_ID);
  std::vector<std::thread> running;
  for (unsigned i = 0; i < threads; ++i)
    running.emplace_back([&] {
      for (size_t n = next++; n < count; n = next++) job(n);
    });
  for (std::thread& thread : running) thread.join();
  return {Now(CLOCK_MONOTONIC) - wall, Now(CLOCK_PROCESS_CPUTIME_ID) - processor};
}

std::vector<std::string> RestorableImages(const std::string& folder) {
  std::vector<std::string> paths;
  const auto dataset = Dataset::Open(folder);
  for (size_t i = 0; i < dataset->shard_count(); ++i) {
    const auto shard = dataset->OpenShard(i);
    const auto index = dataset->ReadShardIndex(i, **shard);
    for (const Entry& entry : index->entries)
      if (NeedsRestoring(entry.layout)) paths.push_back(EntryPath(*index, entry));
  }
  return paths;
}

void ReadToEnd(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY));
  thread_local Bytes buffer(size_t{1} << 20);
  ssize_t size = 0;
  while ((size = read(fd.get(), buffer.data(), buffer.size())) > 0) {
  }
  if (size < 0) std::abort();
}

void ForgetPages(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY));
  posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
}

int Run(const std::string& folder, int rounds, unsigned threads) {
  const testing::PackedPhotos photos({.classes = 0, .extras = false}, {}, [&](const std::string& source) {
    std::filesystem::copy(folder, source, std::filesystem::copy_options::recursive);
  });
  const testing::SessionMount mount(photos);
  const std::vector<std::string> images = RestorableImages(photos.dataset());
  const auto original = [&](const std::string& image) { return mount / ("original/" + image); };
  std::vector<Bytes> stored;
  for (const std::string& image : images) {
    stored.push_back(testing::ReadFile(mount / ("scan10/" + image)));
    if (Sha256::Of(testing::ReadFile(original(image))) == Sha256::Of(testing::ReadFile(photos.source() + "/" + image)))
      continue;
    std::printf("NOT THE SOURCE: %s\n", image.c_str());
    return 1;
  }
  Cost reading, loop;
  for (int round = 0; round < rounds; ++round) {
    for (const std::string& image : images) ForgetPages(original(image));
    reading.TakeBest(Measure(images.size(), threads, [&](size_t n) { ReadToEnd(original(images[n])); }));
    loop.TakeBest(Measure(images.size(), threads, [&](size_t n) { testing::ReadAndWriteCoefficients(stored[n]); }));
  }
  const auto count = static_cast<double>(images.size());
  std::printf("%zu restorable images, %u readers\noriginal/   %7.1f images/s\nin memory   %7.1f images/s\n",
              images.size(), threads, count / reading.wall, count / loop.wall);
  std::printf("ratio %.2f by the clock, %.2f by processor time\n", loop.wall / reading.wall,
              loop.processor / reading.processor);
  return 0;
}

}  // namespace
}  // namespace pcrfs

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: original_bench FOLDER [ROUNDS [READERS]]\n");
    return 2;
  }
  return pcrfs::Run(argv[1], argc > 2 ? std::atoi(argv[2]) : 5,
                    argc > 3 ? static_cast<unsigned>(std::atoi(argv[3])) : 2);
}
