#include "format/archive_source.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "format/jpeg_parser.h"
#include "format/pack_item.h"
#include "format/source_tree.h"

namespace pcrfs {
namespace {

constexpr size_t kStartBytes = 2;  // of SOI
constexpr uint64_t kMostKeptForLinks = uint64_t{64} << 20;

// What follows the start of a file that is to have `size` bytes.
Result<Bytes> RestOfMember(ArchiveWalk& walk, Bytes start, const std::string& path, uint64_t size) {
  const size_t known = start.size();
  Bytes bytes = std::move(start);
  size_t got = known;
  if (known <= size) {
    bytes.resize(static_cast<size_t>(size));
    auto rest = walk.Read(MutableByteSpan(bytes).subspan(known));
    if (!rest) return PassOn(std::move(rest));
    got += *rest;
    // At the very end a zip's checksum is compared.
    uint8_t beyond = 0;
    auto more = got == size ? walk.Read(MutableByteSpan(&beyond, 1)) : Result<size_t>(0);
    if (!more) return PassOn(std::move(more));
    got += *more;
  }
  if (got == size) return bytes;
  return Fail(ErrorCode::kDamaged,
              Quoted(path) + " does not have the " + std::to_string(size) + " bytes that the archive says it has");
}

}  // namespace

Result<std::unique_ptr<ArchiveFile>> ArchiveFile::Open(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (!fd.valid() || fstat(fd.get(), &status) != 0) return SystemFail("opening the archive " + Quoted(path), errno);
  if (!S_ISREG(status.st_mode))
    return Fail(ErrorCode::kInvalidArgument, "the source " + Quoted(path) + " is neither a folder nor a file");
  return std::unique_ptr<ArchiveFile>(new ArchiveFile(path, std::move(fd), status));
}

int64_t ArchiveFile::mtime_ns() const { return AttributesOf(status_).mtime_ns; }

std::string ArchiveFile::Identity() const {
  return "size=" + std::to_string(status_.st_size) + " mtime=" + std::to_string(mtime_ns());
}

Result<void> ArchiveFile::CheckUnchanged() const {
  struct stat now;
  if (fstat(fd_.get(), &now) != 0) return SystemFail("looking at the archive " + Quoted(path_), errno);
  if (now.st_size == status_.st_size && AttributesOf(now).mtime_ns == mtime_ns()) return {};
  return Fail(ErrorCode::kStale, "the archive " + Quoted(path_) +
                                     " was changed while it was packed; empty the data set's folder and pack it anew");
}

// A walk through the archive, and how far it has come.
class ArchiveSource::Position {
 public:
  static Result<std::shared_ptr<Position>> AtStart(const ArchiveFile& archive, bool nested) {
    auto position = std::make_shared<Position>(archive);
    auto walk = ArchiveWalk::Open(position->stream_, archive.path(), nested, archive.mtime_ns());
    if (!walk) return PassOn(std::move(walk));
    position->walk_.emplace(std::move(*walk));
    return position;
  }
  explicit Position(const ArchiveFile& archive)
      : archive_(archive), stream_(archive.fd(), archive.path(), FdStream::Access::kAnywhere) {}

  // Goes on to a file that the plan has, which must be there, further on, and unread.
  Result<void> GoTo(const SourceRecord& item) {
    while (true) {
      auto member = walk_->Next();
      if (!member) return PassOn(std::move(member));
      if (!*member || (*member)->number > item.member) break;
      number_ = (*member)->number;
      if (number_ < item.member) continue;
      if ((*member)->kind != ArchiveMember::Kind::kFile || (*member)->size.value_or(item.size) != item.size) break;
      return {};
    }
    if (auto unchanged = archive_.CheckUnchanged(); !unchanged) return unchanged;
    return Fail(ErrorCode::kStale, "the archive " + Quoted(archive_.path()) + " has " + Quoted(item.path) +
                                       " no more where it was when it was listed");
  }

  [[nodiscard]] uint64_t number() const { return number_; }
  [[nodiscard]] ArchiveWalk& walk() { return *walk_; }

 private:
  const ArchiveFile& archive_;
  FdStream stream_;
  std::optional<ArchiveWalk> walk_;
  uint64_t number_ = 0;  // of the last member
};

ArchiveSource::ArchiveSource(const ArchiveFile& archive, bool nested, const PackPlan& plan, const ShardLimits& limits)
    : archive_(archive),
      nested_(nested),
      limits_(limits),
      labels_(plan.summary().labels),
      planned_(plan.Records(), limits) {}
ArchiveSource::~ArchiveSource() = default;

Result<std::vector<HeldContent>> ArchiveSource::Read(const PlannedShard& shard, const std::vector<bool>& wanted) {
  to_open_.reset();
  std::vector<HeldContent> held(shard.items.size());
  for (size_t i = 0; i < shard.items.size(); ++i) {
    if (shard.items[i].kind != SourceKind::kFile || (!wanted.empty() && !wanted[i])) continue;
    auto content = ReadItem(shard, i);
    if (!content) return PassOn(std::move(content));
    held[i] = std::move(*content);
  }
  if (auto unchanged = archive_.CheckUnchanged(); !unchanged) return PassOn(std::move(unchanged));
  return held;
}

Result<HeldContent> ArchiveSource::ReadItem(const PlannedShard& shard, size_t i) {
  const SourceRecord& item = shard.items[i];
  if (item.member > 0 && item.member == last_member_ && last_.size() == item.size) return HeldContent(last_);
  if (!position_ || item.member <= position_->number()) {
    auto position = Position::AtStart(archive_, nested_);
    if (!position) return PassOn(std::move(position));
    position_ = std::move(*position);
  }
  if (auto there = position_->GoTo(item); !there) return PassOn(std::move(there));
  auto content = ReadMember(position_->walk(), item.path, item.size, limits_.bytes);
  if (!content) return HeldContent(PassOn(std::move(content)));
  if (!content->whole) {
    to_open_ = item;
    to_open_start_ = std::move(content->bytes);
    return HeldContent();
  }
  const bool links_may_follow = i + 1 == shard.items.size() || shard.items[i + 1].member == item.member;
  if (links_may_follow && item.size <= kMostKeptForLinks) {
    last_member_ = item.member;
    last_ = content->bytes;
  } else {
    last_member_ = 0;
  }
  return HeldContent(std::move(content->bytes));
}

Result<std::unique_ptr<SourceFile>> ArchiveSource::Open(const SourceRecord& item) const {
  if (to_open_ && *to_open_ == item)
    return std::make_unique<MemberFile>(item, position_->walk(), to_open_start_, position_);
  auto position = Position::AtStart(archive_, nested_);
  if (!position) return PassOn(std::move(position));
  if (auto there = (*position)->GoTo(item); !there) return PassOn(std::move(there));
  auto start = StartOfMember((*position)->walk());
  if (!start) return PassOn(std::move(start));
  ArchiveWalk& walk = (*position)->walk();
  return std::make_unique<MemberFile>(item, walk, std::move(*start), std::move(*position));
}

bool ArchiveSource::IsCurrent(const SourceRecord& item, const Entry& entry) const {
  return entry.source_size == item.size && entry.attributes == item.attributes;
}

Result<void> MemberFile::ReadAt(uint64_t offset, MutableByteSpan out) const {
  if (offset > size() || out.size() > size() - offset)
    return Fail(ErrorCode::kInvalidArgument, "a read beyond the end of " + Quoted(name()));
  if (offset < start_.size()) {
    const auto from_start = static_cast<size_t>(std::min<uint64_t>(out.size(), start_.size() - offset));
    std::copy_n(start_.begin() + static_cast<std::ptrdiff_t>(offset), from_start, out.begin());
    offset += from_start;
    out = out.subspan(from_start);
    if (out.empty()) return {};
  }
  position_ = std::max<uint64_t>(position_, start_.size());
  if (offset != position_)
    return Fail(ErrorCode::kUnsupported, Quoted(name()) + " comes from an archive, and can be read only once");
  auto got = walk_.Read(out);
  if (!got) return PassOn(std::move(got));
  position_ += *got;
  uint8_t beyond = 0;
  auto more = position_ == size() ? walk_.Read(MutableByteSpan(&beyond, 1)) : Result<size_t>(0);
  if (!more) return PassOn(std::move(more));
  if (*got == out.size() && *more == 0) return {};
  return Fail(ErrorCode::kDamaged,
              Quoted(name()) + " does not have the " + std::to_string(size()) + " bytes that the archive says it has");
}

Result<Bytes> StartOfMember(ArchiveWalk& walk) {
  Bytes start(kStartBytes);
  auto got = walk.Read(start);
  if (!got) return PassOn(std::move(got));
  start.resize(*got);
  return start;
}

Result<MemberBytes> ReadMember(ArchiveWalk& walk, const std::string& path, uint64_t size, uint64_t most_held) {
  auto start = StartOfMember(walk);
  if (!start) return PassOn(std::move(start));
  if (size > most_held && size >= kStartBytes && OpaqueUnread(size, StartsWithSoi(*start)))
    return MemberBytes{*std::move(start), false};
  auto bytes = RestOfMember(walk, *std::move(start), path, size);
  if (!bytes) return PassOn(std::move(bytes));
  return MemberBytes{*std::move(bytes)};
}

}  // namespace pcrfs
