#include "mount/dataset_walk.h"

#include <algorithm>
#include <map>
#include <utility>

#include "format/path_conflicts.h"
#include "fs/level_view.h"

namespace pcrfs {
namespace {

constexpr size_t kChunk = size_t{4} << 20;

std::string_view ParentOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string_view NameOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string_view DirectoryOf(const ShardIndex& index, const Entry& entry) {
  return entry.directory == 0 ? std::string_view() : std::string_view(index.directories[entry.directory - 1]);
}

// Position in index.directories, or nothing.
std::optional<size_t> FindDirectory(const ShardIndex& index, std::string_view path) {
  const auto at = std::lower_bound(index.directories.begin(), index.directories.end(), path);
  if (at == index.directories.end() || *at != path) return std::nullopt;
  return static_cast<size_t>(at - index.directories.begin());
}

const Entry* FindFile(const ShardIndex& index, std::string_view path) {
  for (const Entry& entry : index.entries)
    if (entry.name == NameOf(path) && DirectoryOf(index, entry) == ParentOf(path)) return &entry;
  return nullptr;
}

// "name/" and "name/." can only be folders.
Result<void> CheckMayBeFile(std::string_view path) {
  const std::string_view last = NameOf(path);
  if (!last.empty() && last != ".") return {};
  return Fail(ErrorCode::kNotDirectory, Quoted(path) + " is not a folder but a file");
}

tl::unexpected<Error> NoSuchPath(const Dataset& dataset, const std::string& path) {
  std::string sentence = "there is no " + Quoted(path) + " in the data set " + Quoted(dataset.path());
  const std::string first = path.substr(0, path.find('/'));
  const bool level_named = first.compare(0, 4, "scan") == 0 && first.size() > 4 &&
                           first.find_first_not_of("0123456789", 4) == std::string::npos;
  if (level_named) sentence += "; leave " + Quoted(first) + " away and say --level " + first.substr(4);
  return Fail(ErrorCode::kNotFound, sentence);
}

Result<IndexedShard> ReadShard(const Dataset& dataset, size_t position) {
  auto source = dataset.OpenShard(position);
  if (!source) return PassOn(std::move(source));
  auto index = dataset.ReadShardIndex(position, **source);
  if (!index) return PassOn(std::move(index));
  return IndexedShard{position, *std::move(source), *std::move(index)};
}

// The children of one folder, gathered from shard after shard.
class FolderListing {
 public:
  FolderListing(std::string path, Level level, int highest)
      : path_(std::move(path)), level_(level), highest_(highest), exists_(path_.empty()) {}

  void AddFrom(const ShardIndex& index) {
    exists_ = exists_ || FindDirectory(index, path_).has_value();
    for (size_t i = 0; i < index.directories.size(); ++i) {
      const std::string& directory = index.directories[i];
      if (ParentOf(directory) == path_) Add(NameOf(directory), {{}, true, index.directory_attributes[i + 1], 0});
    }
    for (const Entry& entry : index.entries)
      if (DirectoryOf(index, entry) == path_)
        Add(entry.name, {{}, false, entry.attributes, SizeAtLevel(entry.layout, level_, highest_)});
  }

  [[nodiscard]] bool exists() const { return exists_; }

  [[nodiscard]] std::vector<ListedItem> Finish() {
    std::vector<ListedItem> items;
    for (auto& [name, item] : items_) {
      item.name = name;
      items.push_back(std::move(item));
    }
    return items;
  }

 private:
  // Several shards may list a folder; the first one's attributes count.
  void Add(std::string_view name, ListedItem item) { items_.emplace(name, std::move(item)); }

  std::string path_;
  Level level_;
  int highest_;
  bool exists_;
  std::map<std::string, ListedItem> items_;
};

}  // namespace

Result<void> ForEachShard(const Dataset& dataset, const std::function<Result<void>(const IndexedShard&)>& visit) {
  PathConflicts paths;
  for (size_t i = 0; i < dataset.shard_count(); ++i) {
    const auto shard = ReadShard(dataset, i);
    if (!shard) return tl::unexpected(shard.error());
    paths.Add(shard->index);
    if (auto visited = visit(*shard); !visited) return visited;
  }
  std::optional<Error> first;
  paths.Find(dataset, [&](const Error& conflict) { first = first.value_or(conflict); });
  if (first) return tl::unexpected(*first);
  return {};
}

Result<Level> ChooseLevel(const Dataset& dataset, std::optional<Level> level) {
  const Level highest = *Level::FromNumber(dataset.levels());
  if (level && *level > highest)
    return Fail(ErrorCode::kInvalidArgument, "the data set " + Quoted(dataset.path()) + " has levels 1 to " +
                                                 std::to_string(highest.number()) + " only, not " +
                                                 std::to_string(level->number()));
  return level.value_or(highest);
}

Result<std::string> NormalPath(std::string_view path) {
  std::string normal;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    at = end + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..")
      return Fail(ErrorCode::kInvalidArgument, "'..' cannot be used in the path " + Quoted(path) + " in a data set");
    if (!normal.empty()) normal += '/';
    normal += part;
  }
  return normal;
}

bool LiesIn(std::string_view path, const std::string& folder) {
  if (folder == "/" || path == folder) return true;
  return path.substr(0, folder.size() + 1) == folder + "/";
}

Result<FoundEntry> FindEntry(const Dataset& dataset, const std::string& path) {
  const auto normal = NormalPath(path);
  if (!normal) return tl::unexpected(normal.error());
  bool is_directory = normal->empty();
  std::optional<Entry> found;
  size_t position = 0;
  const auto walked = ForEachShard(dataset, [&](const IndexedShard& shard) -> Result<void> {
    is_directory = is_directory || FindDirectory(shard.index, *normal).has_value();
    if (const Entry* entry = FindFile(shard.index, *normal)) {
      found = *entry;
      position = shard.position;
    }
    return {};
  });
  if (!walked) return tl::unexpected(walked.error());
  if (is_directory) return Fail(ErrorCode::kIsDirectory, Quoted(path) + " is a folder; 'pcrfs ls' lists it");
  if (!found) return NoSuchPath(dataset, path);
  if (auto file = CheckMayBeFile(path); !file) return PassOn(std::move(file));
  auto shard = dataset.OpenShard(position);
  if (!shard) return PassOn(std::move(shard));
  return FoundEntry{*std::move(shard), *std::move(found)};
}

Result<std::vector<ListedItem>> ListPath(const Dataset& dataset, const std::string& path, Level level) {
  const auto normal = NormalPath(path);
  if (!normal) return tl::unexpected(normal.error());
  FolderListing listing(*normal, level, dataset.levels());
  std::optional<ListedItem> file;
  const auto walked = ForEachShard(dataset, [&](const IndexedShard& shard) -> Result<void> {
    listing.AddFrom(shard.index);
    if (const Entry* entry = FindFile(shard.index, *normal))
      file = ListedItem{path, false, entry->attributes, SizeAtLevel(entry->layout, level, dataset.levels())};
    return {};
  });
  if (!walked) return tl::unexpected(walked.error());
  if (file) {
    if (auto may = CheckMayBeFile(path); !may) return PassOn(std::move(may));
    return std::vector<ListedItem>{*std::move(file)};
  }
  if (!listing.exists()) return NoSuchPath(dataset, path);
  return listing.Finish();
}

Result<void> StreamEntry(const Dataset& dataset, const ByteSource& shard, const Entry& entry, Level level,
                         const std::function<Result<void>(ByteSpan)>& write) {
  const uint64_t size = SizeAtLevel(entry.layout, level, dataset.levels());
  const CrcWindow crcs{0, entry.layout.crcs};
  Bytes buffer(static_cast<size_t>(std::min<uint64_t>(size, kChunk)));
  for (uint64_t offset = 0; offset < size;) {
    const MutableByteSpan chunk = MutableByteSpan(buffer).first(std::min<uint64_t>(buffer.size(), size - offset));
    const auto read = ReadAtLevel(entry.layout, level, dataset.levels(), crcs, shard, offset, chunk);
    if (!read) return WithContext("shard " + Quoted(shard.name()), read.error().error);
    if (auto written = write(chunk); !written) return written;
    offset += chunk.size();
  }
  return {};
}

}  // namespace pcrfs
