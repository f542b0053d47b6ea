#include "format/pack_pipeline.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "format/checksum.h"
#include "format/kept_shard.h"
#include "format/kept_shard_report.h"
#include "format/memory_gate.h"
#include "format/pack_item.h"
#include "format/shard_writer.h"
#include "format/worker_threads.h"

namespace pcrfs {
namespace {

struct ShardUnderWay {
  size_t row = 0;  // among those of all shards
  PlannedShard plan;
  std::vector<HeldContent> held;  // empty, or one an item
  std::vector<PackItem> items;    // as many as the plan has
  std::optional<LoneShard> kept;  // of an earlier pack
  size_t unfinished = 0;          // files among them that are not made yet
  uint64_t weight = 0;            // source bytes that may be held in memory
};

uint64_t WeightOf(const PlannedShard& shard) {
  uint64_t weight = 0;
  for (const SourceRecord& item : shard.items)
    if (item.size < kMaxImageSourceBytes) weight += item.size;
  return weight;
}

// Bytes that an image adds to the published part of its shard, rounded up: its fragments with their framing, its label.
uint64_t PublishedBytes(const ImageItem& item) { return item.image.bytes.size() + (kShardLevels + 1) * 11; }

PackSummary CountsOf(const LoneShard& shard) {
  PackSummary counts;
  for (const Entry& entry : shard.index.entries) {
    const bool image = entry.layout.kind == EntryKind::kImage;
    ++(!image ? counts.opaque_files : entry.layout.kept ? counts.images_kept : counts.images);
    if (image && !entry.layout.kept && entry.layout.restore.size == 0) ++counts.images_not_restorable;
    counts.source_bytes += entry.source_size;
  }
  counts.stored_bytes = shard.row.file_size;
  return counts;
}

// What becomes of a file that could not be read: it is skipped, but not for want of descriptors or memory, nor when all
// of the source is gone: a pack that goes on would leave out files that are as they should be.
Result<void> SkipUnreadable(const PackJob& job, PackReport& report, const std::string& path, Error why) {
  if (why.code == ErrorCode::kShortage) return tl::unexpected<Error>(std::move(why));
  if (auto there = job.source->CheckThere(); !there) return there;
  report.Skipped(path, WhySkipped(std::move(why)));
  return {};
}

// Turns a shard's items into the shard. Nothing of it is left under its name when that fails.
class ShardAssembly {
 public:
  ShardAssembly(const PackJob& job, PackReport& report, ShardUnderWay& shard)
      : job_(job), report_(report), shard_(shard) {}

  Result<ShardRow> Write() {
    auto writer = ShardWriter::Create({job_.dataset, shard_.plan.number, shard_.plan.root, shard_.plan.directories},
                                      TakeImages());
    if (!writer) return PassOn(std::move(writer));
    for (size_t i = 0; i < shard_.items.size(); ++i) {
      auto* opaque = std::get_if<OpaqueItem>(&shard_.items[i]);
      if (opaque == nullptr) continue;
      if (auto added = Add(*writer, shard_.plan.items[i], *opaque); !added) return PassOn(std::move(added));
    }
    auto row = writer->Finish();
    if (!row) return row;
    counts_.stored_bytes = row->file_size;
    report_.AddShard(counts_);
    return row;
  }

 private:
  std::vector<ImageItem> TakeImages() {
    std::vector<ImageItem> images;
    uint64_t published = kMaxMetadataBytes;
    for (size_t i = 0; i < shard_.items.size(); ++i) {
      auto* image = std::get_if<ImageItem>(&shard_.items[i]);
      if (image == nullptr) continue;
      if (published + PublishedBytes(*image) >= job_.published_limit) {
        shard_.items[i] = OpaqueItem{image->file, std::nullopt, image->source_size, NoRoomInShard()};
        continue;
      }
      published += PublishedBytes(*image);
      ++(image->image.kept ? counts_.images_kept : counts_.images);
      if (!image->image.not_restorable.empty()) {
        ++counts_.images_not_restorable;
        report_.NotRestorable(shard_.plan.items[i].path, image->image.not_restorable);
      }
      if (image->image.kept) report_.Kept(shard_.plan.items[i].path);
      counts_.source_bytes += image->source_size;
      images.push_back(std::move(*image));
    }
    return images;
  }

  Result<void> Add(ShardWriter& writer, const SourceRecord& item, OpaqueItem& opaque) {
    std::optional<Error> fault;
    for (int attempt = 0; attempt < kReadAttempts; ++attempt) {
      auto content = Content(item, opaque);
      if (!content) {
        fault = content.error();
        break;
      }
      const uint64_t size = (*content)->size();
      auto added = writer.AddOpaque(opaque.file, **content);
      if (!added) return PassOn(std::move(added));
      fault = std::move(*added);
      if (!fault) {
        ++counts_.opaque_files;
        counts_.source_bytes += size;
        report_.Opaque(item.path, opaque.why);
        return {};
      }
      if (fault->code != ErrorCode::kStale) break;
    }
    return SkipUnreadable(job_, report_, item.path, *std::move(fault));
  }

  // From memory, or opened again, with the attributes that it has now.
  Result<std::unique_ptr<ByteSource>> Content(const SourceRecord& item, OpaqueItem& opaque) const {
    if (opaque.content) return std::make_unique<MemorySource>(item.path, std::move(*std::exchange(opaque.content, {})));
    auto file = job_.source->Open(item);
    if (!file) return PassOn(std::move(file));
    opaque.file.attributes = (*file)->attributes();
    return std::move(*file);
  }

  const PackJob& job_;
  PackReport& report_;
  ShardUnderWay& shard_;
  PackSummary counts_;
};

class PackPipeline {
 public:
  PackPipeline(const PackJob& job, PackReport& report)
      : job_(job), report_(report), in_order_(job.source->in_order()) {}

  Result<std::vector<ShardRow>> Run() {
    RunOnThreads(job_.jobs, [this] { Work(); });
    if (failure_) return tl::unexpected<Error>(std::move(*failure_));
    return std::move(rows_);
  }

 private:
  using ShardPtr = std::shared_ptr<ShardUnderWay>;
  struct Task {
    enum class Kind { kRead, kCheck, kReport, kMakeItem, kWrite } kind;
    ShardPtr shard = nullptr;
    size_t item = 0;
  };

  void Work() {
    try {
      while (auto task = NextTask())
        if (auto done = Do(*task); !done) Stop(std::move(done.error()));
    } catch (...) {
      Stop({});
      throw;
    }
  }

  // Waits for something to do; nothing when all is done or has failed.
  std::optional<Task> NextTask() {
    std::unique_lock lock(mutex_);
    while (!failure_) {
      if (MayReadOn()) {
        reading_ = true;
        return Task{Task::Kind::kRead};
      }
      if (!tasks_.empty()) {
        Task task = std::move(tasks_.front());
        tasks_.pop_front();
        return task;
      }
      auto admitted = in_order_ ? Result<bool>(false) : AdmitShard();
      if (!admitted)
        failure_ = std::move(admitted.error());
      else if (!*admitted && at_end_ && under_way_ == 0)
        break;
      else if (!*admitted)
        changed_.wait(lock);
    }
    changed_.notify_all();
    return std::nullopt;
  }

  // Begins the plan's next shard if there is one and room for it.
  Result<bool> AdmitShard() {
    if (!next_ && !at_end_) {
      auto planned = job_.source->NextShard();
      if (!planned) return PassOn(std::move(planned));
      at_end_ = !*planned;
      if (at_end_) return false;
      next_ = std::make_shared<ShardUnderWay>();
      next_->weight = WeightOf(**planned);
      next_->plan = std::move(**planned);
    }
    if (!next_ || (under_way_ > 0 && weight_ + next_->weight > kInFlightBytes)) return false;
    Begin(*next_);
    if (job_.continued)
      tasks_.push_back({Task::Kind::kCheck, std::move(next_)});
    else
      QueueItems(std::move(next_));
    next_ = nullptr;
    return true;
  }

  void Begin(ShardUnderWay& shard) {
    ++under_way_;
    weight_ += shard.weight;
    shard.row = rows_.size();
    rows_.emplace_back();
  }

  // Whether it is time to take the next shard of an archive into memory.
  [[nodiscard]] bool MayReadOn() const {
    return in_order_ && !reading_ && !at_end_ && tasks_.size() < kReadAhead &&
           (under_way_ == 0 || weight_ + last_weight_ <= kInFlightBytes);
  }

  // Takes the next shard from an archive, with the files that are needed of it. One thread at a time.
  Result<void> Read() {
    auto planned = job_.source->NextShard();
    if (!planned) return PassOn(std::move(planned));
    if (!*planned) {
      EndReading(true);
      return {};
    }
    auto shard = std::make_shared<ShardUnderWay>();
    shard->weight = WeightOf(**planned);
    shard->plan = std::move(**planned);
    {
      const std::lock_guard lock(mutex_);
      last_weight_ = shard->weight;
      Begin(*shard);
    }
    if (job_.continued)
      if (auto found = FindKept(*shard); !found) return found;
    auto held =
        job_.source->Read(shard->plan, shard->kept ? NeededForReport(shard->plan, *shard->kept) : std::vector<bool>());
    if (!held) return PassOn(std::move(held));
    shard->held = std::move(*held);
    if (!shard->kept && IsToBeStreamed(*shard)) {
      shard->items.resize(1);
      shard->unfinished = 1;
      if (auto made = MakeItem(shard, 0); !made) return made;
      EndReading(false);
      return {};
    }
    {
      const std::lock_guard lock(mutex_);
      if (shard->kept)
        tasks_.push_back({Task::Kind::kReport, std::move(shard)});
      else
        QueueItems(std::move(shard));
    }
    EndReading(false);
    return {};
  }

  static bool IsToBeStreamed(const ShardUnderWay& shard) {
    return shard.plan.items.size() == 1 && shard.plan.items[0].kind == SourceKind::kFile && !shard.held[0];
  }

  void EndReading(bool at_end) {
    const std::lock_guard lock(mutex_);
    reading_ = false;
    at_end_ = at_end;
    changed_.notify_all();
  }

  void QueueItems(ShardPtr shard) {
    shard->items.resize(shard->plan.items.size());
    for (size_t i = 0; i < shard->items.size(); ++i) {
      if (shard->plan.items[i].kind != SourceKind::kFile) continue;
      ++shard->unfinished;
      tasks_.push_back({Task::Kind::kMakeItem, shard, i});
    }
    if (shard->unfinished == 0) tasks_.push_back({Task::Kind::kWrite, std::move(shard)});
    changed_.notify_all();
  }

  Result<void> Do(Task& task) {
    switch (task.kind) {
      case Task::Kind::kRead:
        return Read();
      case Task::Kind::kCheck:
        return Check(std::move(task.shard));
      case Task::Kind::kReport:
        return Keep(std::move(task.shard));
      case Task::Kind::kMakeItem:
        return MakeItem(std::move(task.shard), task.item);
      case Task::Kind::kWrite:
        return Write(std::move(task.shard));
    }
    return {};
  }

  Result<void> Check(ShardPtr shard) {
    if (auto found = FindKept(*shard); !found) return found;
    if (shard->kept) return Keep(std::move(shard));
    const std::lock_guard lock(mutex_);
    QueueItems(std::move(shard));
    return {};
  }

  // Looks for the shard among those of an earlier pack, and leaves nothing else under its names.
  Result<void> FindKept(ShardUnderWay& shard) {
    std::string other;
    auto kept = FindKeptShard(job_.dataset, shard.plan, *job_.source, &other);
    if (!kept) return PassOn(std::move(kept));
    shard.kept = *std::move(kept);
    if (!shard.kept && !other.empty() && !job_.source->planned())
      return Fail(ErrorCode::kInvalidArgument,
                  "what comes now is not what " + Quoted(job_.dataset + '/' + other) +
                      " was packed from; send the same archive again, or empty the folder to pack another");
    return RemoveShard(job_.dataset, shard.plan.number, shard.kept ? shard.kept->row.name : std::string());
  }

  Result<void> Keep(ShardPtr shard) {
    LoneShard& kept = *shard->kept;
    report_.AddShard(CountsOf(kept));
    if (auto told = ReportKeptShard(job_, shard->plan, shard->held, kept, encode_memory_, report_); !told) return told;
    report_.Done(kept.index.entries.size(), shard->plan.bytes);
    Finish(*shard, std::move(kept.row));
    return {};
  }

  Result<void> MakeItem(ShardPtr shard, size_t i) {
    const SourceRecord& record = shard->plan.items[i];
    HeldContent held = shard->held.empty() ? HeldContent() : std::exchange(shard->held[i], {});
    shard->items[i] = MakePackItem(*job_.source, record, std::move(held), job_.encode, encode_memory_);
    if (const auto* error = std::get_if<Error>(&shard->items[i]))
      if (auto skipped = SkipUnreadable(job_, report_, record.path, *error); !skipped) return skipped;
    report_.Done(1, record.size);
    {
      const std::lock_guard lock(mutex_);
      if (--shard->unfinished > 0) return {};
    }
    return Write(std::move(shard));
  }

  Result<void> Write(ShardPtr shard) {
    auto row = ShardAssembly(job_, report_, *shard).Write();
    if (!row) return PassOn(std::move(row));
    Finish(*shard, std::move(*row));
    return {};
  }

  void Finish(const ShardUnderWay& shard, ShardRow row) {
    const std::lock_guard lock(mutex_);
    rows_[shard.row] = std::move(row);
    --under_way_;
    weight_ -= shard.weight;
    changed_.notify_all();
  }

  void Stop(Error error) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(error);
    changed_.notify_all();
  }

  const PackJob& job_;
  PackReport& report_;
  const bool in_order_;
  MemoryGate encode_memory_{kEncodeBytes};

  std::mutex mutex_;  // guards all that follows
  std::condition_variable changed_;
  ShardPtr next_;  // planned, not admitted yet
  bool at_end_ = false;
  bool reading_ = false;      // an archive, by one of the threads
  uint64_t last_weight_ = 0;  // of the shard that was read last
  std::deque<Task> tasks_;
  uint64_t under_way_ = 0;  // shards
  uint64_t weight_ = 0;     // of those
  std::vector<ShardRow> rows_;
  std::optional<Error> failure_;
};

}  // namespace

Result<std::vector<ShardRow>> PackShards(const PackJob& job, PackReport& report) {
  return PackPipeline(job, report).Run();
}

}  // namespace pcrfs
