#include "format/pack_listing.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pcrfs {
namespace {

Sha256Digest ShuffleDigest(uint64_t seed, std::string_view path) {
  ByteWriter input;
  input.U64(seed);
  input.Append(path);
  return Sha256::Of(input.bytes());
}

// Gives out shuffled items with the folders that each needs before it.
class ShuffledSink {
 public:
  ShuffledSink(const PackOrder& order, const RecordSink& sink) : order_(order), sink_(sink) {}

  void Add(SourceRecord record) {
    if (record.kind == SourceKind::kFolder)
      folders_.emplace(record.path, record.attributes);
    else
      items_.emplace_back(PackKey(order_, record), std::move(record));
  }

  Result<void> GiveOut() {
    std::sort(items_.begin(), items_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    if (auto given = sink_({SourceKind::kFolder, "", 0, folders_.at("")}); !given) return given;
    std::string_view last;
    for (const auto& [key, item] : items_) {
      if (auto given = GiveFolders(item.path, last); !given) return given;
      if (auto given = sink_(item); !given) return given;
      last = item.path;
    }
    return {};
  }

 private:
  // The folders above `path` that are not above `last`.
  Result<void> GiveFolders(std::string_view path, std::string_view last) {
    for (size_t slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/', slash + 1)) {
      if (last.starts_with(path.substr(0, slash + 1))) continue;
      const std::string folder(path.substr(0, slash));
      if (auto given = sink_({SourceKind::kFolder, folder, 0, folders_.at(folder)}); !given) return given;
    }
    return {};
  }

  const PackOrder& order_;
  const RecordSink& sink_;
  std::unordered_map<std::string, Attributes> folders_;
  std::vector<std::pair<PackKey, SourceRecord>> items_;
};

}  // namespace

PackKey::PackKey(const PackOrder& order, const SourceRecord& item) : path_(item.path) {
  if (order.shuffle)
    digest_ = ShuffleDigest(order.seed, item.path);
  else if (item.kind != SourceKind::kFile)
    path_ += '/';
}

Result<uint64_t> ListInPackOrder(const std::string& source, FileIdentity dataset, const PackOrder& order,
                                 const OnSkipped& on_skipped, const RecordSink& sink) {
  auto tree = SourceTree::Open(source, dataset, on_skipped);
  if (!tree) return PassOn(std::move(tree));
  ShuffledSink shuffled(order, sink);
  uint64_t folders = 0;
  while (auto record = tree->Next()) {
    folders += record->kind != SourceKind::kFile && !record->path.empty() ? 1U : 0U;
    if (order.shuffle)
      shuffled.Add(std::move(*record));
    else if (auto given = sink(*record); !given)
      return PassOn(std::move(given));
  }
  if (order.shuffle)
    if (auto given = shuffled.GiveOut(); !given) return PassOn(std::move(given));
  return folders;
}

}  // namespace pcrfs
