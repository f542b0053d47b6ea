#include "format/pack_plan.h"

#include <algorithm>
#include <utility>

#include "format/dataset_index.h"
#include "format/shard_names.h"

namespace pcrfs {
namespace {

constexpr std::string_view kMagic = "PCRFSPLN";
constexpr uint32_t kVersion = 1;
constexpr uint8_t kEndOfRecords = 0xFF;
constexpr uint8_t kOfArchive = 0x10;  // beside the kind: a member's number follows
constexpr size_t kCrcBytes = 4;
// Header, record and label are each smaller, so that one look at the window holds any of them whole.
constexpr size_t kLargestPart = 16 << 10;
constexpr size_t kWindowBytes = 256 << 10;

constexpr uint64_t kMaxLabelBytes = uint64_t{64} << 20;  // leaves room for the rows in its 256 MiB

void AppendText(ByteWriter& out, std::string_view text) {
  out.Varint(text.size());
  out.Append(text);
}

std::string_view TakeText(ByteReader& in) { return AsText(in.Take(in.Varint())); }

void AppendRecord(ByteWriter& out, const SourceRecord& record, std::string_view last_path) {
  const size_t longest = std::min(last_path.size(), record.path.size());
  const auto mismatch =
      std::mismatch(last_path.begin(), last_path.begin() + static_cast<std::ptrdiff_t>(longest), record.path.begin());
  const auto shared = static_cast<size_t>(mismatch.first - last_path.begin());
  out.U8(static_cast<uint8_t>(static_cast<uint8_t>(record.kind) | (record.member > 0 ? kOfArchive : 0)));
  out.Varint(shared);
  AppendText(out, std::string_view(record.path).substr(shared));
  if (record.kind == SourceKind::kFile) out.Varint(record.size);
  out.Varint(record.attributes.mode);
  out.U64(static_cast<uint64_t>(record.attributes.mtime_ns));
  if (record.member > 0) out.Varint(record.member);
}

// Relative, without '/' at either end, each part a valid name. The root's path, "", is a folder's only.
bool IsValidPath(std::string_view path, SourceKind kind) {
  if (path.empty()) return kind == SourceKind::kFolder;
  if (path.size() > kMaxPathBytes) return false;
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    if (!IsValidName(path.substr(start, end - start))) return false;
    start = end + 1;
  }
  return true;
}

// Whole file against its closing CRC-32, in one pass.
Result<void> CheckCrc(const ByteSource& file) {
  if (file.size() < kMagic.size() + kCrcBytes)
    return Fail(ErrorCode::kDamaged, Quoted(file.name()) + " has only " + std::to_string(file.size()) + " bytes");
  Bytes chunk;
  uint32_t crc = 0;
  const uint64_t end = file.size() - kCrcBytes;
  for (uint64_t offset = 0; offset < end; offset += chunk.size()) {
    chunk.resize(static_cast<size_t>(std::min<uint64_t>(kWindowBytes, end - offset)));
    if (auto read = file.ReadAt(offset, chunk); !read) return read;
    crc = Crc32(chunk, crc);
  }
  chunk.resize(kCrcBytes);
  if (auto read = file.ReadAt(end, chunk); !read) return read;
  const uint32_t expected = ByteReader(chunk).U32();
  if (crc == expected) return {};
  return Fail(ErrorCode::kDamaged, Quoted(file.name()) + ": its closing CRC-32 is " + std::to_string(expected) +
                                       ", its bytes give " + std::to_string(crc));
}

}  // namespace

Result<void> PlanSummarizer::Add(const SourceRecord& record) {
  const bool top_folder =
      record.kind != SourceKind::kFile && !record.path.empty() && record.path.find('/') == std::string::npos;
  if (top_folder && labels_.insert(record.path).second) {
    label_bytes_ += record.path.size();
    if (labels_.size() > kMaxLabels || label_bytes_ > kMaxLabelBytes)
      return Fail(ErrorCode::kLimit,
                  "the source has more top-level folders than a data set has labels for: 1,048,576, "
                  "with names of 64 MiB together");
  }
  if (!record.is_item()) return {};
  ++summary_.items;
  std::string key = record.path + (record.kind == SourceKind::kFile ? "" : "/");
  summary_.by_path = summary_.by_path && (summary_.items == 1 || last_key_ < key);
  last_key_ = std::move(key);
  summary_.files += record.kind == SourceKind::kFile ? 1 : 0;
  summary_.bytes += record.size;
  paths_.Update(AsBytes(record.path));
  paths_.Update(AsBytes(record.kind == SourceKind::kFile ? std::string_view("\0", 1) : std::string_view("/\0", 2)));
  return {};
}

PlanSummary PlanSummarizer::Finish() {
  summary_.labels.assign(labels_.begin(), labels_.end());
  summary_.paths_hash = ByteReader(paths_.Finish()).U64();
  return std::move(summary_);
}

Result<PackPlanWriter> PackPlanWriter::Create(const std::string& path, const PlanHeader& header) {
  if (header.source.size() > kMaxPlanTextBytes || header.options.size() > kMaxPlanTextBytes)
    return Fail(ErrorCode::kInvalidArgument, "the path of the source is longer than 4,095 bytes");
  auto file = AtomicFile::Create(path);
  if (!file) return PassOn(std::move(file));
  PackPlanWriter writer(std::move(*file));
  writer.buffer_.Append(kMagic);
  writer.buffer_.U32(kVersion);
  AppendText(writer.buffer_, header.source);
  AppendText(writer.buffer_, header.options);
  return writer;
}

Result<void> PackPlanWriter::Add(const SourceRecord& record) {
  if (auto added = summarizer_.Add(record); !added) return added;
  AppendRecord(buffer_, record, last_path_);
  last_path_ = record.path;
  return buffer_.size() >= kWindowBytes ? Flush() : Result<void>();
}

Result<void> PackPlanWriter::Commit() {
  const PlanSummary summary = summarizer_.Finish();
  buffer_.U8(kEndOfRecords);
  buffer_.Varint(summary.labels.size());
  for (const std::string& label : summary.labels) AppendText(buffer_, label);
  if (auto flushed = Flush(); !flushed) return flushed;
  buffer_.U32(crc_);
  if (auto flushed = Flush(); !flushed) return flushed;
  return file_.Commit();
}

Result<void> PackPlanWriter::Flush() {
  const Bytes bytes = std::exchange(buffer_, ByteWriter()).Release();
  crc_ = Crc32(bytes, crc_);
  return file_.Write(bytes);
}

Result<PackPlan> PackPlan::Open(const std::string& path) {
  auto file = FileSource::Open(path, FileSource::Access::kSequential);
  if (!file) return PassOn(std::move(file));
  return Open(std::move(*file));
}

Result<PackPlan> PackPlan::Open(std::unique_ptr<ByteSource> file) {
  PackPlan plan(std::move(file));
  if (auto whole = CheckCrc(*plan.file_); !whole) return PassOn(std::move(whole));
  if (auto read = plan.start_.ReadHeader(plan.header_); !read) return PassOn(std::move(read));
  PlanSummarizer summarizer;
  Cursor cursor = plan.Records();
  while (true) {
    auto record = cursor.Next();
    if (!record) return PassOn(std::move(record));
    if (!*record) break;
    if (auto added = summarizer.Add(**record); !added) return PassOn(std::move(added));
  }
  plan.summary_ = summarizer.Finish();
  if (auto end = cursor.CheckEnd(plan.summary_.labels); !end) return PassOn(std::move(end));
  return plan;
}

Result<void> PackPlan::Cursor::ReadHeader(PlanHeader& header) {
  auto in = Peek();
  if (!in) return PassOn(std::move(in));
  if (AsText(in->Take(kMagic.size())) != kMagic) return Damaged("it does not start as a plan does");
  if (const uint32_t version = in->U32(); in->ok() && version != kVersion)
    return Fail(ErrorCode::kUnsupported, Quoted(file_->name()) + " is a plan of version " + std::to_string(version) +
                                             ", and this pcrfs follows only version " + std::to_string(kVersion));
  header.source = TakeText(*in);
  header.options = TakeText(*in);
  if (!in->ok()) return Damaged("its header is cut off");
  Advance(*in);
  return {};
}

Result<std::optional<SourceRecord>> PackPlan::Cursor::Next() {
  if (at_end_) return std::nullopt;
  auto in = Peek();
  if (!in) return PassOn(std::move(in));
  uint8_t kind = in->U8();
  if (in->ok() && kind == kEndOfRecords) {
    at_end_ = true;
    Advance(*in);
    return std::nullopt;
  }
  const bool of_archive = (kind & kOfArchive) != 0;
  kind = static_cast<uint8_t>(kind & ~kOfArchive);
  if (kind > static_cast<uint8_t>(SourceKind::kFile)) return Damaged("a record is of no known kind");
  SourceRecord record;
  record.kind = static_cast<SourceKind>(kind);
  const uint64_t shared = in->Varint();
  if (shared > last_path_.size()) return Damaged("a path shares more with the one before than that has");
  record.path = last_path_.substr(0, static_cast<size_t>(shared));
  record.path += TakeText(*in);
  if (record.kind == SourceKind::kFile) record.size = in->Varint();
  const uint64_t mode = in->Varint();
  record.attributes.mtime_ns = static_cast<int64_t>(in->U64());
  if (of_archive) record.member = in->Varint();
  if (!in->ok()) return Damaged("a record is cut off");
  if (!IsValidPath(record.path, record.kind)) return Damaged("a path breaks the rules for names");
  if (mode > 07777 || record.size > kMaxSourceBytes) return Damaged("a mode or size is out of range");
  record.attributes.mode = static_cast<uint32_t>(mode);
  last_path_ = record.path;
  Advance(*in);
  return record;
}

// What follows the records: the label list, which must be the one that the records give, and nothing else.
Result<void> PackPlan::Cursor::CheckEnd(const std::vector<std::string>& labels) {
  auto in = Peek();
  if (!in) return PassOn(std::move(in));
  if (in->Varint() != labels.size()) return Damaged("the label list is not that of the folders in it");
  Advance(*in);
  for (const std::string& label : labels) {
    in = Peek();
    if (!in) return PassOn(std::move(in));
    if (TakeText(*in) != label || !in->ok()) return Damaged("the label list is not that of the folders in it");
    Advance(*in);
  }
  if (window_offset_ + position_ + kCrcBytes != file_->size()) return Damaged("something follows the label list");
  return {};
}

// What comes next: at least kLargestPart bytes, unless the file ends before.
Result<ByteReader> PackPlan::Cursor::Peek() {
  const uint64_t end = file_->size() - kCrcBytes;
  const uint64_t window_end = window_offset_ + window_.size();
  if (window_.size() - position_ < kLargestPart && window_end < end) {
    window_offset_ += position_;
    position_ = 0;
    window_.resize(static_cast<size_t>(std::min<uint64_t>(kWindowBytes, end - window_offset_)));
    if (auto read = file_->ReadAt(window_offset_, window_); !read) return PassOn(std::move(read));
  }
  return ByteReader(ByteSpan(window_).subspan(position_));
}

tl::unexpected<Error> PackPlan::Cursor::Damaged(std::string_view what) const {
  return Fail(ErrorCode::kDamaged, Quoted(file_->name()) + " at offset " + std::to_string(window_offset_ + position_) +
                                       ": " + std::string(what));
}

}  // namespace pcrfs
