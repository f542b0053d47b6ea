#include "mount/dataset_walk.h"

#include <algorithm>
#include <map>
#include <utility>

#include "format/path_conflicts.h"
#include "format/path_parts.h"
#include "fs/original_image.h"

namespace pcrfs {
namespace {

constexpr size_t kChunk = size_t{4} << 20;

Level HighestLevel(const Dataset& dataset) { return *Level::FromNumber(dataset.levels()); }

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
  if (first == "original") sentence += "; leave 'original' away and say --original";
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
  FolderListing(std::string path, Tree tree, Level highest)
      : path_(std::move(path)), tree_(tree), highest_(highest), exists_(path_.empty()) {}

  void AddFrom(const ShardIndex& index) {
    exists_ = exists_ || FindDirectory(index, path_).has_value();
    for (size_t i = 0; i < index.directories.size(); ++i) {
      const std::string& directory = index.directories[i];
      if (ParentOf(directory) == path_) Add(NameOf(directory), {{}, true, index.directory_attributes[i + 1], 0});
    }
    for (const Entry& entry : index.entries)
      if (DirectoryOf(index, entry) == path_)
        Add(entry.name, {{}, false, entry.attributes, SizeInTree(entry.layout, entry.source_size, tree_, highest_)});
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
  Tree tree_;
  Level highest_;
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

Result<Tree> ChooseTree(const Dataset& dataset, std::optional<Tree> tree) {
  if (!tree) return Tree(HighestLevel(dataset));
  if (HasTree(dataset.levels(), *tree)) return *tree;
  return Fail(ErrorCode::kInvalidArgument, "the data set " + Quoted(dataset.path()) + " has levels 1 to " +
                                               std::to_string(dataset.levels()) + " only, not " +
                                               std::to_string(tree->number()));
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

Result<std::vector<ListedItem>> ListPath(const Dataset& dataset, const std::string& path, Tree tree) {
  const auto normal = NormalPath(path);
  if (!normal) return tl::unexpected(normal.error());
  FolderListing listing(*normal, tree, HighestLevel(dataset));
  std::optional<ListedItem> file;
  const auto walked = ForEachShard(dataset, [&](const IndexedShard& shard) -> Result<void> {
    listing.AddFrom(shard.index);
    if (const Entry* entry = FindFile(shard.index, *normal))
      file = ListedItem{path, false, entry->attributes,
                        SizeInTree(entry->layout, entry->source_size, tree, HighestLevel(dataset))};
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

Result<void> StreamEntry(const Dataset& dataset, const IndexedEntry& indexed, Tree tree, MemoryGate& gate,
                         const std::function<Result<void>(ByteSpan)>& write) {
  const auto& [shard, entry] = indexed;
  const Level highest = HighestLevel(dataset), level = tree.LevelOr(highest);
  const CrcWindow crcs{0, entry.layout.crcs};
  const auto failed = [&shard = shard](BlockFault fault) {
    return WithContext("shard " + Quoted(shard.name()), std::move(fault.error));
  };
  if (tree.is_original() && NeedsRestoring(entry.layout)) {
    const StoredImage image{entry.layout, crcs, shard, highest, {entry.source_size, entry.source_sha256}};
    const auto memory = MemoryToRestore(image);
    if (!memory) return failed(memory.error());
    const MemoryGate::Claim claim = gate.Enter(*memory);
    const auto restored = RestoreOriginal(image);
    if (!restored) return failed(restored.error());
    return write(*restored);
  }
  const uint64_t size = SizeAtLevel(entry.layout, level, highest.number());
  Bytes buffer(static_cast<size_t>(std::min<uint64_t>(size, kChunk)));
  for (uint64_t offset = 0; offset < size;) {
    const MutableByteSpan chunk = MutableByteSpan(buffer).first(std::min<uint64_t>(buffer.size(), size - offset));
    const auto read = ReadAtLevel(entry.layout, level, highest.number(), crcs, shard, offset, chunk);
    if (!read) return failed(read.error());
    if (auto written = write(chunk); !written) return written;
    offset += chunk.size();
  }
  return {};
}

}  // namespace pcrfs
