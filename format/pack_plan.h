// pack.plan: what a pack has decided before it writes its first shard, so that the same command can continue it after
// a kill and end with the same bytes. A working file of pcrfs, beside the shards only while a pack is under way
// (FORMAT.md, "Working files"); not part of the frozen format, and read only by the version that wrote it.
//
//   8 bytes 'PCRFSPLN', u32 version, source, options
//   records: u8 kind (SourceKind), path as (bytes shared with the path before, rest), varint size (files only),
//            varint mode, u64 mtime in ns, and where the kind has 0x10 added varint number of the archive's member. A
//            folder stands before each item below it that follows one not below it, so in path order once; whoever
//            reads on knows all folders above an item by a stack
//   u8 0xFF, varint number of labels, label list
//   u32 CRC-32 of all that stands before
//
// Text is a varint length and its bytes. Both writer and reader stream: memory does not grow with the number of
// records. Objects belong to one thread at a time; any number of cursors may read one plan.
// Errors: kDamaged, kUnsupported (another version), kLimit (labels), and those of reading and writing files.
#ifndef PCRFS_FORMAT_PACK_PLAN_H_
#define PCRFS_FORMAT_PACK_PLAN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "format/bytes.h"
#include "format/checksum.h"
#include "format/error.h"
#include "format/file.h"
#include "format/source_tree.h"

namespace pcrfs {

inline constexpr std::string_view kPackPlanName = "pack.plan";

inline constexpr size_t kMaxPlanTextBytes = 4095;

struct PlanHeader {
  std::string source;   // real path of SOURCE, at most kMaxPlanTextBytes
  std::string options;  // DatasetIndex::pack_options, at most kMaxPlanTextBytes

  friend bool operator==(const PlanHeader&, const PlanHeader&) = default;
};

struct PlanSummary {
  std::vector<std::string> labels;  // the top-level folders, byte-sorted
  uint64_t items = 0;
  uint64_t files = 0;
  uint64_t bytes = 0;       // of all files
  uint64_t paths_hash = 0;  // DatasetIndex::paths_hash
  bool by_path = true;      // the items' order is that of their paths

  friend bool operator==(const PlanSummary&, const PlanSummary&) = default;
};

// Gathers the summary from records in plan order.
class PlanSummarizer {
 public:
  [[nodiscard]] Result<void> Add(const SourceRecord& record);
  [[nodiscard]] PlanSummary Finish();

 private:
  PlanSummary summary_;
  std::set<std::string> labels_;
  uint64_t label_bytes_ = 0;
  std::string last_key_;
  Sha256 paths_;
};

class PackPlanWriter {
 public:
  [[nodiscard]] static Result<PackPlanWriter> Create(const std::string& path, const PlanHeader& header);

  // In plan order.
  [[nodiscard]] Result<void> Add(const SourceRecord& record);
  [[nodiscard]] Result<void> Commit();

 private:
  explicit PackPlanWriter(AtomicFile file) : file_(std::move(file)) {}

  Result<void> Flush();

  AtomicFile file_;
  ByteWriter buffer_;
  std::string last_path_;
  PlanSummarizer summarizer_;
  uint32_t crc_ = 0;
};

class PackPlan {
 public:
  // One pass over the file: what Open returns is whole, and every record in it has been checked.
  [[nodiscard]] static Result<PackPlan> Open(const std::string& path);
  [[nodiscard]] static Result<PackPlan> Open(std::unique_ptr<ByteSource> file);

  [[nodiscard]] const PlanHeader& header() const { return header_; }
  [[nodiscard]] const PlanSummary& summary() const { return summary_; }

  // Walks the records in plan order. Must not outlive its plan.
  class Cursor {
   public:
    // The next record, nothing after the last.
    [[nodiscard]] Result<std::optional<SourceRecord>> Next();

   private:
    friend class PackPlan;
    explicit Cursor(const ByteSource& file) : file_(&file) {}

    Result<void> ReadHeader(PlanHeader& header);
    Result<void> CheckEnd(const std::vector<std::string>& labels);
    Result<ByteReader> Peek();
    void Advance(const ByteReader& reader) { position_ += reader.position(); }
    [[nodiscard]] tl::unexpected<Error> Damaged(std::string_view what) const;

    const ByteSource* file_;
    Bytes window_;  // bytes of the file from window_offset_ on
    uint64_t window_offset_ = 0;
    size_t position_ = 0;  // of the next byte, in window_
    std::string last_path_;
    bool at_end_ = false;
  };
  [[nodiscard]] Cursor Records() const { return start_; }

 private:
  explicit PackPlan(std::unique_ptr<ByteSource> file) : file_(std::move(file)), start_(*file_) {}

  std::unique_ptr<ByteSource> file_;
  Cursor start_;  // right behind the header
  PlanHeader header_;
  PlanSummary summary_;
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_PACK_PLAN_H_
