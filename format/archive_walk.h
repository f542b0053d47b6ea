// What an archive holds, member by member, as a pack sees it: cleaned paths, and archives inside it opened where that
// is wanted.
//
// Leading "./" and "/" are stripped from paths. What cannot be packed comes as a member that says why: "..", names and
// sizes over the limits, devices, links that leave the archive, an archive inside it that is damaged. Members are
// numbered as they come, so that the same archive, walked again, gives the same numbers.
//
// With `nested`, a file that is an archive by its content (tar, compressed tar, zip) is a folder, called like it
// without its archive suffix, and what it holds lies below; up to kMaxNesting archives lie in one another. Zips inside
// an archive are read from front to back and so have no modes and links.
//
// Borrows its stream. Memory: that of the readers. One thread at a time. Sizes are bytes. Errors: kInvalidArgument (no
// archive), kUnsupported (encrypted; a zip that comes through a pipe), those of ArchiveReader.
#ifndef PCRFS_FORMAT_ARCHIVE_WALK_H_
#define PCRFS_FORMAT_ARCHIVE_WALK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "format/archive_reader.h"
#include "format/byte_stream.h"
#include "format/entry.h"
#include "format/error.h"
#include "format/skipped.h"

namespace pcrfs {

inline constexpr size_t kMaxNesting = 8;

struct ArchiveMember {
  enum class Kind { kFile, kFolder, kLink, kNotPacked };
  Kind kind = Kind::kFile;
  uint64_t number = 0;           // from 1
  std::string path;              // "" is the root, a folder's only; of kNotPacked as far as it is known
  std::optional<uint64_t> size;  // of a file; nothing where it shows only at its end
  Attributes attributes;
  std::string target;     // path of what a link stands for
  bool symbolic = false;  // link: it has the attributes of its target
  Skipped why;            // of kNotPacked
};

class ArchiveWalk {
 public:
  // `name` is what the archive is called in messages. Members without a time have `mtime_ns`.
  [[nodiscard]] static Result<ArchiveWalk> Open(ByteStream& stream, std::string name, bool nested, int64_t mtime_ns);

  ArchiveWalk(ArchiveWalk&&) noexcept;
  ~ArchiveWalk();

  // The next member, nothing after the last.
  [[nodiscard]] Result<std::optional<ArchiveMember>> Next();
  // Of the file that Next gave last: fills `out` as far as its bytes reach. An error concerns this file.
  [[nodiscard]] Result<size_t> Read(MutableByteSpan out);

 private:
  class MemberStream;
  struct Level {
    std::string name;                      // for messages
    std::string prefix;                    // folder of its members, "" at the top
    std::unique_ptr<MemberStream> stream;  // null at the top
    ProbedStream probed;
  };

  ArchiveWalk(bool nested, int64_t mtime_ns);

  [[nodiscard]] ArchiveReader& reader() const { return *levels_.back()->probed.archive(); }
  Result<std::optional<ArchiveMember>> Leave();
  Result<ArchiveMember> MemberOf(const ArchiveEntry& entry);
  ArchiveMember NotPacked(std::string path, SkipReason reason, std::string detail) const;
  ArchiveMember LinkOf(const ArchiveEntry& entry, ArchiveMember member) const;
  Result<ArchiveMember> FileOrArchive(ArchiveMember member);

  bool nested_;
  int64_t mtime_ns_;
  std::vector<std::unique_ptr<Level>> levels_;  // from the archive down to the one that is being read
  // Of the current file, when it was looked at.
  std::unique_ptr<MemberStream> stream_;
  std::optional<ProbedStream> probed_;
  uint64_t number_ = 0;
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_ARCHIVE_WALK_H_
