#include "format/pack_listing.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "format/sorted_spool.h"
#include "format/spool_text.h"

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
  ShuffledSink(const PackOrder& order, const RecordSink& sink, SortedSpool items)
      : order_(order), sink_(sink), items_(std::move(items)) {}

  // In path order.
  Result<void> Add(const SourceRecord& record) {
    LeaveFoldersNotAbove(record.path);
    if (record.kind == SourceKind::kFolder) {
      above_.push_back({record.path, record.attributes});
      return {};
    }
    key_.Clear();
    PackKey(order_, record).AppendTo(key_);
    value_.Clear();
    value_.U8(static_cast<uint8_t>(record.kind));
    value_.U64(record.size);
    AppendAttributes(value_, record.attributes);
    value_.Varint(record.path.size());
    value_.Append(record.path);
    for (const AboveFolder& folder : above_) AppendAttributes(value_, folder.attributes);
    return items_.Add(key_.bytes(), value_.bytes());
  }

  Result<void> GiveOut() {
    // An empty source is one empty folder, and nothing is above that.
    if (auto given = sink_({SourceKind::kFolder, "", 0, above_.front().attributes}); !given) return given;
    std::string last;
    return items_.Drain([&](ByteSpan, ByteSpan value) -> Result<void> {
      ByteReader in(value);
      SourceRecord item;
      item.kind = static_cast<SourceKind>(in.U8());
      item.size = in.U64();
      item.attributes = TakeAttributes(in);
      item.path = AsText(in.Take(in.Varint()));
      if (auto given = GiveFolders(item.path, last, in); !given) return given;
      if (auto given = sink_(item); !given) return given;
      last = std::move(item.path);
      return {};
    });
  }

 private:
  struct AboveFolder {
    std::string path;
    Attributes attributes;
  };

  // What stays is SOURCE and the folders above `path`.
  void LeaveFoldersNotAbove(std::string_view path) {
    while (above_.size() > 1 && !path.starts_with(above_.back().path + '/')) above_.pop_back();
  }

  // The folders above `path` that are not above `last`; `attributes` are those of all of them, SOURCE's first.
  Result<void> GiveFolders(std::string_view path, std::string_view last, ByteReader& attributes) {
    (void)TakeAttributes(attributes);
    for (size_t slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/', slash + 1)) {
      const Attributes own = TakeAttributes(attributes);
      if (last.starts_with(path.substr(0, slash + 1))) continue;
      if (auto given = sink_({SourceKind::kFolder, std::string(path.substr(0, slash)), 0, own}); !given) return given;
    }
    return {};
  }

  const PackOrder& order_;
  const RecordSink& sink_;
  SortedSpool items_;
  std::vector<AboveFolder> above_;  // SOURCE, and the folders down to the record that was added last
  ByteWriter key_, value_;
};

}  // namespace

PackKey::PackKey(const PackOrder& order, const SourceRecord& item) : path_(item.path) {
  if (order.shuffle)
    digest_ = ShuffleDigest(order.seed, item.path);
  else if (item.kind != SourceKind::kFile)
    path_ += '/';
}

void PackKey::AppendTo(ByteWriter& out) const {
  out.Append(digest_);
  out.Append(path_);
}

Result<ListingTotals> ListInPackOrder(const std::string& source, ListingOptions options, const PackOrder& order,
                                      const OnSkipped& on_skipped, const RecordSink& sink,
                                      const RecordFilter& is_wanted) {
  SortedSpool items(options.spool, 32 * options.memory);
  auto tree = SourceTree::Open(source, std::move(options), on_skipped);
  if (!tree) return PassOn(std::move(tree));
  ShuffledSink shuffled(order, sink, std::move(items));
  ListingTotals totals;
  while (true) {
    auto record = tree->Next();
    if (!record) return PassOn(std::move(record));
    if (!*record) break;
    totals.folders += (*record)->kind != SourceKind::kFile && !(*record)->path.empty() ? 1U : 0U;
    const auto wanted = is_wanted ? is_wanted(**record) : Result<bool>(true);
    if (!wanted) return tl::unexpected(wanted.error());
    if (!*wanted) continue;
    if (auto given = order.shuffle ? shuffled.Add(**record) : sink(**record); !given) return PassOn(std::move(given));
  }
  if (order.shuffle)
    if (auto given = shuffled.GiveOut(); !given) return PassOn(std::move(given));
  totals.excluded = tree->excluded();
  return totals;
}

}  // namespace pcrfs
