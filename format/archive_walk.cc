#include "format/archive_walk.h"

#include <array>
#include <string_view>
#include <utility>

#include "format/path_parts.h"
#include "format/shard_index.h"
#include "format/source_tree.h"

namespace pcrfs {
namespace {

constexpr uint32_t kDefaultFolderMode = 0755;
// No archive is smaller; so small files are not looked at.
constexpr uint64_t kSmallestArchive = 22;

// `path` behind `base`, both folders of the archive, without "." and doubled '/'; nothing when ".." leads out of
// `inside`, which base begins with. Without `up`, any ".." does.
std::optional<std::string> Cleaned(std::string_view inside, std::string_view base, std::string_view path, bool up) {
  std::string clean(base);
  while (!path.empty()) {
    const std::string_view name = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(name.size() + 1, path.size()));
    if (name.empty() || name == ".") continue;
    if (name == "..") {
      if (!up || clean.size() <= inside.size()) return std::nullopt;
      const size_t slash = clean.rfind('/');
      clean.resize(slash == std::string::npos ? 0 : slash);
      continue;
    }
    if (!clean.empty()) clean += '/';
    clean += name;
  }
  return clean;
}

std::string WithoutArchiveSuffix(std::string path) {
  static constexpr std::array<std::string_view, 15> kSuffixes = {".tar.gz", ".tar.xz", ".tar.zst", ".tar.bz2", ".tgz",
                                                                 ".txz",    ".tzst",   ".tbz2",    ".tbz",     ".tar",
                                                                 ".zip",    ".gz",     ".xz",      ".zst",     ".bz2"};
  for (const std::string_view suffix : kSuffixes) {
    if (!path.ends_with(suffix)) continue;
    const std::string_view rest = std::string_view(path).substr(0, path.size() - suffix.size());
    if (!rest.empty() && rest.back() != '/') path.resize(rest.size());
    break;
  }
  return path;
}

// Nothing when path and names keep the format's limits.
std::optional<Skipped> OverLimits(std::string_view path) {
  if (path.size() > kMaxPathBytes) return Skipped{SkipReason::kOverLimits, "its path is longer than 4,095 bytes"};
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    if (end - start > kMaxNameBytes) return Skipped{SkipReason::kOverLimits, "a name in it is longer than 255 bytes"};
    start = end + 1;
  }
  return std::nullopt;
}

}  // namespace

class ArchiveWalk::MemberStream final : public ByteStream {
 public:
  explicit MemberStream(ArchiveReader& reader) : reader_(reader) {}
  [[nodiscard]] Result<size_t> Read(MutableByteSpan out) override { return reader_.Read(out); }

 private:
  ArchiveReader& reader_;
};

Result<ArchiveWalk> ArchiveWalk::Open(ByteStream& stream, std::string name, bool nested, int64_t mtime_ns) {
  auto probed = ProbedStream::Open(stream, name, true);
  if (!probed) return PassOn(std::move(probed));
  if (probed->empty()) return Fail(ErrorCode::kInvalidArgument, Quoted(name) + " is empty, and so no archive");
  if (probed->archive() == nullptr && probed->fault()) return tl::unexpected<Error>(*probed->fault());
  if (probed->archive() == nullptr)
    return Fail(ErrorCode::kInvalidArgument,
                Quoted(name) + (probed->compression() == Compression::kNone
                                    ? " is no archive: it is neither a tar nor a zip"
                                    : " is compressed, and what it holds is neither a tar nor a zip"));
  if (probed->format() == ArchiveFormat::kZip && (!stream.size() || probed->compression() != Compression::kNone))
    return Fail(ErrorCode::kUnsupported,
                Quoted(name) + " is a zip, which is read from its end: give it as a plain file");
  ArchiveWalk walk(nested, mtime_ns);
  walk.levels_.push_back(std::make_unique<Level>(Level{std::move(name), "", nullptr, std::move(*probed)}));
  return walk;
}

ArchiveWalk::ArchiveWalk(bool nested, int64_t mtime_ns) : nested_(nested), mtime_ns_(mtime_ns) {}
ArchiveWalk::ArchiveWalk(ArchiveWalk&&) noexcept = default;
ArchiveWalk::~ArchiveWalk() = default;

Result<std::optional<ArchiveMember>> ArchiveWalk::Next() {
  probed_.reset();
  stream_.reset();
  while (!levels_.empty()) {
    auto entry = reader().Next();
    const bool at_top = levels_.size() == 1;
    if (!entry && at_top) return PassOn(std::move(entry));
    if (!entry) {
      ++number_;
      auto member = NotPacked(levels_.back()->prefix, SkipReason::kUnreadable,
                              "not all of the archive it was made of: " + entry.error().message);
      levels_.pop_back();
      return member;
    }
    if (!*entry) {
      auto left = Leave();
      if (!left || *left) return left;
      continue;
    }
    ++number_;
    if ((*entry)->encrypted && at_top)
      return Fail(ErrorCode::kUnsupported, Quoted(levels_.back()->name) + " is encrypted (" +
                                               Quoted((*entry)->path.value_or("a member")) + " is): decrypt it first");
    auto member = MemberOf(**entry);
    if (!member) return PassOn(std::move(member));
    return std::move(*member);
  }
  return std::nullopt;
}

// Ends an archive; a member only to say what is odd about that.
Result<std::optional<ArchiveMember>> ArchiveWalk::Leave() {
  auto marked = reader().ReadEnd();
  const std::unique_ptr<Level> level = std::move(levels_.back());
  levels_.pop_back();
  if (!marked && levels_.empty()) return PassOn(std::move(marked));
  if (marked && *marked) return std::nullopt;
  if (marked && levels_.empty())
    return Fail(ErrorCode::kDamaged,
                Quoted(level->name) +
                    " has no end mark, as if it had been cut off behind a file; if it is whole, put "
                    "1,024 bytes of zeros behind it");
  ++number_;
  return NotPacked(level->prefix, SkipReason::kUnreadable,
                   marked ? "the archive it was made of has no end mark, as if it had been cut off"
                          : "the end of the archive it was made of: " + marked.error().message);
}

Result<ArchiveMember> ArchiveWalk::MemberOf(const ArchiveEntry& entry) {
  const std::string& prefix = levels_.back()->prefix;
  if (!entry.path) return NotPacked(prefix, SkipReason::kUnreadable, "the name of a file in it cannot be read");
  const auto path = Cleaned(prefix, prefix, *entry.path, false);
  if (!path) return NotPacked(*entry.path, SkipReason::kOutside, "its path leads out of the archive, by '..'");
  if (auto over = OverLimits(*path)) return NotPacked(*path, over->reason, std::move(over->detail));
  ArchiveMember member;
  member.number = number_;
  member.path = *path;
  member.attributes = {entry.mode, entry.mtime_ns.value_or(mtime_ns_)};
  if (entry.type == ArchiveEntry::Type::kFolder) {
    member.kind = ArchiveMember::Kind::kFolder;
    return member;
  }
  if (*path == prefix) return NotPacked(*entry.path, SkipReason::kUnreadable, "it has no name");
  if (entry.encrypted) return NotPacked(*path, SkipReason::kUnreadable, "it is encrypted");
  switch (entry.type) {
    case ArchiveEntry::Type::kSpecial:
      return NotPacked(*path, SkipReason::kSpecialFile, entry.what);
    case ArchiveEntry::Type::kHardLink:
    case ArchiveEntry::Type::kSymbolicLink:
      return LinkOf(entry, std::move(member));
    default:
      break;
  }
  if (entry.size && *entry.size > kMaxSourceBytes)
    return NotPacked(*path, SkipReason::kOverLimits, "it is larger than the format holds, 4 TiB");
  member.size = entry.size;
  return FileOrArchive(std::move(member));
}

ArchiveMember ArchiveWalk::NotPacked(std::string path, SkipReason reason, std::string detail) const {
  ArchiveMember member;
  member.kind = ArchiveMember::Kind::kNotPacked;
  member.number = number_;
  member.path = std::move(path);
  member.why = {reason, std::move(detail)};
  return member;
}

// A hard link names its target from the archive's root, a symbolic one from the folder that it is in.
ArchiveMember ArchiveWalk::LinkOf(const ArchiveEntry& entry, ArchiveMember member) const {
  const std::string& prefix = levels_.back()->prefix;
  member.kind = ArchiveMember::Kind::kLink;
  member.symbolic = entry.type == ArchiveEntry::Type::kSymbolicLink;
  const bool absolute = member.symbolic && entry.target.starts_with('/');
  const auto base = member.symbolic ? std::string(ParentOf(member.path)) : prefix;
  auto target = absolute ? std::nullopt : Cleaned(prefix, base, entry.target, member.symbolic);
  if (!target || *target == prefix)
    return NotPacked(member.path, SkipReason::kBrokenLink,
                     "it is a link to " + Quoted(entry.target) + ", which is no file of the archive");
  member.target = std::move(*target);
  return member;
}

// Looks into a file where archives inside the archive are wanted.
Result<ArchiveMember> ArchiveWalk::FileOrArchive(ArchiveMember member) {
  if (!nested_ || levels_.size() > kMaxNesting || (member.size && *member.size < kSmallestArchive)) return member;
  stream_ = std::make_unique<MemberStream>(reader());
  const std::string name = levels_.back()->name + ": " + member.path;
  auto probed = ProbedStream::Open(*stream_, name, false);
  if (!probed) return NotPacked(member.path, SkipReason::kUnreadable, std::move(probed.error().message));
  if (probed->archive() == nullptr) {
    probed_.emplace(std::move(*probed));
    return member;
  }
  member.kind = ArchiveMember::Kind::kFolder;
  member.path = WithoutArchiveSuffix(std::move(member.path));
  member.attributes.mode = kDefaultFolderMode;
  member.size.reset();
  levels_.push_back(std::make_unique<Level>(Level{name, member.path, std::move(stream_), std::move(*probed)}));
  return member;
}

Result<size_t> ArchiveWalk::Read(MutableByteSpan out) {
  return probed_ ? probed_->bytes().Read(out) : reader().Read(out);
}

}  // namespace pcrfs
