#include "format/archive_listing.h"

#include <string>
#include <string_view>
#include <utility>

#include "format/path_parts.h"
#include "format/path_table.h"
#include "format/sorted_spool.h"
#include "format/spool_text.h"

namespace pcrfs {
namespace {

using Kind = PathFacts::Kind;

void AppendText(ByteWriter& out, std::string_view text) {
  out.Varint(text.size());
  out.Append(text);
}

std::string TakeText(ByteReader& in) { return std::string(AsText(in.Take(in.Varint()))); }

struct Link {
  uint64_t number = 0;
  bool symbolic = false;
  Attributes attributes;
  std::string path, target;

  [[nodiscard]] Result<void> AddTo(SortedSpool& spool) const {
    ByteWriter key, value;
    AppendKeyNumber(key, number);
    value.U8(symbolic ? 1 : 0);
    AppendAttributes(value, attributes);
    AppendText(value, path);
    AppendText(value, target);
    return spool.Add(key.bytes(), value.bytes());
  }
  static Link From(ByteSpan key, ByteSpan value) {
    ByteReader number(key), in(value);
    Link link;
    link.number = TakeKeyNumber(number);
    link.symbolic = in.U8() != 0;
    link.attributes = TakeAttributes(in);
    link.path = TakeText(in);
    link.target = TakeText(in);
    return link;
  }
};

class Listing {
 public:
  Listing(int64_t mtime_ns, const ListingOptions& options, const OnSkipped& on_skipped)
      : missing_(DefaultFolderAttributes(mtime_ns)),
        root_(missing_),
        options_(options),
        on_skipped_(on_skipped),
        paths_(options.spool, 32 * options.memory),
        items_(options.spool, 16 * options.memory),
        links_(options.spool, 16 * options.memory) {}

  Result<void> Add(ArchiveWalk& walk, const ArchiveMember& member) {
    if (member.kind == ArchiveMember::Kind::kNotPacked) {
      on_skipped_(member.path, member.why);
      return {};
    }
    const bool folder = member.kind == ArchiveMember::Kind::kFolder;
    if (folder && member.path.empty()) {
      root_ = member.attributes;
      return {};
    }
    if (options_.exclude.ExcludesWithin(member.path, folder)) {
      ++totals_.excluded;
      return {};
    }
    if (folder) return AddFolder(member);
    auto before = paths_.Find(member.path);
    if (!before) return PassOn(std::move(before));
    if (before->kind == Kind::kFolder) {
      SkipFileThatIsFolder(member.path);
      return {};
    }
    uint64_t size = 0;
    if (member.kind == ArchiveMember::Kind::kFile) {
      auto known = SizeOf(walk, member);
      if (!known) {
        on_skipped_(member.path, {SkipReason::kUnreadable, std::move(known.error().message)});
        return {};
      }
      size = *known;
      if (options_.on_file) options_.on_file(size);
    }
    if (before->kind != Kind::kUnknown)
      on_skipped_(member.path,
                  {SkipReason::kConflict, "the archive has this path again further on, and the last one counts"});
    return member.kind == ArchiveMember::Kind::kLink ? AddLink(member) : AddFile(member, size);
  }

  Result<ListingTotals> GiveOut(const RecordSink& sink) {
    if (auto resolved = ResolveLinks(); !resolved) return PassOn(std::move(resolved));
    if (auto given = sink({SourceKind::kFolder, "", 0, root_}); !given) return PassOn(std::move(given));
    std::string last;
    auto drained = items_.Drain([&](ByteSpan key, ByteSpan value) -> Result<void> {
      auto item = ItemOf(key, std::string(AsText(value)));
      if (!item) return PassOn(std::move(item));
      if (!*item) return {};
      if (auto given = GiveFolders((*item)->path, last, sink); !given) return given;
      if (auto given = sink(**item); !given) return given;
      last = std::move((*item)->path);
      return {};
    });
    if (!drained) return PassOn(std::move(drained));
    return totals_;
  }

 private:
  static constexpr int kLongestChain = 40;

  void SkipFileThatIsFolder(const std::string& path) {
    on_skipped_(path, {SkipReason::kConflict, "it is a file, and a folder of the archive has the same path"});
  }

  // A zip that is read from front to back tells the size only at the end.
  static Result<uint64_t> SizeOf(ArchiveWalk& walk, const ArchiveMember& member) {
    if (member.size) return *member.size;
    Bytes buffer(256 << 10);
    for (uint64_t size = 0;;) {
      auto got = walk.Read(buffer);
      if (!got) return PassOn(std::move(got));
      size += *got;
      if (size > kMaxSourceBytes) return Fail(ErrorCode::kLimit, "it is larger than the format holds, 4 TiB");
      if (*got < buffer.size()) return size;
    }
  }

  // `content` is the member that has the bytes of `number`.
  Result<void> AddItem(uint64_t content, uint64_t number, const std::string& path) {
    ByteWriter key;
    AppendKeyNumber(key, content);
    AppendKeyNumber(key, number);
    return items_.Add(key.bytes(), AsBytes(path));
  }

  Result<void> AddFile(const ArchiveMember& member, uint64_t size) {
    if (auto added = AddFoldersAbove(member.path); !added) return added;
    if (auto put = paths_.Put(member.path, {Kind::kFile, false, member.attributes, member.number, member.number, size});
        !put)
      return put;
    return AddItem(member.number, member.number, member.path);
  }

  Result<void> AddLink(const ArchiveMember& member) {
    if (auto put = paths_.Put(member.path, {Kind::kLink, false, member.attributes, member.number, 0, 0}); !put)
      return put;
    return Link{member.number, member.symbolic, member.attributes, member.path, member.target}.AddTo(links_);
  }

  // It is an item only if nothing comes to lie in it.
  Result<void> AddFolder(const ArchiveMember& member) {
    if (auto added = AddFoldersAbove(member.path); !added) return added;
    auto folder = FolderAt(member.path);
    if (!folder) return PassOn(std::move(folder));
    folder->attributes = member.attributes;
    folder->number = member.number;
    if (auto put = paths_.Put(member.path, *folder); !put) return put;
    return AddItem(member.number, member.number, member.path);
  }

  // What the table has of a folder, or is to have; a file of that path is reported.
  Result<PathFacts> FolderAt(const std::string& path) {
    auto found = paths_.Find(path);
    if (!found || found->kind == Kind::kFolder) return found;
    if (found->kind == Kind::kFile || found->kind == Kind::kLink) SkipFileThatIsFolder(path);
    ++totals_.folders;
    return PathFacts{Kind::kFolder, false, missing_, 0, 0, 0};
  }

  Result<void> AddFoldersAbove(std::string_view path) {
    for (path = ParentOf(path); !path.empty(); path = ParentOf(path)) {
      auto folder = FolderAt(std::string(path));
      if (!folder) return PassOn(std::move(folder));
      if (std::exchange(folder->has_items, true)) break;  // and so all above it
      if (auto put = paths_.Put(path, *folder); !put) return put;
    }
    return {};
  }

  // In rounds, since a link may stand for another one.
  Result<void> ResolveLinks() {
    for (int round = 0; round <= kLongestChain; ++round) {
      SortedSpool later(options_.spool, 16 * options_.memory);
      bool some_later = false, some_resolved = false;
      const bool last_round = round == kLongestChain;
      auto drained = links_.Drain([&](ByteSpan key, ByteSpan value) -> Result<void> {
        const Link link = Link::From(key, value);
        auto own = paths_.Find(link.path);
        if (!own) return PassOn(std::move(own));
        if (own->kind != Kind::kLink || own->number != link.number) return {};  // was reported
        auto target = paths_.Find(link.target);
        if (!target) return PassOn(std::move(target));
        if (target->kind == Kind::kLink && !last_round) {
          some_later = true;
          return link.AddTo(later);
        }
        some_resolved = true;
        return target->kind == Kind::kFile ? Resolve(link, *target) : Drop(link, *target);
      });
      if (!drained) return drained;
      links_ = std::move(later);
      if (!some_later) return {};
      if (!some_resolved) round = kLongestChain - 1;
    }
    return {};
  }

  Result<void> Resolve(const Link& link, const PathFacts& target) {
    if (auto added = AddFoldersAbove(link.path); !added) return added;
    PathFacts file = target;
    file.number = link.number;
    if (!link.symbolic) file.attributes = link.attributes;
    if (auto put = paths_.Put(link.path, file); !put) return put;
    return AddItem(target.content, link.number, link.path);
  }

  Result<void> Drop(const Link& link, const PathFacts& target) {
    const std::string to = "it is a link to " + Quoted(link.target);
    on_skipped_(link.path, {SkipReason::kBrokenLink,
                            to + (target.kind == Kind::kFolder ? ", a folder, which is packed under its own path only"
                                  : target.kind == Kind::kLink ? ", and such links lead in a circle"
                                                               : ", which is no file of the archive that is packed")});
    return paths_.Put(link.path, {Kind::kDropped, false, {}, 0, 0, 0});
  }

  // Nothing when another member has taken its place, or for a folder that is not empty.
  Result<std::optional<SourceRecord>> ItemOf(ByteSpan key, std::string path) const {
    ByteReader in(key);
    TakeKeyNumber(in);
    const uint64_t number = TakeKeyNumber(in);
    auto facts = paths_.Find(path);
    if (!facts) return PassOn(std::move(facts));
    if (facts->number != number) return std::nullopt;
    if (facts->kind == Kind::kFile)
      return SourceRecord{SourceKind::kFile, std::move(path), facts->size, facts->attributes, facts->content};
    if (facts->kind == Kind::kFolder && !facts->has_items)
      return SourceRecord{SourceKind::kEmptyFolder, std::move(path), 0, facts->attributes, 0};
    return std::nullopt;
  }

  // The folders above `path` that are not above `last`.
  Result<void> GiveFolders(std::string_view path, std::string_view last, const RecordSink& sink) const {
    for (size_t slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/', slash + 1)) {
      if (last.starts_with(path.substr(0, slash + 1))) continue;
      auto folder = paths_.Find(path.substr(0, slash));
      if (!folder) return PassOn(std::move(folder));
      if (auto given = sink({SourceKind::kFolder, std::string(path.substr(0, slash)), 0, folder->attributes}); !given)
        return given;
    }
    return {};
  }

  const Attributes missing_;  // of folders that no member stands for
  Attributes root_;
  const ListingOptions& options_;
  const OnSkipped& on_skipped_;
  PathTable paths_;
  SortedSpool items_;  // by the member with their bytes, then by their own: paths
  SortedSpool links_;  // by number
  ListingTotals totals_;
};

}  // namespace

Result<ListingTotals> ListArchive(ArchiveWalk& walk, int64_t archive_mtime_ns, const ListingOptions& options,
                                  const OnSkipped& on_skipped, const RecordSink& sink) {
  Listing listing(archive_mtime_ns, options, on_skipped);
  while (true) {
    auto member = walk.Next();
    if (!member) return PassOn(std::move(member));
    if (!*member) return listing.GiveOut(sink);
    if (auto added = listing.Add(walk, **member); !added) return PassOn(std::move(added));
  }
}

}  // namespace pcrfs
