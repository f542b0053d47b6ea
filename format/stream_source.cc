#include "format/stream_source.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "format/archive_listing.h"
#include "format/archive_source.h"
#include "format/dataset_index.h"
#include "format/path_parts.h"
#include "format/spool_text.h"

namespace pcrfs {
namespace {

using Kind = PathFacts::Kind;

bool IsTopLevel(std::string_view path) { return path.find('/') == std::string_view::npos; }

}  // namespace

void GrowingLabels::Add(const std::string& folder) {
  const std::unique_lock lock(mutex_);
  if (positions_.emplace(folder, static_cast<int32_t>(list_.size())).second) list_.push_back(folder);
}

std::optional<int32_t> GrowingLabels::Of(std::string_view directory) const {
  if (directory.empty()) return -1;
  const std::shared_lock lock(mutex_);
  const auto found = positions_.find(std::string(directory.substr(0, directory.find('/'))));
  return found == positions_.end() ? std::nullopt : std::optional(found->second);
}

StreamSource::StreamSource(ArchiveWalk walk, ListingOptions options, const ShardLimits& limits, OnSkipped on_skipped)
    : walk_(std::move(walk)),
      options_(std::move(options)),
      limits_(limits),
      on_skipped_(std::move(on_skipped)),
      paths_(options_.spool, 32 * options_.memory),
      folders_(options_.spool, 16 * options_.memory),
      partition_(limits) {}

Result<std::unique_ptr<StreamSource>> StreamSource::Open(ByteStream& bytes, const std::string& name, bool nested,
                                                         ListingOptions options, const ShardLimits& limits,
                                                         OnSkipped on_skipped) {
  auto walk = ArchiveWalk::Open(bytes, name, nested, 0);
  if (!walk) return PassOn(std::move(walk));
  return std::unique_ptr<StreamSource>(
      new StreamSource(std::move(*walk), std::move(options), limits, std::move(on_skipped)));
}

Result<std::optional<PlannedShard>> StreamSource::NextShard() {
  held_.clear();
  held_at_.clear();
  to_open_.reset();
  if (at_end_) return std::nullopt;
  PlannedShard shard;
  shard.number = shards_;
  if (pending_)
    if (auto put = Put(*std::exchange(pending_, std::nullopt), pending_directories_, shard); !put)
      return PassOn(std::move(put));
  while (!to_open_) {
    auto item = NextItem();
    if (!item) return PassOn(std::move(item));
    at_end_ = !*item;
    if (at_end_) break;
    if (auto added = summarizer_.Add((*item)->record); !added) return PassOn(std::move(added));
    const ShardPartition::Step step = partition_.Place((*item)->record);
    if (step.starts_shard && !(shard.items.empty() && shard.directories.empty())) {
      pending_ = std::move(*item);
      pending_directories_ = step.new_directories;
      break;
    }
    if (auto put = Put(std::move(**item), step.new_directories, shard); !put) return PassOn(std::move(put));
  }
  // A stream without items still has one shard, for the root's attributes.
  if (at_end_ && shard.items.empty() && shard.directories.empty() && shards_ > 0) return std::nullopt;
  if (shards_ == kMaxRows)
    return Fail(ErrorCode::kLimit,
                "the archive makes more than the 1,048,576 shards that a data set holds; more items or bytes a shard "
                "help");
  shard.root = root_.value_or(DefaultFolderAttributes(0));
  ++shards_;
  return shard;
}

Result<std::vector<HeldContent>> StreamSource::Read(const PlannedShard& shard, const std::vector<bool>& /*wanted*/) {
  held_.resize(shard.items.size());
  return std::move(held_);
}

Result<std::unique_ptr<SourceFile>> StreamSource::Open(const SourceRecord& item) const {
  if (!to_open_ || *to_open_ != item)
    return Fail(ErrorCode::kUnsupported, Quoted(item.path) + " came through a pipe, and cannot be read again");
  // Borrows what outlives it.
  return std::make_unique<MemberFile>(item, const_cast<ArchiveWalk&>(walk_), to_open_start_, nullptr);
}

// By content, since a stream that is sent again must be the same in all bytes.
bool StreamSource::IsCurrent(const SourceRecord& item, const Entry& entry) const {
  if (entry.source_size != item.size || entry.attributes != item.attributes) return false;
  if (const auto found = held_at_.find(item.path); found != held_at_.end())
    return Sha256::Of(**held_[found->second]) == entry.source_sha256;
  auto file = Open(item);
  if (!file) return false;
  Sha256 sha;
  Bytes block;
  for (uint64_t done = 0; done < item.size; done += block.size()) {
    block.resize(static_cast<size_t>(std::min<uint64_t>(size_t{1} << 20, item.size - done)));
    if (!(*file)->ReadAt(done, block)) return false;
    sha.Update(block);
  }
  return sha.Finish() == entry.source_sha256;
}

PlanSummary StreamSource::Summary() {
  PlanSummary summary = summarizer_.Finish();
  summary.labels = labels_.list();
  return summary;
}

Result<std::optional<StreamSource::Item>> StreamSource::NextItem() {
  while (!walked_) {
    auto member = walk_.Next();
    if (!member) return PassOn(std::move(member));
    walked_ = !*member;
    if (walked_) break;
    auto item = ItemOf(std::move(**member));
    if (!item || *item) return item;
  }
  return NextEmptyFolder();
}

Result<std::optional<StreamSource::Item>> StreamSource::NextEmptyFolder() {
  while (true) {
    auto folder = folders_.Next();
    if (!folder) return PassOn(std::move(folder));
    if (!*folder) return std::nullopt;
    std::string path(AsText((*folder)->value));
    auto facts = paths_.Find(path);
    if (!facts) return PassOn(std::move(facts));
    if (!facts->has_items)
      return Item{{SourceKind::kEmptyFolder, std::move(path), 0, facts->attributes, 0}, std::nullopt};
  }
}

Result<std::optional<StreamSource::Item>> StreamSource::ItemOf(ArchiveMember member) {
  if (member.kind == ArchiveMember::Kind::kNotPacked) {
    on_skipped_(member.path, member.why);
    return std::nullopt;
  }
  const bool folder = member.kind == ArchiveMember::Kind::kFolder;
  if (folder && member.path.empty()) {
    root_ = member.attributes;
    return std::nullopt;
  }
  if (!root_) root_ = DefaultFolderAttributes(member.attributes.mtime_ns);
  if (options_.exclude.ExcludesWithin(member.path, folder)) {
    ++totals_.excluded;
    return std::nullopt;
  }
  auto conflict = Conflict(member.path);
  if (!conflict) return PassOn(std::move(conflict));
  auto own = paths_.Find(member.path);
  if (!own) return PassOn(std::move(own));
  if (!*conflict && own->kind == Kind::kFile)
    *conflict = folder ? "it is a folder, and a file of that path came before"
                       : "a file of that path came before, and in a stream the first one counts";
  if (!*conflict && !folder && own->kind == Kind::kFolder)
    *conflict = "it is a file, and a folder of that path came before";
  if (*conflict) {
    Skip(member.path, SkipReason::kConflict, std::move(**conflict));
    return std::nullopt;
  }
  if (folder) {
    if (auto added = AddFolder(member); !added) return PassOn(std::move(added));
    return std::nullopt;
  }
  return member.kind == ArchiveMember::Kind::kLink ? LinkOf(member) : FileOf(member);
}

// Why nothing can lie at `path`: something above it is a file.
Result<std::optional<std::string>> StreamSource::Conflict(const std::string& path) {
  for (std::string_view above = ParentOf(path); !above.empty(); above = ParentOf(above)) {
    auto facts = paths_.Find(above);
    if (!facts) return PassOn(std::move(facts));
    if (facts->kind == Kind::kFile) return Quoted(std::string(above)) + " is a file that came before";
    if (facts->kind == Kind::kFolder) break;
  }
  return std::nullopt;
}

Result<std::optional<StreamSource::Item>> StreamSource::LinkOf(const ArchiveMember& member) {
  auto target = paths_.Find(member.target);
  if (!target) return PassOn(std::move(target));
  const auto skip = [&](const char* why) {
    Skip(member.path, SkipReason::kBrokenLink, "it is a link to " + Quoted(member.target) + why);
    return std::nullopt;
  };
  if (target->kind == Kind::kFolder) return skip(", a folder, which is packed under its own path only");
  if (target->kind != Kind::kFile) return skip(", which did not come before it in the stream");
  const auto found = held_at_.find(member.target);
  if (found == held_at_.end())
    return skip(", which is packed already and cannot be read again from a stream: give the archive as a file");
  const Attributes& attributes = member.symbolic ? target->attributes : member.attributes;
  return Item{{SourceKind::kFile, member.path, target->size, attributes, member.number}, **held_[found->second]};
}

Result<std::optional<StreamSource::Item>> StreamSource::FileOf(const ArchiveMember& member) {
  if (member.size) return Item{{SourceKind::kFile, member.path, *member.size, member.attributes, member.number}, {}};
  // A zip that is read from front to back tells the size only at the end.
  Bytes content;
  while (content.size() <= limits_.bytes) {
    const size_t known = content.size();
    constexpr size_t kStep = size_t{1} << 20;
    content.resize(known + kStep);
    auto got = walk_.Read(MutableByteSpan(content).subspan(known));
    if (!got) {
      Skip(member.path, SkipReason::kUnreadable, std::move(got.error().message));
      return std::nullopt;
    }
    content.resize(known + *got);
    if (*got == kStep) continue;
    const uint64_t size = content.size();
    return Item{{SourceKind::kFile, member.path, size, member.attributes, member.number}, std::move(content)};
  }
  Skip(member.path, SkipReason::kUnreadable,
       "its size is not told before its end, and it is larger than a shard: give the archive as a file");
  return std::nullopt;
}

Result<void> StreamSource::AddFolder(const ArchiveMember& member) {
  auto folder = paths_.Find(member.path);
  if (!folder) return PassOn(std::move(folder));
  if (folder->kind == Kind::kFolder) {
    folder->attributes = member.attributes;
    return paths_.Put(member.path, *folder);
  }
  if (auto added = AddFoldersAbove(member.path, member.attributes.mtime_ns); !added) return added;
  if (auto put = PutNewFolder(member.path, {Kind::kFolder, false, member.attributes, member.number, 0, 0}); !put)
    return put;
  ByteWriter key;
  AppendKeyNumber(key, member.number);
  return folders_.Add(key.bytes(), AsBytes(member.path));
}

Result<void> StreamSource::PutNewFolder(std::string_view path, const PathFacts& folder) {
  ++totals_.folders;
  if (IsTopLevel(path)) {
    labels_.Add(std::string(path));
    // Counts labels, and their bytes.
    if (auto added = summarizer_.Add({SourceKind::kFolder, std::string(path), 0, folder.attributes}); !added)
      return added;
  }
  return paths_.Put(path, folder);
}

Result<void> StreamSource::AddFoldersAbove(std::string_view path, int64_t mtime_ns) {
  for (path = ParentOf(path); !path.empty(); path = ParentOf(path)) {
    auto folder = paths_.Find(path);
    if (!folder) return PassOn(std::move(folder));
    if (folder->kind == Kind::kFolder && std::exchange(folder->has_items, true)) break;  // and so all above it
    auto put = folder->kind == Kind::kFolder
                   ? paths_.Put(path, *folder)
                   : PutNewFolder(path, {Kind::kFolder, true, DefaultFolderAttributes(mtime_ns), 0, 0, 0});
    if (!put) return put;
  }
  return {};
}

// Puts an item into the shard, with its content. A file that cannot be read leaves only its folders.
Result<void> StreamSource::Put(Item item, size_t new_directories, PlannedShard& shard) {
  SourceRecord& record = item.record;
  const bool folder = record.kind == SourceKind::kEmptyFolder;
  if (!folder)
    if (auto added = AddFoldersAbove(record.path, record.attributes.mtime_ns); !added) return added;
  const std::string_view deepest = folder ? std::string_view(record.path) : ParentOf(record.path);
  if (auto added = AddDirectories(deepest, new_directories, shard); !added) return added;
  std::optional<Bytes> content = std::move(item.content);
  if (!folder && !content) {
    auto read = ReadMember(walk_, record.path, record.size, limits_.bytes);
    if (!read) {
      Skip(record.path, SkipReason::kUnreadable, std::move(read.error().message));
      return {};
    }
    if (read->whole) {
      content = std::move(read->bytes);
    } else {
      to_open_ = record;
      to_open_start_ = std::move(read->bytes);
    }
  }
  if (!folder)
    if (auto put =
            paths_.Put(record.path, {Kind::kFile, false, record.attributes, record.member, record.member, record.size});
        !put)
      return put;
  held_.emplace_back();
  if (content) {
    held_at_.emplace(record.path, shard.items.size());
    held_.back() = std::move(*content);
  }
  shard.bytes += record.size;
  shard.items.push_back(std::move(record));
  return {};
}

Result<void> StreamSource::AddDirectories(std::string_view deepest, size_t count, PlannedShard& shard) {
  for (size_t i = 0; i < count; ++i, deepest = ParentOf(deepest)) {
    auto facts = paths_.Find(deepest);
    if (!facts) return PassOn(std::move(facts));
    shard.directories.push_back({std::string(deepest), facts->attributes});
  }
  return {};
}

void StreamSource::Skip(const std::string& path, SkipReason reason, std::string detail) {
  on_skipped_(path, {reason, std::move(detail)});
}

}  // namespace pcrfs
