#include "format/pack_estimate.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "format/dataset_folder.h"
#include "format/jpeg_parser.h"
#include "format/memory_gate.h"
#include "format/pack_input.h"
#include "format/pack_item.h"
#include "format/pack_listing.h"
#include "format/pack_pipeline.h"
#include "format/pack_report.h"
#include "format/shard_partition.h"
#include "format/source_file.h"
#include "format/worker_threads.h"

namespace pcrfs {
namespace {

constexpr size_t kFilesTried = 256;
constexpr std::chrono::seconds kTimeToTry{10};
constexpr double kIndexBytes = 150;             // of an entry, about (FORMAT.md, "Why it is so")
constexpr double kStoreBytesPerSecond = 500e6;  // for what is only copied

using Clock = std::chrono::steady_clock;

// Draws files with equal chances from a stream of unknown length.
class Draw {
 public:
  void Offer(const SourceRecord& file) {
    ++offered_;
    if (drawn_.size() < kFilesTried) return drawn_.push_back(file);
    const uint64_t place = std::uniform_int_distribution<uint64_t>(0, offered_ - 1)(random_);
    if (place < kFilesTried) drawn_[place] = file;
  }
  // In random order, so that any number of the first stands for all.
  std::vector<SourceRecord> Take() {
    std::shuffle(drawn_.begin(), drawn_.end(), random_);
    return std::move(drawn_);
  }

 private:
  std::mt19937_64 random_{1911};
  uint64_t offered_ = 0;
  std::vector<SourceRecord> drawn_;
};

class Estimator {
 public:
  Estimator(std::string source, const PackOptions& options, PackObserver& observer)
      : source_(std::move(source)), options_(options), observer_(observer) {}

  Result<PackEstimate> Run(ListingOptions listing) {
    if (auto listed = List(std::move(listing)); !listed) return PassOn(std::move(listed));
    const UniqueFd folder(open(source_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder.valid()) return SystemFail("opening the source folder " + Quoted(source_), errno);
    const Clock::time_point start = Clock::now();
    TryFiles(folder.get(), start + kTimeToTry);
    const std::chrono::duration<double> took = Clock::now() - start;
    Extrapolate(took.count());
    return std::move(estimate_);
  }

 private:
  Result<void> List(ListingOptions listing) {
    PackReport report(observer_);
    listing.on_file = [&](uint64_t size) { report.Listed(size); };
    ShardPartition partition({.items = options_.record_images, .bytes = options_.record_bytes});
    const auto on_skipped = [&](const std::string& path, const Skipped& why) { report.Skipped(path, why); };
    auto totals = ListInPackOrder(source_, std::move(listing), options_.order, on_skipped,
                                  [&](const SourceRecord& record) -> Result<void> {
                                    if (!record.is_item()) return {};
                                    estimate_.shards += partition.Place(record).starts_shard ? 1U : 0U;
                                    if (record.kind == SourceKind::kFile) Count(record);
                                    return {};
                                  });
    if (!totals) return PassOn(std::move(totals));
    estimate_.tried = report.summary();
    estimate_.tried.directories = totals->folders;
    estimate_.tried.excluded = totals->excluded;
    return {};
  }

  void Count(const SourceRecord& file) {
    ++estimate_.files;
    estimate_.bytes += file.size;
    if (file.size < kStreamedBytes)
      draw_.Offer(file);
    else
      large_bytes_ += file.size;
  }

  void TryFiles(int folder, Clock::time_point end) {
    const std::vector<SourceRecord> files = draw_.Take();
    std::atomic<size_t> next{0};
    RunOnThreads(options_.jobs, [&] {
      for (size_t i = next++; i < files.size() && (i == 0 || Clock::now() < end); i = next++) Try(folder, files[i]);
    });
  }

  void Try(int folder, const SourceRecord& file) {
    const auto opened = SourceFile::Open(folder, file.path);
    const auto bytes = opened ? (*opened)->ReadWhole() : tl::unexpected(opened.error());
    if (!bytes) return;  // the pack itself will tell
    auto opaque = OpaqueUnread(bytes->size(), StartsWithSoi(*bytes));
    std::optional<EncodedImage> image;
    if (!opaque) {
      auto encoded = EncodeWithin(memory_, *bytes, options_.encode);
      if (encoded)
        image = *std::move(encoded);
      else
        opaque = std::move(encoded.error());
    }
    const std::lock_guard lock(mutex_);
    Add(bytes->size(), image, opaque);
  }

  void Add(uint64_t size, const std::optional<EncodedImage>& image, const std::optional<Opaque>& opaque) {
    PackSummary& tried = estimate_.tried;
    tried.source_bytes += size;
    if (opaque) {
      ++tried.opaque_files;
      ++tried.opaque_by_reason.at(static_cast<size_t>(opaque->reason));
      tried.stored_bytes += size;
      return;
    }
    ++(image->kept ? tried.images_kept : tried.images);
    if (!image->not_restorable.empty()) ++tried.images_not_restorable;
    tried.stored_bytes += image->bytes.size() + image->tail.size() + image->restore.size();
  }

  void Extrapolate(double seconds) {
    const PackSummary& tried = estimate_.tried;
    const auto drawn_from = static_cast<double>(estimate_.bytes - large_bytes_);
    const double share = tried.source_bytes > 0 ? drawn_from / static_cast<double>(tried.source_bytes) : 1;
    estimate_.stored_bytes = share * static_cast<double>(tried.stored_bytes) + static_cast<double>(large_bytes_) +
                             kIndexBytes * static_cast<double>(estimate_.files);
    estimate_.seconds = share * seconds + static_cast<double>(large_bytes_) / kStoreBytesPerSecond;
  }

  const std::string source_;
  const PackOptions& options_;
  PackObserver& observer_;
  PackEstimate estimate_;
  uint64_t large_bytes_ = 0;  // of files that are not drawn
  Draw draw_;
  MemoryGate memory_{kEncodeBytes};
  std::mutex mutex_;  // guards estimate_ while files are tried
};

}  // namespace

Result<PackEstimate> EstimatePack(const std::string& source, const std::string& dataset, const PackOptions& options,
                                  PackObserver& observer) {
  if (auto checked = CheckPackOptions(options); !checked) return PassOn(std::move(checked));
  auto paths = FindPackPaths(source, dataset);
  if (!paths) return PassOn(std::move(paths));
  if (auto folder = CheckIsFolder(paths->source,
                                  "what packing an archive takes cannot be estimated: for that files drawn at random "
                                  "are tried, and an archive can be read from front to back only");
      !folder)
    return PassOn(std::move(folder));
  ListingOptions listing{.exclude = options.exclude};
  struct stat status;
  if (stat(paths->dataset.c_str(), &status) == 0) listing.leave_out = FileIdentity{status.st_dev, status.st_ino};
  return Estimator(paths->source, options, observer).Run(std::move(listing));
}

}  // namespace pcrfs
