#include "format/append_listing.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "format/dataset_paths.h"

namespace pcrfs {
namespace {

bool IsBelow(std::string_view path, std::string_view folder) {
  return folder.empty() || (path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/');
}

// Hands on folders only when there is something new in them.
class FoldersWhenNeeded {
 public:
  explicit FoldersWhenNeeded(const RecordSink& sink) : sink_(sink) {}

  Result<void> Take(const SourceRecord& record) {
    while (!folders_.empty() && !IsBelow(record.path, folders_.back().path)) folders_.pop_back();
    given_ = std::min(given_, folders_.size());
    if (record.kind == SourceKind::kFolder) {
      folders_.push_back(record);
      return {};
    }
    for (; given_ < folders_.size(); ++given_)
      if (auto given = sink_(folders_[given_]); !given) return given;
    return sink_(record);
  }

 private:
  const RecordSink& sink_;
  std::vector<SourceRecord> folders_;  // SOURCE itself first
  size_t given_ = 0;
};

std::string Difference(const SourceRecord& found, const DatasetPath& packed) {
  if (found.size != packed.size)
    return "it has " + std::to_string(found.size) + " bytes now, and had " + std::to_string(packed.size) +
           " when it was packed; the data set keeps what it has";
  return "it was changed after it was packed; the data set keeps what it has";
}

// The walk through the data set, beside that through SOURCE.
class Packed {
 public:
  Packed(const AppendListing& listing, DatasetPaths paths) : listing_(listing), paths_(std::move(paths)) {}

  Result<void> Start() { return Advance(); }

  // Whether a record of SOURCE, the next one by path, is to be added.
  Result<bool> Lacks(const SourceRecord& record) {
    if (record.path.empty()) return true;
    const std::string key = record.kind == SourceKind::kFile ? record.path : record.path + '/';
    while (next_ && next_->key < key)
      if (auto passed = Pass(); !passed) return PassOn(std::move(passed));
    ForgetUnreadableBefore(key);
    if (!barred_.empty() && IsBelow(record.path, barred_)) {
      if (record.is_item()) Bar(record.path, Quoted(barred_) + " is a file in the data set");
      return false;
    }
    if (next_ && next_->key == key) return TakeBoth(record, key);
    if (record.kind == SourceKind::kFile || !IsFileHere(record.path)) return true;
    barred_ = record.path;
    Bar(record.path, "it is a folder, and a file in the data set");
    return false;
  }

  // What lies in SOURCE and cannot be read, a file or a folder: neither it nor what is below it is gone. Before the
  // walk comes to where it belongs.
  void CannotRead(const std::string& path) { unreadable_.insert(path); }

  // After the last of them.
  Result<void> Finish() {
    while (next_)
      if (auto passed = Pass(); !passed) return passed;
    return {};
  }

 private:
  // The data set has that path; all it says of it is passed over. Folders above what is new are wanted, too.
  Result<bool> TakeBoth(const SourceRecord& record, const std::string& key) {
    bool is_file = false;
    for (; next_ && next_->key == key;) {
      if (next_->kind == DatasetPath::Kind::kFile) {
        is_file = true;
        if (record.size != next_->size || record.attributes.mtime_ns != next_->mtime_ns)
          listing_.on_changed(record.path, Difference(record, *next_));
        Remember(next_->key);
      }
      if (auto next = Advance(); !next) return PassOn(std::move(next));
    }
    if (record.kind == SourceKind::kFile && !is_file) Bar(record.path, "it is a file, and a folder in the data set");
    return record.kind == SourceKind::kFolder;
  }

  // What the data set has and SOURCE has not.
  Result<void> Pass() {
    if (next_->kind == DatasetPath::Kind::kFile) {
      ForgetUnreadableBefore(next_->key);
      if (!IsUnreadable(next_->key)) listing_.on_gone(next_->key);
      Remember(next_->key);
    }
    return Advance();
  }

  [[nodiscard]] bool IsUnreadable(const std::string& path) const {
    for (size_t slash = path.find('/');; slash = path.find('/', slash + 1)) {
      if (unreadable_.contains(path.substr(0, slash))) return true;
      if (slash == std::string::npos) return false;
    }
  }
  // '0' is what follows '/': with it a path stands behind all that is below it.
  void ForgetUnreadableBefore(const std::string& key) {
    while (!unreadable_.empty() && *unreadable_.begin() + '0' <= key) unreadable_.erase(unreadable_.begin());
  }

  Result<void> Advance() {
    auto next = paths_.Next();
    if (!next) return PassOn(std::move(next));
    next_ = *std::move(next);
    return {};
  }

  // Files of the data set that begin the path of what comes: a folder's path stands behind those of all files whose
  // names begin like its own.
  void Remember(const std::string& file) {
    while (!beginnings_.empty() && !file.starts_with(beginnings_.back())) beginnings_.pop_back();
    beginnings_.push_back(file);
  }
  [[nodiscard]] bool IsFileHere(const std::string& path) {
    while (!beginnings_.empty() && !path.starts_with(beginnings_.back())) beginnings_.pop_back();
    return !beginnings_.empty() && beginnings_.back() == path;
  }

  void Bar(const std::string& path, const std::string& why) { listing_.on_skipped(path, {SkipReason::kConflict, why}); }

  const AppendListing& listing_;
  DatasetPaths paths_;
  std::optional<DatasetPath> next_;  // not passed yet
  std::vector<std::string> beginnings_;
  std::set<std::string> unreadable_;
  std::string barred_;  // a folder of SOURCE that is a file in the data set
};

}  // namespace

Result<ListingTotals> ListNewItems(const Dataset& dataset, const AppendListing& listing, const RecordSink& sink) {
  auto paths = DatasetPaths::Read(dataset, listing.options.spool);
  if (!paths) return PassOn(std::move(paths));
  Packed packed(listing, *std::move(paths));
  if (auto started = packed.Start(); !started) return PassOn(std::move(started));
  FoldersWhenNeeded folders(sink);
  auto totals = ListInPackOrder(
      listing.source, listing.options, listing.order,
      [&](const std::string& path, const Skipped& why) {
        if (why.reason == SkipReason::kUnreadable) packed.CannotRead(path);
        listing.on_skipped(path, why);
      },
      [&](const SourceRecord& record) { return folders.Take(record); },
      [&](const SourceRecord& record) { return packed.Lacks(record); });
  if (!totals) return totals;
  if (auto finished = packed.Finish(); !finished) return PassOn(std::move(finished));
  return totals;
}

}  // namespace pcrfs
