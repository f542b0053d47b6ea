#include "cache/catalog_schema.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/test_shard_index.h"

namespace pcrfs {
namespace {

Entry SampleImage() {
  Entry entry;
  entry.name = "tench.jpg";
  entry.attributes = {04755, -1};
  entry.source_size = 123'456;
  entry.source_sha256.fill(0xA5);
  entry.layout.kind = EntryKind::kImage;
  entry.layout.kept = true;
  entry.layout.extents = {{5000, 300'000, 0}, {400'000, 0, 3}, {310'000, 17, 3}};
  entry.layout.tail = {9'000'000'000, 131'072, 4};
  entry.layout.restore = {8'000'000'000, 60, 5};
  entry.layout.crcs = {1, 2, 3, 4, 5, 6};
  return entry;
}

Bytes Encoded(const std::function<void(ByteWriter&)>& encode) {
  ByteWriter value;
  encode(value);
  return value.Release();
}

Bytes EncodedImage() {
  return Encoded([](ByteWriter& value) { EncodeEntryNode(7, 3, SampleImage(), value); });
}

TEST(CatalogSchemaTest, RoundTripsAnImage) {
  NodeInfo info;
  ASSERT_TRUE(DecodeNode(8, EncodedImage(), info));
  const Entry entry = SampleImage();
  EXPECT_EQ(info.node, 8u);
  EXPECT_EQ(info.parent, 7u);
  EXPECT_EQ(info.shard, 3u);
  EXPECT_EQ(info.kind, NodeKind::kImage);
  EXPECT_EQ(info.attributes, entry.attributes);
  EXPECT_EQ(info.source_size, entry.source_size);
  EXPECT_EQ(info.source_sha256, entry.source_sha256);
  EXPECT_EQ(info.layout, entry.layout);
  EXPECT_EQ(info.crc_count, 6u);
}

TEST(CatalogSchemaTest, RoundTripsEntriesOfEveryKind) {
  Entry opaque;
  opaque.attributes = {0, 0};
  opaque.layout.extents = {{1 << 20, 0, 0}};
  Entry published = SampleImage();
  published.layout.checked = published.layout.kept = false;
  published.layout.crcs.clear();
  published.layout.tail = published.layout.restore = {};
  published.layout.extents.assign(40, {77, 5, 0});
  NodeInfo info;
  for (const Entry& entry : {opaque, published, SampleImage()}) {
    const Bytes value = Encoded([&](ByteWriter& out) { EncodeEntryNode(1, 0, entry, out); });
    ASSERT_TRUE(DecodeNode(2, value, info));  // into what the one before left
    EXPECT_EQ(info.layout, entry.layout);
  }
}

TEST(CatalogSchemaTest, KeepsManyCrcsApart) {
  Entry large;
  large.layout.extents = {{0, (kMaxInlineCrcs + 1) * kChecksumBlock, 0}};
  large.layout.crcs.resize(kMaxInlineCrcs + 1);
  NodeInfo info;
  ASSERT_TRUE(DecodeNode(2, Encoded([&](ByteWriter& out) { EncodeEntryNode(1, 0, large, out); }), info));
  EXPECT_EQ(info.crc_count, kMaxInlineCrcs + 1);
  EXPECT_TRUE(info.layout.crcs.empty());
}

TEST(CatalogSchemaTest, RoundTripsADirectory) {
  NodeInfo info;
  ASSERT_TRUE(DecodeNode(8, EncodedImage(), info));
  ASSERT_TRUE(DecodeNode(1, Encoded([](ByteWriter& out) { EncodeDirectoryNode(1, 9, {01777, 42}, out); }), info));
  EXPECT_EQ(info.kind, NodeKind::kDirectory);
  EXPECT_EQ(info.parent, 1u);
  EXPECT_EQ(info.attributes, (Attributes{01777, 42}));
  EXPECT_TRUE(info.layout.extents.empty()) << "what was there before is gone";
  EXPECT_EQ(info.source_size, 0u);
}

TEST(CatalogSchemaTest, RefusesAParentThatIsNotBeforeItsChild) {
  NodeInfo info;
  for (const uint64_t parent : {0u, 8u, 9u}) {
    const Bytes value = Encoded([&](ByteWriter& out) { EncodeDirectoryNode(parent, 0, {}, out); });
    EXPECT_FALSE(DecodeNode(8, value, info)) << parent;
  }
}

TEST(CatalogSchemaTest, RoundTripsTheSmallRecords) {
  const auto name = DecodeName(Encoded([](ByteWriter& out) { EncodeName({1'000'000, NodeKind::kOpaque}, out); }));
  ASSERT_TRUE(name);
  EXPECT_EQ(name->node, 1'000'000u);
  EXPECT_EQ(name->kind, NodeKind::kOpaque);
  const Bytes value = Encoded([](ByteWriter& out) { EncodeChild({NodeKind::kImage, "a\xFF.jpg"}, out); });
  const auto child = DecodeChild(value);
  ASSERT_TRUE(child);
  EXPECT_EQ(child->name, "a\xFF.jpg");
  const ShardRecord record{17, 10, {{1, {0755, 5}}, {18, {0700, -6}}}};
  const auto shard = DecodeShard(Encoded([&](ByteWriter& out) { EncodeShard(record, out); }));
  ASSERT_TRUE(shard);
  EXPECT_EQ(shard->first_node, 17u);
  EXPECT_EQ(shard->levels, 10);
  ASSERT_EQ(shard->directories.size(), 2u);
  EXPECT_EQ(shard->directories[1].node, 18u);
  EXPECT_EQ(shard->directories[1].attributes, (Attributes{0700, -6}));
}

struct Decoder {
  const char* what;
  Bytes value;
  std::function<bool(ByteSpan)> decodes;
};

std::vector<Decoder> Decoders() {
  return {
      {"image", EncodedImage(),
       [](ByteSpan value) {
         NodeInfo info;
         return DecodeNode(8, value, info).has_value();
       }},
      {"directory", Encoded([](ByteWriter& out) {
         EncodeDirectoryNode(1, 9, {01777, 42}, out);
       }),
       [](ByteSpan value) {
         NodeInfo info;
         return DecodeNode(8, value, info).has_value();
       }},
      {"name", Encoded([](ByteWriter& out) {
         EncodeName({1'000'000, NodeKind::kOpaque}, out);
       }),
       [](ByteSpan value) { return DecodeName(value).has_value(); }},
      {"shard", Encoded([](ByteWriter& out) {
         EncodeShard({17, 10, {{1, {0755, 5}}, {18, {0700, -6}}}}, out);
       }),
       [](ByteSpan value) { return DecodeShard(value).has_value(); }},
  };
}

TEST(CatalogSchemaTest, RefusesEveryTruncationAndEveryByteMore) {
  for (const Decoder& decoder : Decoders()) {
    ASSERT_TRUE(decoder.decodes(decoder.value));
    for (size_t size = 0; size < decoder.value.size(); ++size)
      EXPECT_FALSE(decoder.decodes(ByteSpan(decoder.value).first(size))) << decoder.what << " cut to " << size;
    Bytes longer = decoder.value;
    longer.push_back(0);
    EXPECT_FALSE(decoder.decodes(longer)) << decoder.what;
  }
}

TEST(CatalogSchemaTest, SurvivesEveryFlippedByteWithoutItsCrc) {
  for (const Decoder& decoder : Decoders())
    for (size_t at = 0; at < decoder.value.size(); ++at)
      for (const int flip : {0x01, 0x40, 0x80, 0xFF}) {
        Bytes damaged = decoder.value;
        damaged[at] = static_cast<uint8_t>(damaged[at] ^ flip);
        (void)decoder.decodes(damaged);  // any answer will do, under a sanitizer too
      }
}

TEST(CatalogSchemaTest, SealFindsEveryFlippedByteOfKeyAndValue) {
  const CatalogKey key(7, "tench.jpg");
  ByteWriter value;
  EncodeName({12, NodeKind::kImage}, value);
  Seal(Table::kNames, key.bytes(), value);
  ASSERT_TRUE(Unseal(Table::kNames, key.bytes(), value.bytes()));
  for (size_t at = 0; at < value.size(); ++at) {
    Bytes damaged = value.bytes();
    damaged[at] ^= 4;
    EXPECT_FALSE(Unseal(Table::kNames, key.bytes(), damaged)) << at;
    EXPECT_FALSE(Unseal(Table::kNames, key.bytes(), ByteSpan(value.bytes()).first(at))) << at;
  }
  for (size_t at = 0; at < key.bytes().size(); ++at) {
    Bytes other(key.bytes().begin(), key.bytes().end());
    other[at] ^= 4;
    EXPECT_FALSE(Unseal(Table::kNames, other, value.bytes())) << at;
  }
  EXPECT_FALSE(Unseal(Table::kChildren, key.bytes(), value.bytes())) << "the same bytes in another table";
}

TEST(CatalogSchemaTest, KeysSortAsTheirNumbersDo) {
  const uint64_t numbers[] = {0, 1, 255, 256, 65'535, 1ULL << 32, UINT64_MAX};
  for (size_t i = 1; i < std::size(numbers); ++i) {
    const CatalogKey smaller(numbers[i - 1], UINT64_MAX), larger(numbers[i], uint64_t{0});
    EXPECT_LT(AsText(smaller.bytes()), AsText(larger.bytes()));
    EXPECT_EQ(*DecodeNodeKey(CatalogKey(numbers[i]).bytes()), numbers[i]);
    EXPECT_EQ(DecodeChildKey(larger.bytes())->parent, numbers[i]);
  }
  EXPECT_FALSE(DecodeNodeKey(Bytes(7)));
  EXPECT_FALSE(DecodeChildKey(Bytes(15)));
}

TEST(CatalogSchemaTest, NamesOf255BytesFitAKey) {
  const std::string name(255, 'n');
  const CatalogKey key(UINT64_MAX, name);
  EXPECT_EQ(key.bytes().size(), 263u);
  EXPECT_EQ(AsText(key.bytes().subspan(8)), name);
}

}  // namespace
}  // namespace pcrfs
