#include "format/pack_input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "format/archive_listing.h"
#include "format/archive_source.h"
#include "format/stream_source.h"

namespace pcrfs {
namespace {

class FolderInput final : public PackInput {
 public:
  FolderInput(std::string path, UniqueFd folder, const PackOrder& order)
      : path_(std::move(path)), folder_(std::move(folder)), order_(order) {}

  [[nodiscard]] std::string Identity() const override { return path_; }
  [[nodiscard]] bool is_archive() const override { return false; }
  Result<ListingTotals> List(const ListingOptions& options, const OnSkipped& on_skipped,
                             const RecordSink& sink) override {
    return ListInPackOrder(path_, options, order_, on_skipped, sink);
  }
  Result<std::unique_ptr<PackSource>> Source(const PackPlan& plan, const ShardLimits& limits, const ListingOptions&,
                                             const OnSkipped&) override {
    return std::make_unique<FolderSource>(folder_.get(), path_, plan, limits);
  }

 private:
  const std::string path_;
  const UniqueFd folder_;
  const PackOrder order_;
};

class ArchiveInput final : public PackInput {
 public:
  ArchiveInput(std::unique_ptr<ArchiveFile> archive, bool nested) : archive_(std::move(archive)), nested_(nested) {}

  // Behind the path and a NUL: what tells another archive of that path.
  [[nodiscard]] std::string Identity() const override { return archive_->path() + '\0' + archive_->Identity(); }
  Result<ListingTotals> List(const ListingOptions& options, const OnSkipped& on_skipped,
                             const RecordSink& sink) override {
    FdStream bytes(archive_->fd(), archive_->path(), FdStream::Access::kAnywhere);
    auto walk = ArchiveWalk::Open(bytes, archive_->path(), nested_, archive_->mtime_ns());
    if (!walk) return PassOn(std::move(walk));
    auto totals = ListArchive(*walk, archive_->mtime_ns(), options, on_skipped, sink);
    if (auto unchanged = archive_->CheckUnchanged(); !unchanged) return PassOn(std::move(unchanged));
    return totals;
  }
  Result<std::unique_ptr<PackSource>> Source(const PackPlan& plan, const ShardLimits& limits, const ListingOptions&,
                                             const OnSkipped&) override {
    return std::make_unique<ArchiveSource>(*archive_, nested_, plan, limits);
  }

 private:
  const std::unique_ptr<ArchiveFile> archive_;
  const bool nested_;
};

class StreamInput final : public PackInput {
 public:
  explicit StreamInput(bool nested) : nested_(nested) {}

  [[nodiscard]] std::string Identity() const override { return std::string(kStandardInput); }
  [[nodiscard]] bool is_listed() const override { return false; }
  // Only the root: the stream has to be read to know more, and can be read only once.
  Result<ListingTotals> List(const ListingOptions&, const OnSkipped&, const RecordSink& sink) override {
    if (auto given = sink({SourceKind::kFolder, "", 0, DefaultFolderAttributes(0)}); !given)
      return PassOn(std::move(given));
    return ListingTotals();
  }
  Result<std::unique_ptr<PackSource>> Source(const PackPlan&, const ShardLimits& limits, const ListingOptions& options,
                                             const OnSkipped& on_skipped) override {
    auto source = StreamSource::Open(bytes_, kName, nested_, options, limits, on_skipped);
    if (!source) return PassOn(std::move(source));
    source_ = source->get();
    return std::move(*source);
  }
  [[nodiscard]] Outcome FindOutcome() override { return {source_->Summary(), source_->totals()}; }

 private:
  static constexpr char kName[] = "standard input";

  const bool nested_;
  StreamSource* source_ = nullptr;  // of whom Source gave it to
  FdStream bytes_{STDIN_FILENO, kName, FdStream::Access::kFrontToBack};
};

}  // namespace

Result<void> CheckIsFolder(const std::string& path, const std::string& why) {
  struct stat status {};
  if (path != kStandardInput && stat(path.c_str(), &status) != 0)
    return SystemFail("the source " + Quoted(path), errno);
  if (path != kStandardInput && S_ISDIR(status.st_mode)) return {};
  return Fail(ErrorCode::kNotDirectory, "the source " + Quoted(path) + " is not a folder, and " + why);
}

Result<std::unique_ptr<PackInput>> PackInput::Open(const std::string& path, const PackOptions& options) {
  const bool stream = path == kStandardInput;
  struct stat status {};
  if (!stream && stat(path.c_str(), &status) != 0) return SystemFail("the source " + Quoted(path), errno);
  const bool folder = !stream && S_ISDIR(status.st_mode);
  if (folder && options.nested)
    return Fail(ErrorCode::kInvalidArgument,
                "--nested opens archives inside an archive, and the source " + Quoted(path) + " is a folder");
  if (!folder && options.order.shuffle)
    return Fail(ErrorCode::kInvalidArgument,
                "an archive is packed in its own order, since it can be read from front to back only; to shuffle, "
                "unpack it and pack the folder");
  if (stream) return std::make_unique<StreamInput>(options.nested);
  if (!folder) {
    auto archive = ArchiveFile::Open(path);
    if (!archive) return PassOn(std::move(archive));
    return std::make_unique<ArchiveInput>(std::move(*archive), options.nested);
  }
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return SystemFail("opening the source folder " + Quoted(path), errno);
  return std::make_unique<FolderInput>(path, std::move(fd), options.order);
}

}  // namespace pcrfs
