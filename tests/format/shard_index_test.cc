#include "format/shard_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "format/proto/pcrfs.pb.h"
#include "format/shard_layout.h"

namespace pcrfs {
namespace {

using ::testing::HasSubstr;

// Sizes alone make an index; the bytes behind it do not matter here.
Entry Image(uint32_t directory, const std::string& name, const std::vector<uint64_t>& sizes, uint64_t tail = 0,
            uint64_t restore = 0) {
  Entry entry;
  entry.directory = directory;
  entry.name = name;
  entry.attributes = {0644, 1'700'000'000'000'000'000};
  entry.source_size = 12345;
  entry.source_sha256.fill(7);
  EntryLayout& layout = entry.layout;
  layout.kind = EntryKind::kImage;
  uint64_t total = 2 + tail;
  uint32_t crc = 1;
  const auto add_crcs = [&](uint64_t size) {
    for (uint64_t block = 0; block < BlockCount(size); ++block) layout.crcs.push_back(crc++ * 0x01010101u);
  };
  for (const uint64_t size : sizes) {
    layout.extents.push_back({.size = size});
    add_crcs(size);
    total += size;
  }
  layout.tail.size = tail;
  layout.restore.size = restore;
  add_crcs(tail);
  add_crcs(restore);
  if (tail > 0) entry.source_size = total;
  return entry;
}

Entry OpaqueFile(uint32_t directory, const std::string& name, uint64_t size) {
  Entry entry;
  entry.directory = directory;
  entry.name = name;
  entry.attributes = {0400, -5};
  entry.source_size = size;
  entry.layout.extents = {{.size = size}};
  for (uint64_t block = 0; block < BlockCount(size); ++block) entry.layout.crcs.push_back(0xDEAD);
  return entry;
}

// Two images (gaps in their groups, more than one block, tail, restore record) and two opaque files.
ShardIndex Sample() {
  ShardIndex index;
  index.levels = kShardLevels;
  index.directories = {"a", "a/b", "c"};
  index.directory_attributes = {{0755, 1}, {0700, 2}, {0755, INT64_MAX}, {0, INT64_MIN}};
  index.entries = {Image(1, "one.jpg", {200, 0, 5, 6, 127, 128, 9, 10, 11, kChecksumBlock + 1}, 3, 40),
                   Image(0, "two.jpg", {1, 0, 0, 0, 0, 0, 0, 0, 0, 0}), OpaqueFile(2, "empty", 0),
                   OpaqueFile(2, "large", kChecksumBlock)};
  index.image_count = 2;
  index.metadata_crc = 0x12345678;
  index.section_sizes = {27};
  PlaceParts(index);
  return index;
}

Bytes Encoded(const ShardIndex& index) {
  auto bytes = EncodeShardIndex(index);
  EXPECT_TRUE(bytes.has_value()) << bytes.error().message;
  return bytes ? *bytes : Bytes();
}

TEST(ShardLayoutTest, PlacesEveryPartByTheFormula) {
  const ShardIndex index = Sample();
  const auto& one = index.entries[0].layout;
  const auto& two = index.entries[1].layout;
  EXPECT_EQ(one.extents[0].offset, 27u + 3) << "200 needs a length of two bytes";
  EXPECT_EQ(two.extents[0].offset, 30u + 200 + 2);
  EXPECT_EQ(index.section_sizes[1], 3u + 200 + 2 + 1);
  EXPECT_EQ(index.section_sizes[2], 4u) << "two empty fragments";
  EXPECT_EQ(index.section_sizes[5], 2u + 127 + 2);
  EXPECT_EQ(index.section_sizes[6], 3u + 128 + 2);
  EXPECT_EQ(index.section_sizes[10], 4u + 131073 + 2);
  EXPECT_EQ(one.restore.offset, PublishedEnd(index)) << "restore records come first";
  EXPECT_EQ(one.tail.offset, PublishedEnd(index) + 40);
  EXPECT_EQ(index.entries[2].layout.extents[0].offset, PublishedEnd(index) + 43);
  EXPECT_EQ(index.entries[3].layout.extents[0].offset, PublishedEnd(index) + 43);
  EXPECT_EQ(IndexOffset(index), PublishedEnd(index) + 43 + kChecksumBlock);
  EXPECT_EQ(one.extents[9].first_crc, 8u) << "the empty fragment has none";
  EXPECT_EQ(one.tail.first_crc, 10u);
  EXPECT_EQ(one.restore.first_crc, 11u);
  EXPECT_EQ(two.tail, Extent{});
}

TEST(ShardIndexTest, RoundTrips) {
  const ShardIndex index = Sample();
  const auto decoded = DecodeShardIndex(Encoded(index));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  EXPECT_EQ(*decoded, index);
  EXPECT_EQ(EntryPath(*decoded, decoded->entries[0]), "a/one.jpg");
  EXPECT_EQ(EntryPath(*decoded, decoded->entries[1]), "two.jpg");
}

TEST(ShardIndexTest, RoundTripsWithoutImagesAndWithoutAnything) {
  ShardIndex index = Sample();
  index.entries.erase(index.entries.begin(), index.entries.begin() + 2);
  index.image_count = 0;
  index.section_sizes = {23};
  PlaceParts(index);
  EXPECT_EQ(DecodeShardIndex(Encoded(index)).value(), index);
  wire::ShardIndex message;
  ASSERT_TRUE(message.ParseFromString(std::string(AsText(Encoded(index)))));
  EXPECT_FALSE(message.has_image_names() || message.has_fragment_crcs() || message.has_source_sha256());

  index.entries.clear();
  index.directories.clear();
  index.directory_attributes.resize(1);
  PlaceParts(index);
  EXPECT_EQ(DecodeShardIndex(Encoded(index)).value(), index);
}

TEST(ShardIndexTest, OneModeStandsForManyEqualOnes) {
  ShardIndex index = Sample();
  wire::ShardIndex message;
  ASSERT_TRUE(message.ParseFromString(std::string(AsText(Encoded(index)))));
  EXPECT_EQ(message.image_mode_size(), 1);
  index.entries[1].attributes.mode = 0600;
  EXPECT_EQ(DecodeShardIndex(Encoded(index)).value(), index);
  ASSERT_TRUE(message.ParseFromString(std::string(AsText(Encoded(index)))));
  EXPECT_EQ(message.image_mode_size(), 2);
}

TEST(ShardIndexTest, TimesMayBeAnyAndDifferencesWrap) {
  ShardIndex index = Sample();
  index.entries[0].attributes.mtime_ns = INT64_MIN;
  index.entries[1].attributes.mtime_ns = INT64_MAX;
  EXPECT_EQ(DecodeShardIndex(Encoded(index)).value(), index);
  std::swap(index.entries[0].attributes.mtime_ns, index.entries[1].attributes.mtime_ns);
  EXPECT_EQ(DecodeShardIndex(Encoded(index)).value(), index);
}

TEST(ShardIndexTest, TruncatedAndFlippedBytesNeverCrashAndWhatIsTakenIsSound) {
  const Bytes good = Encoded(Sample());
  size_t taken = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(DecodeShardIndex(ByteSpan(good).first(i)).has_value()) << "the last field is needed";
    for (int bit = 0; bit < 8; ++bit) {
      Bytes bad = good;
      bad[i] ^= static_cast<uint8_t>(1 << bit);
      const auto decoded = DecodeShardIndex(bad);
      if (!decoded) continue;
      // Nothing guards section D but the CRC beside it; what passes here still obeys every rule.
      ++taken;
      EXPECT_TRUE(EncodeShardIndex(*decoded).has_value()) << i;
    }
  }
  EXPECT_GT(taken, 0u) << "flips in checksums and times cannot be seen here";
}

struct Hostile {
  const char* what;
  ErrorCode code;
  std::function<void(wire::ShardIndex&)> change;
};

TEST(ShardIndexTest, RefusesWhatBreaksARule) {
  const auto damaged = ErrorCode::kDamaged;
  const Hostile cases[] = {
      {"version 2", ErrorCode::kUnsupported, [](auto& m) { m.set_format_version(2); }},
      {"version beyond 32 bits", ErrorCode::kUnsupported,
       [](auto& m) { m.set_format_version(1 + (uint64_t{1} << 32)); }},
      {"no version", damaged, [](auto& m) { m.clear_format_version(); }},
      {"no number of images", damaged, [](auto& m) { m.clear_images(); }},
      {"no checksum of the metadata", damaged, [](auto& m) { m.clear_metadata_crc32(); }},
      {"nine levels", damaged, [](auto& m) { m.set_levels(9); }},
      {"one image more", damaged, [](auto& m) { m.set_images(3); }},
      {"one image less", damaged, [](auto& m) { m.set_images(1); }},
      {"65,537 images", ErrorCode::kLimit, [](auto& m) { m.set_images(65537); }},
      {"images and opaque files over the limit", ErrorCode::kLimit, [](auto& m) { m.set_images(65535); }},
      {"2^64 - 1 images", ErrorCode::kLimit, [](auto& m) { m.set_images(UINT64_MAX); }},
      {"eleven sections", damaged, [](auto& m) { m.mutable_section_sizes()->RemoveLast(); }},
      {"a group of another size", damaged, [](auto& m) { m.set_section_sizes(3, m.section_sizes(3) + 1); }},
      {"blobs of another size", damaged, [](auto& m) { m.set_section_sizes(11, m.section_sizes(11) - 1); }},
      {"metadata too small", damaged, [](auto& m) { m.set_section_sizes(0, 26); }},
      {"metadata too large", ErrorCode::kLimit, [](auto& m) { m.set_section_sizes(0, (1 << 20) + 1); }},
      {"a section of 2^64 - 1", damaged, [](auto& m) { m.set_section_sizes(11, UINT64_MAX); }},
      {"a directory out of order", damaged, [](auto& m) { m.mutable_directories()->SwapElements(0, 2); }},
      {"a directory that climbs", damaged, [](auto& m) { m.set_directories(2, "c/.."); }},
      {"an absolute directory", damaged, [](auto& m) { m.set_directories(0, "/a"); }},
      {"a directory without its parent", damaged, [](auto& m) { m.set_directories(2, "c/d"); }},
      {"an image in no directory", damaged, [](auto& m) { m.set_image_directory(0, 4); }},
      {"an image in directory 2^32", damaged, [](auto& m) { m.set_image_directory(0, uint64_t{1} << 32); }},
      {"a name too few", damaged, [](auto& m) { m.mutable_image_names()->resize(8); }},
      {"a name too many", damaged, [](auto& m) { m.mutable_image_names()->append("x\0", 2); }},
      {"a name that does not end", damaged, [](auto& m) { m.mutable_image_names()->pop_back(); }},
      {"bytes behind the names", damaged, [](auto& m) { m.mutable_image_names()->append("x"); }},
      {"an empty name", damaged, [](auto& m) { m.set_image_names(std::string("\0two.jpg\0", 9)); }},
      {"a name with a slash", damaged, [](auto& m) { m.set_image_names(std::string("a/b\0two.jpg\0", 12)); }},
      {"a name twice", damaged, [](auto& m) { m.mutable_opaque(1)->set_name("empty"); }},
      {"an entry where a directory is", damaged, [](auto& m) { m.set_image_names(std::string("b\0two.jpg\0", 10)); }},
      {"a name of 256 bytes", damaged, [](auto& m) { m.mutable_opaque(0)->set_name(std::string(256, 'x')); }},
      {"no modes", damaged, [](auto& m) { m.clear_image_mode(); }},
      {"three modes", damaged, [](auto& m) { m.add_image_mode(1), m.add_image_mode(2); }},
      {"a mode with a file type", damaged, [](auto& m) { m.set_image_mode(0, 0100644); }},
      {"a mode beyond 32 bits", damaged, [](auto& m) { m.set_image_mode(0, uint64_t{1} << 32); }},
      {"a time less", damaged, [](auto& m) { m.mutable_image_mtime()->RemoveLast(); }},
      {"a fragment size less", damaged, [](auto& m) { m.mutable_fragment_sizes()->RemoveLast(); }},
      {"another fragment size", damaged, [](auto& m) { m.set_fragment_sizes(4, 6); }},
      {"sizes exchanged between groups", damaged,
       [](auto& m) { m.set_fragment_sizes(4, 6), m.set_fragment_sizes(6, 5); }},
      {"nothing in group 1", damaged, [](auto& m) { m.set_fragment_sizes(1, 0); }},
      {"a fragment of 2^31", ErrorCode::kLimit, [](auto& m) { m.set_fragment_sizes(4, uint64_t{1} << 31); }},
      {"a fragment of 2^64 - 1", ErrorCode::kLimit, [](auto& m) { m.set_fragment_sizes(4, UINT64_MAX); }},
      {"a checksum less", damaged, [](auto& m) { m.mutable_fragment_crcs()->resize(m.fragment_crcs().size() - 4); }},
      {"a checksum more", damaged, [](auto& m) { m.mutable_fragment_crcs()->append(4, 'x'); }},
      {"half a checksum more", damaged, [](auto& m) { m.mutable_fragment_crcs()->append(2, 'x'); }},
      {"an unknown flag", damaged, [](auto& m) { m.set_image_flags(1, 8); }},
      {"kept with a restore record", damaged, [](auto& m) { m.set_image_flags(0, 7); }},
      {"kept, but of another size than its source", damaged, [](auto& m) { m.set_image_flags(1, 1); }},
      {"a tail that lies elsewhere than in its source", damaged, [](auto& m) { m.set_source_size(0, 12345); }},
      {"a flag for a tail that is not there", damaged, [](auto& m) { m.set_image_flags(1, 2); }},
      {"a tail without a flag", damaged, [](auto& m) { m.set_image_flags(0, 4); }},
      {"a restore record without a flag", damaged, [](auto& m) { m.set_image_flags(0, 2); }},
      {"a flag for a restore record that is not there", damaged, [](auto& m) { m.set_image_flags(1, 4); }},
      {"an empty tail", damaged, [](auto& m) { m.mutable_tails(0)->set_size(0), m.mutable_tails(0)->clear_crcs(); }},
      {"a tail at another place", damaged, [](auto& m) { m.mutable_tails(0)->set_offset(m.tails(0).offset() + 1); }},
      {"a restore record in the groups", damaged, [](auto& m) { m.mutable_restore(0)->set_offset(30); }},
      {"an opaque file at 2^64 - 1", damaged,
       [](auto& m) { m.mutable_opaque(1)->mutable_content()->set_offset(UINT64_MAX); }},
      {"an opaque file of 2^64 - 1", ErrorCode::kLimit,
       [](auto& m) { m.mutable_opaque(1)->mutable_content()->set_size(UINT64_MAX); }},
      {"an opaque file of another size", damaged,
       [](auto& m) { m.mutable_opaque(1)->mutable_content()->set_size(kChecksumBlock - 1); }},
      {"an opaque file with a checksum more", damaged,
       [](auto& m) { m.mutable_opaque(1)->mutable_content()->mutable_crcs()->append("1234"); }},
      {"an opaque file without content", damaged, [](auto& m) { m.mutable_opaque(0)->clear_content(); }},
      {"an opaque file without offset", damaged,
       [](auto& m) { m.mutable_opaque(0)->mutable_content()->clear_offset(); }},
      {"an opaque file without SHA-256", damaged, [](auto& m) { m.mutable_opaque(0)->clear_sha256(); }},
      {"a long SHA-256", damaged, [](auto& m) { m.mutable_opaque(0)->mutable_sha256()->append("x"); }},
      {"an opaque file without time", damaged, [](auto& m) { m.mutable_opaque(0)->clear_mtime_ns(); }},
      {"an opaque file without mode", damaged, [](auto& m) { m.mutable_opaque(0)->clear_mode(); }},
      {"an opaque file without directory", damaged, [](auto& m) { m.mutable_opaque(0)->clear_directory(); }},
      {"a restore record over the limit", ErrorCode::kLimit,
       [](auto& m) { m.mutable_restore(0)->set_size((1 << 20) + 1); }},
      {"a source over the limit", ErrorCode::kLimit, [](auto& m) { m.set_source_size(1, (uint64_t{1} << 42) + 1); }},
      {"a SHA-256 less", damaged, [](auto& m) { m.mutable_source_sha256()->resize(63); }},
      {"attributes of a directory less", damaged, [](auto& m) { m.mutable_directory_attributes()->RemoveLast(); }},
      {"a directory without mode", damaged, [](auto& m) { m.mutable_directory_attributes(1)->clear_mode(); }},
      {"a directory without time", damaged, [](auto& m) { m.mutable_directory_attributes(1)->clear_mtime_ns(); }},
      {"a directory with a file type", damaged, [](auto& m) { m.mutable_directory_attributes(1)->set_mode(040755); }},
      {"65,537 tails", ErrorCode::kLimit,
       [](auto& m) {
         for (int i = 0; i < 65537; ++i) m.add_tails();
       }},
  };
  const std::string good(AsText(Encoded(Sample())));
  for (const Hostile& hostile : cases) {
    wire::ShardIndex message;
    ASSERT_TRUE(message.ParseFromString(good));
    hostile.change(message);
    const auto decoded = DecodeShardIndex(AsBytes(message.SerializeAsString()));
    ASSERT_FALSE(decoded.has_value()) << hostile.what;
    EXPECT_EQ(decoded.error().code, hostile.code) << hostile.what << ": " << decoded.error().message;
    EXPECT_THAT(decoded.error().message, ::testing::Not(::testing::IsEmpty()));
  }
}

TEST(ShardIndexTest, TheScanGroupsHaveALimit) {
  // 2^31 - 4096 bytes of metadata and groups is one too many.
  ShardIndex index;
  index.levels = kShardLevels;
  index.directory_attributes = {{0755, 1}};
  index.image_count = 1;
  const uint64_t framing = 6 + 9 * 2;  // a length of 5 bytes, and nine empty fragments
  const auto with_size = [&](uint64_t end) {
    index.entries = {Image(0, "big", {end - 25 - framing, 0, 0, 0, 0, 0, 0, 0, 0, 0})};
    index.section_sizes = {25};
    PlaceParts(index);
    EXPECT_EQ(PublishedEnd(index), end);
    return EncodeShardIndex(index);
  };
  EXPECT_TRUE(with_size(kPublishedEndLimit - 1).has_value());
  const auto refused = with_size(kPublishedEndLimit);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kLimit);
}

TEST(ShardIndexTest, FieldsOfALaterReleaseAreIgnored) {
  Bytes bytes = Encoded(Sample());
  const Bytes later = {0x98, 0x06, 0x01, 0x9A, 0x06, 0x02, 'h', 'i'};
  bytes.insert(bytes.end(), later.begin(), later.end());
  EXPECT_EQ(DecodeShardIndex(bytes).value(), Sample());
}

TEST(ShardIndexTest, TheEncoderWritesNothingThatItsReaderRefuses) {
  const struct {
    const char* what;
    std::function<void(ShardIndex&)> change;
  } cases[] = {
      {"levels", [](ShardIndex& i) { i.levels = 9; }},
      {"sections", [](ShardIndex& i) { i.section_sizes.pop_back(); }},
      {"more images than entries", [](ShardIndex& i) { i.image_count = 5; }},
      {"an image among the opaque", [](ShardIndex& i) { i.image_count = 1; }},
      {"nine fragments", [](ShardIndex& i) { i.entries[0].layout.extents.pop_back(); }},
      {"a missing checksum", [](ShardIndex& i) { i.entries[0].layout.crcs.pop_back(); }},
      {"no checksums", [](ShardIndex& i) { i.entries[0].layout.checked = false; }},
      {"an offset by hand", [](ShardIndex& i) { i.entries[0].layout.extents[3].offset += 1; }},
      {"a checksum too many", [](ShardIndex& i) { i.entries[0].layout.crcs.push_back(1); }},
      {"an unsorted directory", [](ShardIndex& i) { std::swap(i.directories[0], i.directories[2]); }},
      {"a source of another size", [](ShardIndex& i) { i.entries[3].source_size = 1; }},
      {"a huge extent", [](ShardIndex& i) { i.entries[3].layout.extents[0].size = UINT64_MAX; }},
  };
  for (const auto& c : cases) {
    ShardIndex index = Sample();
    c.change(index);
    const auto bytes = EncodeShardIndex(index);
    ASSERT_FALSE(bytes.has_value()) << c.what;
    EXPECT_EQ(bytes.error().code, ErrorCode::kInvalidArgument) << c.what;
  }
}

}  // namespace
}  // namespace pcrfs
