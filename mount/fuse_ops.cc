#include "mount/fuse_ops.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <string>

#include "fs/errno_map.h"
#include "mount/control.h"
#include "mount/logging.h"
#include "mount/reply.h"
#include "mount/store_read.h"
#include "mount/timespec.h"

namespace pcrfs {
namespace {

constexpr double kForAYear = 365.0 * 24 * 3600;
constexpr unsigned kMaxBackground = 512;
constexpr size_t kMaxListing = size_t{1} << 20;
// Far more than any kernel asks for at once; a buffer of that size is never made unless it is asked for.
constexpr size_t kMaxRead = size_t{64} << 20;

// Runs one callback's work; whatever happens in it, the request is answered once.
template <typename Work>
void Serve(fuse_req_t request, RequestKind kind, Work work) {
  Reply reply(request);
  auto& mount = *static_cast<MountState*>(fuse_req_userdata(request));
  mount.requests.Count(kind);
  try {
    work(mount, reply);
  } catch (const std::bad_alloc&) {
    reply.Error(ENOMEM);
  } catch (...) {
    reply.Error(EIO);
  }
}

// The same for a request about a node: work(mount, generation, ino, reply).
template <typename Work>
void ServeNode(fuse_req_t request, RequestKind kind, fuse_ino_t node_id, Work work) {
  Serve(request, kind, [&](MountState& mount, Reply& reply) {
    const auto place = mount.generations.Find(node_id);
    if (!place) return reply.Error(ESTALE);
    work(mount, place->generation, place->ino, reply);
  });
}

using GenerationPtr = std::shared_ptr<const Generation>;

mode_t TypeBits(FileType type) {
  switch (type) {
    case FileType::kDirectory:
      return S_IFDIR;
    case FileType::kSymlink:
      return S_IFLNK;
    case FileType::kRegular:
      break;
  }
  return S_IFREG;
}

struct stat ToStat(const Stat& from) {
  struct stat to {};
  to.st_ino = from.ino.number();
  to.st_mode = TypeBits(from.type) | from.permissions;
  to.st_nlink = 1;
  to.st_uid = from.uid;
  to.st_gid = from.gid;
  to.st_size = static_cast<off_t>(from.size);
  to.st_blocks = static_cast<blkcnt_t>(from.blocks);
  to.st_blksize = static_cast<blksize_t>(from.block_size);
  to.st_mtim = ToTimespec(from.mtime_ns);
  to.st_atim = to.st_ctim = to.st_mtim;
  return to;
}

fuse_entry_param ToEntry(const Stat& from, const Generation& generation) {
  fuse_entry_param entry{};
  entry.ino = generation.NodeId(from.ino);
  entry.generation = from.generation;  // tells an NFS client's handle of another state of the data set
  entry.attr = ToStat(from);
  entry.attr_timeout = entry.entry_timeout = kForAYear;
  return entry;
}

void Init(void* userdata, fuse_conn_info* connection) {
  auto& mount = *static_cast<MountState*>(userdata);
  const auto want = [&](uint64_t capability) {
    const auto bit = static_cast<unsigned>(capability);
    connection->want |= connection->capable & bit;
    return (connection->capable & bit) != 0;
  };
  mount.no_open = want(FUSE_CAP_NO_OPEN_SUPPORT);
  mount.no_opendir = want(FUSE_CAP_NO_OPENDIR_SUPPORT);
  want(FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS);
  want(FUSE_CAP_EXPORT_SUPPORT);
  want(FUSE_CAP_IOCTL_DIR);
  want(FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_EXPLICIT_INVAL_DATA);
  // With READDIRPLUS_AUTO the kernel caches listings that it got without attributes. Splicing a reply of 100 kB costs
  // more than copying it.
  want(FUSE_CAP_READDIRPLUS);
  connection->want &= ~static_cast<unsigned>(FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_AUTO_INVAL_DATA |
                                             FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE);
  // Readahead is background work to the kernel, and by default it lets no more than 12 such requests run.
  connection->max_background = kMaxBackground;
  connection->congestion_threshold = kMaxBackground / 4 * 3;
  connection->time_gran = 1;
  mount.met_kernel = true;
  mount.initialised = true;
  mount.initialised.notify_all();
}

void Lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  ServeNode(request, RequestKind::kLookup, parent, [&](MountState&, const GenerationPtr& at, Ino ino, Reply& reply) {
    const auto found = at->files().Lookup(ino, name);
    if (found) {
      reply.Entry(ToEntry(*found, *at));
    } else if (found.error().code == ErrorCode::kNotFound) {
      // Inode number 0 and a timeout: the kernel remembers that there is no such name.
      fuse_entry_param nothing{};
      nothing.entry_timeout = kForAYear;
      reply.Entry(nothing);
    } else {
      AnswerError(reply, found.error());
    }
  });
}

void GetAttr(fuse_req_t request, fuse_ino_t node_id, fuse_file_info*) {
  ServeNode(request, RequestKind::kGetAttr, node_id, [&](MountState&, const GenerationPtr& at, Ino ino, Reply& reply) {
    const auto attributes = at->files().GetAttr(ino);
    if (!attributes) return AnswerError(reply, attributes.error());
    reply.Attributes(ToStat(*attributes), kForAYear);
  });
}

void ReadLink(fuse_req_t request, fuse_ino_t node_id) {
  ServeNode(request, RequestKind::kReadLink, node_id, [&](MountState&, const GenerationPtr& at, Ino ino, Reply& reply) {
    const auto target = at->files().ReadLink(ino);
    if (!target) return AnswerError(reply, target.error());
    reply.Link(target->c_str());
  });
}

void Open(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  Serve(request, RequestKind::kOpen, [&](MountState& mount, Reply& reply) {
    if (mount.no_open) return reply.Error(ENOSYS);
    info->keep_cache = 1;
    reply.Open(*info);
  });
}

void OpenDir(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  Serve(request, RequestKind::kOpenDir, [&](MountState& mount, Reply& reply) {
    if (mount.no_opendir) return reply.Error(ENOSYS);
    info->keep_cache = 1;
    info->cache_readdir = 1;
    reply.Open(*info);
  });
}

void Read(fuse_req_t request, fuse_ino_t node_id, size_t size, off_t offset, fuse_file_info*) {
  ServeNode(request, RequestKind::kRead, node_id,
            [&](MountState& mount, const GenerationPtr& at, Ino ino, Reply& reply) {
              // Never less than was asked for: a short answer means the end of the file to the kernel.
              if (offset < 0 || size > kMaxRead) return reply.Error(EINVAL);
              const auto start = static_cast<uint64_t>(offset);
              const MutableByteSpan buffer = ReplyBuffer(size);
              if (const auto filled = at->files().ReadAtHand(ino, start, buffer))
                return reply.Data(buffer.first(*filled));
              ReadFromStore(mount, request, std::move(reply), {at, ino, start, size});
            });
}

// The packed entries of one READDIR or READDIRPLUS answer.
class Listing {
 public:
  Listing(fuse_req_t request, const Generation& generation, size_t size, bool plus)
      : request_(request), generation_(generation), buffer_(ReplyBuffer(std::min(size, kMaxListing))), plus_(plus) {}

  // False when the entry does not fit any more.
  bool Add(const DirEntry& entry) {
    name_ = entry.name;
    auto* at = reinterpret_cast<char*>(buffer_.data() + used_);
    const size_t room = buffer_.size() - used_;
    const auto next = static_cast<off_t>(entry.offset);
    size_t size = 0;
    if (plus_) {
      const fuse_entry_param parameters = Parameters(entry);
      size = fuse_add_direntry_plus(request_, at, room, name_.c_str(), &parameters, next);
    } else {
      const struct stat bare = Bare(entry);
      size = fuse_add_direntry(request_, at, room, name_.c_str(), &bare, next);
    }
    if (size > room) return false;
    used_ += size;
    return true;
  }

  [[nodiscard]] ByteSpan bytes() const { return buffer_.first(used_); }

 private:
  static struct stat Bare(const DirEntry& entry) {
    struct stat bare {};
    bare.st_ino = entry.ino.number();
    bare.st_mode = TypeBits(entry.type);
    return bare;
  }

  // Inode number 0 tells the kernel that no attributes come with the name: for "." and "..", which it takes no
  // attributes of, and for an entry that cannot be read, so that a stat of it fails and the listing does not.
  [[nodiscard]] fuse_entry_param Parameters(const DirEntry& entry) const {
    if (entry.name != "." && entry.name != "..")
      if (const auto attributes = generation_.files().GetAttr(entry.ino)) return ToEntry(*attributes, generation_);
    fuse_entry_param nothing{};
    nothing.attr = Bare(entry);
    return nothing;
  }

  fuse_req_t request_;
  const Generation& generation_;
  MutableByteSpan buffer_;
  bool plus_;
  size_t used_ = 0;
  std::string name_;
};

void List(fuse_req_t request, RequestKind kind, fuse_ino_t node_id, size_t size, off_t after) {
  ServeNode(request, kind, node_id, [&](MountState&, const GenerationPtr& at, Ino ino, Reply& reply) {
    Listing listing(request, *at, size, kind == RequestKind::kReadDirPlus);
    const auto listed = at->files().ReadDir(ino, static_cast<uint64_t>(after),
                                            [&](const DirEntry& entry) { return listing.Add(entry); });
    // What came before a fault is handed out; the kernel asks on and meets the fault at once.
    if (!listed && listing.bytes().empty()) return AnswerError(reply, listed.error());
    reply.Data(listing.bytes());
  });
}

void ReadDir(fuse_req_t request, fuse_ino_t ino, size_t size, off_t after, fuse_file_info*) {
  List(request, RequestKind::kReadDir, ino, size, after);
}

void ReadDirPlus(fuse_req_t request, fuse_ino_t ino, size_t size, off_t after, fuse_file_info*) {
  List(request, RequestKind::kReadDirPlus, ino, size, after);
}

void StatFileSystem(fuse_req_t request, fuse_ino_t given) {
  const fuse_ino_t node_id = given == 0 ? FUSE_ROOT_ID : given;
  ServeNode(request, RequestKind::kStatFs, node_id, [&](MountState&, const GenerationPtr& at, Ino ino, Reply& reply) {
    const auto totals = at->files().GetStatFs(ino);
    if (!totals) return AnswerError(reply, totals.error());
    struct statvfs numbers {};
    numbers.f_bsize = numbers.f_frsize = totals->block_size;
    numbers.f_blocks = totals->blocks;
    numbers.f_files = totals->files;
    numbers.f_namemax = kMaxNameBytes;
    reply.StatFs(numbers);
  });
}

// Answered by whoever refreshes, when that is done.
void Refresh(MountState& mount, const ControlRequest& asked, Reply& reply) {
  if (!mount.refresh) return reply.Error(ENOTTY);
  if (const int error = CheckControl(mount.facts, asked); error != 0) return reply.Error(error);
  mount.refresh([waiting = std::make_shared<Reply>(std::move(reply))](const RefreshOutcome& outcome) {
    waiting->Ioctl({reinterpret_cast<const uint8_t*>(&outcome), sizeof outcome});
  });
}

// Programs ask every file they open whether it is a terminal (TCGETS), so ENOTTY is frequent, and no fault. A 32-bit
// program's structs may be laid out otherwise.
void Ioctl(fuse_req_t request, fuse_ino_t ino, unsigned command, void*, fuse_file_info*, unsigned flags, const void* in,
           size_t in_size, size_t out_size) {
  Serve(request, RequestKind::kIoctl, [&](MountState& mount, Reply& reply) {
    if (!IsControlCommand(command) || (flags & FUSE_IOCTL_COMPAT) != 0) return reply.Error(ENOTTY);
    const ByteSpan given(static_cast<const uint8_t*>(in), in == nullptr ? 0 : in_size);
    const ControlRequest asked{command, Ino(ino), fuse_req_ctx(request)->uid, given, out_size};
    if (command == kRefreshMount) return Refresh(mount, asked, reply);
    const auto answer = AnswerControl(mount.facts, asked);
    if (!answer) return reply.Error(answer.error());
    reply.Ioctl(*answer);
  });
}

}  // namespace

const fuse_lowlevel_ops& FuseOps() {
  // What is not here libfuse answers ENOSYS, once, which is what is wanted of xattrs, locks, flush and access; FORGET
  // needs no answer and there is nothing to forget.
  static const fuse_lowlevel_ops ops = [] {
    fuse_lowlevel_ops made{};
    made.init = Init;
    made.lookup = Lookup;
    made.getattr = GetAttr;
    made.readlink = ReadLink;
    made.open = Open;
    made.opendir = OpenDir;
    made.read = Read;
    made.readdir = ReadDir;
    made.readdirplus = ReadDirPlus;
    made.statfs = StatFileSystem;
    made.ioctl = Ioctl;
    return made;
  }();
  return ops;
}

}  // namespace pcrfs
