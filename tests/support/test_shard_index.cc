#include "tests/support/test_shard_index.h"

#include <algorithm>
#include <functional>
#include <random>
#include <utility>

#include "format/checksum.h"

namespace pcrfs::testing {
namespace {

constexpr uint64_t kMetadataSize = 64;

// Puts `content` at the end of the shard and its CRCs at the end of the layout's.
Extent Place(const Bytes& content, Bytes& shard, EntryLayout& layout) {
  const Extent extent{shard.size(), content.size(), static_cast<uint32_t>(layout.crcs.size())};
  shard.insert(shard.end(), content.begin(), content.end());
  if (layout.checked) std::ranges::copy(BlockCrcs(content), std::back_inserter(layout.crcs));
  return extent;
}

}  // namespace

Bytes RandomBytes(uint64_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(static_cast<size_t>(size));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

TestShardBuilder::TestShardBuilder(std::string name, int levels, bool checked)
    : name_(std::move(name)), levels_(levels), checked_(checked) {
  directories_[""] = {0755, 1'000'000'000};
}

void TestShardBuilder::AddAncestors(const std::string& path) {
  for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1))
    directories_.try_emplace(path.substr(0, slash), Attributes{0755, 1'000'000'000});
}

TestShardBuilder& TestShardBuilder::AddImage(const std::string& path, std::vector<Bytes> fragments, Bytes tail) {
  AddAncestors(path);
  items_.push_back({path, EntryKind::kImage, std::move(fragments), std::move(tail), {0644, 2'000'000'000}});
  return *this;
}

TestShardBuilder& TestShardBuilder::AddImage(const std::string& path) {
  const uint64_t seed = std::hash<std::string>()(path);
  std::vector<Bytes> fragments;
  for (int g = 1; g <= levels_; ++g) {
    const bool empty = g > 1 && (seed >> g) % 4 == 0;
    fragments.push_back(
        RandomBytes(empty ? 0 : 100 + (seed + static_cast<uint64_t>(g) * 37) % 400, seed + static_cast<uint64_t>(g)));
  }
  return AddImage(path, std::move(fragments));
}

TestShardBuilder& TestShardBuilder::AddOpaque(const std::string& path, Bytes content) {
  AddAncestors(path);
  items_.push_back({path, EntryKind::kOpaque, {std::move(content)}, {}, {0600, -3'000'000'000}});
  return *this;
}

TestShardBuilder& TestShardBuilder::AddDirectory(const std::string& path, Attributes attributes) {
  AddAncestors(path);
  directories_[path] = attributes;
  return *this;
}

TestShardBuilder& TestShardBuilder::WithAttributes(Attributes attributes) {
  items_.back().attributes = attributes;
  return *this;
}

Entry TestShardBuilder::MakeEntry(const Item& item) const {
  Entry entry;
  const size_t slash = item.path.rfind('/');
  const std::string directory = slash == std::string::npos ? "" : item.path.substr(0, slash);
  entry.directory = static_cast<uint32_t>(std::distance(directories_.begin(), directories_.find(directory)));
  entry.name = item.path.substr(slash + 1);
  entry.attributes = item.attributes;
  entry.source_size = 7;
  for (const Bytes& part : item.parts) entry.source_size += part.size();
  entry.source_sha256 = Sha256::Of(AsBytes(item.path));
  entry.layout.kind = item.kind;
  entry.layout.checked = checked_;
  entry.layout.extents.resize(item.parts.size());
  return entry;
}

TestShard TestShardBuilder::Build() const {
  TestShard shard{name_, {}, Bytes(kMetadataSize, 0xAA)};
  ShardIndex& index = shard.index;
  index.levels = levels_;
  index.section_sizes.push_back(kMetadataSize);
  for (const auto& [path, attributes] : directories_) {
    if (!path.empty()) index.directories.push_back(path);
    index.directory_attributes.push_back(attributes);
  }
  std::vector<const Item*> items;  // images first
  for (const EntryKind kind : {EntryKind::kImage, EntryKind::kOpaque})
    for (const Item& item : items_)
      if (item.kind == kind) items.push_back(&item);
  for (const Item* item : items) index.entries.push_back(MakeEntry(*item));
  index.image_count = static_cast<uint32_t>(std::ranges::count(items_, EntryKind::kImage, &Item::kind));
  for (size_t g = 0; g < static_cast<size_t>(levels_); ++g) {
    const size_t begin = shard.bytes.size();
    for (size_t i = 0; i < index.image_count; ++i)
      index.entries[i].layout.extents[g] = Place(items[i]->parts[g], shard.bytes, index.entries[i].layout);
    index.section_sizes.push_back(shard.bytes.size() - begin);
  }
  const size_t blobs = shard.bytes.size();
  for (size_t i = 0; i < items.size(); ++i) {
    EntryLayout& layout = index.entries[i].layout;
    if (items[i]->kind == EntryKind::kOpaque) layout.extents[0] = Place(items[i]->parts[0], shard.bytes, layout);
    if (!items[i]->tail.empty()) layout.tail = Place(items[i]->tail, shard.bytes, layout);
  }
  index.section_sizes.push_back(shard.bytes.size() - blobs);
  return shard;
}

Bytes ImageAtLevel(const std::vector<Bytes>& fragments, const Bytes& tail, int level, int highest) {
  Bytes image;
  for (size_t g = 0; g < std::min(fragments.size(), static_cast<size_t>(level)); ++g)
    image.insert(image.end(), fragments[g].begin(), fragments[g].end());
  image.insert(image.end(), {0xFF, 0xD9});
  if (level >= highest) image.insert(image.end(), tail.begin(), tail.end());
  return image;
}

}  // namespace pcrfs::testing
