// CheckShardContent: sections A, B and C against the index, in one pass from front to back.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>

#include "format/checksum.h"
#include "format/jpeg_parser.h"
#include "format/jpeg_restorer.h"
#include "format/proto/pcrfs.pb.h"
#include "format/protobuf.h"
#include "format/restore_record.h"
#include "format/shard_layout.h"
#include "format/shard_reader.h"

namespace pcrfs {
namespace {

constexpr size_t kIdBytes = std::tuple_size_v<ShardId>;
// Field 1911, length-delimited, 16 bytes: what stands before the id, which ends section A.
constexpr std::array<uint8_t, 3> kIdFraming = {0xBA, 0x77, 0x10};

// Small reads at ascending offsets, all before `end`, served from large ones.
class ReadWindow {
 public:
  ReadWindow(const ByteSource& source, uint64_t end, const std::function<void(uint64_t)>& on_read)
      : source_(source), end_(end), on_read_(on_read), buffer_(kBytes) {}

  // At most 1 MiB; valid until the next call.
  [[nodiscard]] Result<ByteSpan> Get(uint64_t offset, uint64_t size) {
    if (offset < start_ || offset + size > start_ + filled_) {
      if (auto read = Refill(offset, size); !read) return PassOn(std::move(read));
    }
    return ByteSpan(buffer_).subspan(static_cast<size_t>(offset - start_), static_cast<size_t>(size));
  }

 private:
  static constexpr size_t kBytes = 1 << 20;

  Result<void> Refill(uint64_t offset, uint64_t size) {
    // What is there already is moved, not read again.
    const bool overlaps = offset >= start_ && offset < start_ + filled_;
    const size_t kept = overlaps ? static_cast<size_t>(start_ + filled_ - offset) : 0;
    if (kept > 0) std::memmove(buffer_.data(), buffer_.data() + filled_ - kept, kept);
    start_ = offset;
    filled_ = kept;
    const uint64_t most = std::min<uint64_t>(kBytes, std::max(size, end_ - std::min(offset, end_)));
    if (Fill(most)) return {};
    return Fill(size);  // around a bad spot, exactly what is asked for
  }

  Result<void> Fill(uint64_t until) {
    const MutableByteSpan rest = MutableByteSpan(buffer_).subspan(filled_, static_cast<size_t>(until) - filled_);
    if (auto read = source_.ReadAt(start_ + filled_, rest); !read) return read;
    filled_ += rest.size();
    on_read_(rest.size());
    return {};
  }

  const ByteSource& source_;
  const uint64_t end_;
  const std::function<void(uint64_t)>& on_read_;
  Bytes buffer_;
  uint64_t start_ = 0;
  size_t filled_ = 0;
};

class ContentChecker {
 public:
  ContentChecker(const ByteSource& shard, const ShardRow& row, const ShardIndex& index, const LabelMap& labels,
                 MemoryGate* restoring, const std::function<void(const Error&)>& on_fault,
                 const std::function<void(uint64_t)>& on_read)
      : shard_(shard),
        row_(row),
        index_(index),
        labels_(labels),
        restoring_(restoring),
        on_fault_(on_fault),
        window_(shard, IndexOffset(index), on_read) {
    states_.resize(index.entries.size());
    for (size_t i = 0; i < index.image_count; ++i)
      if (index.entries[i].layout.kept) states_[i].sha.emplace();
  }

  void Run() {
    CheckMetadata();
    for (size_t group = 0; group < kShardLevels && !gone_; ++group) CheckGroup(group);
    for (size_t i = 0; i < index_.image_count && !gone_; ++i) CheckRestore(i);
    for (size_t i = 0; i < index_.image_count && !gone_; ++i) CheckTail(i);
    for (size_t i = index_.image_count; i < index_.entries.size() && !gone_; ++i) CheckOpaque(i);
    if (restoring_ != nullptr)
      for (size_t i = 0; i < index_.image_count && !gone_; ++i) CheckSource(i);
  }

 private:
  struct EntryState {
    std::optional<Sha256> sha;  // of the source, where what is stored is the source
    bool damaged = false;       // reported already
  };

  void Fault(ErrorCode code, const std::string& what) {
    on_fault_(Error{code, "shard " + Quoted(shard_.name()) + ": " + what});
  }

  void EntryFault(size_t entry, ErrorCode code, const std::string& what) {
    states_[entry].damaged = true;
    Fault(code, Quoted(EntryPath(index_, index_.entries[entry])) + ": " + what);
  }

  // Nothing when it cannot be read; that has been reported then.
  std::optional<ByteSpan> Read(uint64_t offset, uint64_t size, std::optional<size_t> entry) {
    if (gone_) return std::nullopt;
    const auto bytes = window_.Get(offset, size);
    if (bytes) return *bytes;
    gone_ = bytes.error().code == ErrorCode::kStale;
    if (entry) {
      EntryFault(*entry, bytes.error().code, bytes.error().message);
    } else {
      Fault(bytes.error().code, bytes.error().message);
    }
    return std::nullopt;
  }

  void CheckMetadata() {
    const uint64_t size = index_.section_sizes[kMetadataSection];
    const auto read = Read(0, size, std::nullopt);
    if (!read) return;
    const ByteSpan metadata = *read;
    const ByteSpan id = metadata.last(kIdBytes);
    const ByteSpan covered = metadata.first(metadata.size() - kIdBytes);
    if (!std::equal(id.begin(), id.end(), row_.id.begin())) {
      Fault(ErrorCode::kDamaged, "metadata: shard id: expected " + Hex(row_.id) + ", found " + Hex(id));
    }
    if (const uint32_t crc = Crc32(covered); crc != index_.metadata_crc) {
      Fault(ErrorCode::kDamaged,
            "metadata: checksum: expected " + CrcText(index_.metadata_crc) + ", found " + CrcText(crc));
      return;
    }
    if (auto parsed = CheckMetadataFields(metadata); !parsed) {
      Fault(parsed.error().code, "metadata: " + parsed.error().message);
    }
  }

  Result<void> CheckMetadataFields(ByteSpan metadata) {
    constexpr std::string_view kWhat = "MetadataRecord";
    auto counts =
        CheckFieldCounts(metadata, kWhat, {{wire::MetadataRecord::kLabelsFieldNumber, kMaxShardEntries, true}});
    if (!counts) return counts;
    wire::MetadataRecord message;
    if (auto parsed = ParseMessage(metadata, kWhat, message); !parsed) return parsed;
    const ByteSpan framing = metadata.last(kIdBytes + kIdFraming.size()).first(kIdFraming.size());
    if (!std::equal(framing.begin(), framing.end(), kIdFraming.begin())) {
      return Fail(ErrorCode::kDamaged, "the shard id is not its last field");
    }
    if (message.progressive_levels() != kShardLevels || message.version() != 1) {
      return Fail(ErrorCode::kDamaged, "expected 10 levels and version 1, found " +
                                           std::to_string(message.progressive_levels()) + " and " +
                                           std::to_string(message.version()));
    }
    if (message.labels_size() != static_cast<int>(index_.image_count)) {
      return Fail(ErrorCode::kDamaged, "expected " + std::to_string(index_.image_count) + " labels, found " +
                                           std::to_string(message.labels_size()));
    }
    for (size_t i = 0; i < index_.image_count; ++i) CheckLabel(i, message.labels(static_cast<int>(i)));
    return {};
  }

  void CheckLabel(size_t image, int32_t found) {
    const uint32_t directory = index_.entries[image].directory;
    const auto label = labels_.Of(directory == 0 ? std::string_view() : index_.directories[directory - 1]);
    if (label && *label == found) return;
    EntryFault(image, ErrorCode::kDamaged,
               label ? "label: expected " + std::to_string(*label) + ", found " + std::to_string(found)
                     : "its top-level folder is not in the label list of PCR_index.pb");
    states_[image].damaged = false;  // its bytes may still be right
  }

  void CheckGroup(size_t group) {
    const std::string what = "scan group " + std::to_string(group + 1);
    for (size_t i = 0; i < index_.image_count && !gone_; ++i) {
      const Extent& fragment = index_.entries[i].layout.extents[group];
      CheckFraming(i, fragment, what);
      bool first = group == 0;
      CheckExtent(i, fragment, what, [&](ByteSpan block) {
        if (std::exchange(first, false) && !StartsWithSoi(block))
          EntryFault(i, ErrorCode::kDamaged, "it does not begin with SOI");
      });
    }
  }

  void CheckFraming(size_t entry, const Extent& fragment, const std::string& what) {
    ByteWriter expected;
    expected.U8(kFragmentTag);
    expected.Varint(fragment.size);
    const uint64_t offset = fragment.offset - expected.size();
    const auto found = Read(offset, expected.size(), entry);
    if (!found || std::equal(found->begin(), found->end(), expected.bytes().begin())) return;
    EntryFault(entry, ErrorCode::kDamaged,
               what + ", framing at offset " + std::to_string(offset) + ": expected " + Hex(expected.bytes()) +
                   ", found " + Hex(*found));
  }

  // Reads an extent block by block, checks each, and shows it to `use`.
  template <typename Use>
  void CheckExtent(size_t entry, const Extent& extent, const std::string& what, const Use& use) {
    const EntryLayout& layout = index_.entries[entry].layout;
    for (uint64_t done = 0; done < extent.size; done += kChecksumBlock) {
      const uint64_t offset = extent.offset + done;
      const auto block = Read(offset, std::min(kChecksumBlock, extent.size - done), entry);
      if (!block) continue;
      const uint32_t expected = layout.crcs[extent.first_crc + static_cast<size_t>(done / kChecksumBlock)];
      if (const uint32_t found = Crc32(*block); found != expected) {
        EntryFault(entry, ErrorCode::kDamaged,
                   what + ", block of " + std::to_string(block->size()) + " bytes at offset " + std::to_string(offset) +
                       ": checksum: expected " + CrcText(expected) + ", found " + CrcText(found));
        continue;
      }
      if (auto& sha = states_[entry].sha) sha->Update(*block);
      use(*block);
    }
  }

  void CheckRestore(size_t image) {
    const Extent& extent = index_.entries[image].layout.restore;
    if (extent.size == 0) return;
    ByteWriter record;
    CheckExtent(image, extent, "restore record", [&](ByteSpan block) { record.Append(block); });
    if (record.size() != extent.size) return;
    const auto decoded = DecodeRestoreRecord(record.bytes());
    if (!decoded) EntryFault(image, decoded.error().code, decoded.error().message);
  }

  void CheckTail(size_t image) {
    if (states_[image].sha) states_[image].sha->Update(Bytes{0xFF, 0xD9});  // EOI is stored nowhere
    CheckExtent(image, index_.entries[image].layout.tail, "tail", [](ByteSpan) {});
    CompareSha(image);
  }

  void CheckOpaque(size_t entry) {
    states_[entry].sha.emplace();
    CheckExtent(entry, index_.entries[entry].layout.extents[0], "content", [](ByteSpan) {});
    CompareSha(entry);
  }

  // That the restore record gives the source. Takes the image once more, now whole.
  void CheckSource(size_t image) {
    const Entry& entry = index_.entries[image];
    if (entry.layout.restore.size == 0 || states_[image].damaged) return;
    const auto memory = MemoryToRestore(image);
    if (!memory) return;
    const auto claim = restoring_->Enter(*memory);
    Bytes stored, record;
    for (const Extent& fragment : entry.layout.extents)
      if (!Append(image, fragment, stored)) return;
    stored.insert(stored.end(), {0xFF, 0xD9});
    if (!Append(image, entry.layout.tail, stored) || !Append(image, entry.layout.restore, record)) return;
    const auto restored = RestoreJpeg(stored, record, {entry.source_size, entry.source_sha256});
    if (!restored) EntryFault(image, restored.error().code, restored.error().message);
  }

  // By its frame header, which is in the first fragment. Nothing when that cannot be; it has been reported then.
  std::optional<uint64_t> MemoryToRestore(size_t image) {
    const Entry& entry = index_.entries[image];
    const auto claim = restoring_->Enter(entry.layout.extents[0].size);
    Bytes head;
    if (!Append(image, entry.layout.extents[0], head)) return std::nullopt;
    const auto memory = RestoreMemory(head, entry.source_size);
    if (!memory) {
      EntryFault(image, memory.error().code, "restoring the source: " + memory.error().message);
      return std::nullopt;
    }
    uint64_t stored = entry.layout.tail.size + entry.layout.restore.size;
    for (const Extent& fragment : entry.layout.extents) stored += fragment.size;
    return *memory + stored;
  }

  bool Append(size_t image, const Extent& extent, Bytes& out) {
    const size_t before = out.size();
    out.resize(before + static_cast<size_t>(extent.size));
    const auto read = shard_.ReadAt(extent.offset, MutableByteSpan(out).subspan(before));
    if (!read) EntryFault(image, read.error().code, read.error().message);
    return read.has_value();
  }

  void CompareSha(size_t entry) {
    EntryState& state = states_[entry];
    if (!state.sha || state.damaged) return;
    const Sha256Digest found = state.sha->Finish();
    state.sha.reset();
    const Sha256Digest& expected = index_.entries[entry].source_sha256;
    if (found == expected) return;
    EntryFault(entry, ErrorCode::kDamaged, "SHA-256: expected " + Hex(expected) + ", found " + Hex(found));
  }

  const ByteSource& shard_;
  const ShardRow& row_;
  const ShardIndex& index_;
  const LabelMap& labels_;
  MemoryGate* const restoring_;
  const std::function<void(const Error&)>& on_fault_;
  ReadWindow window_;
  std::vector<EntryState> states_;
  bool gone_ = false;  // the shard has shrunk: whatever follows cannot be read either
};

}  // namespace

LabelMap::LabelMap(const std::vector<std::string>& labels) {
  positions_.reserve(labels.size());
  for (const std::string& label : labels) positions_.emplace(label, static_cast<int32_t>(positions_.size()));
}

std::optional<int32_t> LabelMap::Of(std::string_view directory) const {
  if (directory.empty()) return -1;
  const auto found = positions_.find(std::string(directory.substr(0, directory.find('/'))));
  if (found == positions_.end()) return std::nullopt;
  return found->second;
}

void CheckShardContent(const ByteSource& shard, const ShardRow& row, const ShardIndex& index, const LabelMap& labels,
                       MemoryGate* restoring, const std::function<void(const Error&)>& on_fault,
                       const std::function<void(uint64_t bytes)>& on_read) {
  ContentChecker(shard, row, index, labels, restoring, on_fault, on_read).Run();
}

}  // namespace pcrfs
