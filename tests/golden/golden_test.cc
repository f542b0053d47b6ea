// The frozen data sets of each format version: today's reader reads them, today's writer writes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "format/dataset.h"
#include "format/jpeg_restorer.h"
#include "format/shard_reader.h"
#include "tests/golden/golden_inputs.h"
#include "tests/support/jpeg_surgery.h"
#include "tests/support/temp_dir.h"

namespace pcrfs {
namespace {

using testing::GoldenFolder;
using testing::ReadFile;
using testing::TempDir;

struct OpenedShard {
  std::unique_ptr<FileSource> file;
  ShardIndex index;
};

OpenedShard OpenShard(const Dataset& dataset, size_t position) {
  auto file = dataset.OpenShard(position);
  EXPECT_TRUE(file.has_value()) << file.error().message;
  auto index = dataset.ReadShardIndex(position, **file);
  EXPECT_TRUE(index.has_value()) << index.error().message;
  return {std::move(*file), std::move(*index)};
}

Bytes Read(const ByteSource& shard, const Extent& extent) {
  Bytes bytes(extent.size);
  EXPECT_TRUE(shard.ReadAt(extent.offset, bytes).has_value());
  return bytes;
}

// What level `level` shows, put together here from the index alone.
Bytes AtLevel(const ByteSource& shard, const EntryLayout& layout, size_t level) {
  if (layout.kind == EntryKind::kOpaque) return Read(shard, layout.extents[0]);
  Bytes bytes;
  for (size_t group = 0; group < level; ++group) testing::Append(bytes, Read(shard, layout.extents[group]));
  testing::Append(bytes, Bytes{0xFF, 0xD9});
  if (level == kShardLevels) testing::Append(bytes, Read(shard, layout.tail));
  return bytes;
}

std::string AttributesText(const Attributes& attributes) {
  char text[64];
  std::snprintf(text, sizeof text, "%04o %lld", attributes.mode, static_cast<long long>(attributes.mtime_ns));
  return text;
}

std::string EntryText(const ByteSource& shard, const ShardIndex& index, const Entry& entry) {
  const EntryLayout& layout = entry.layout;
  std::string text = (layout.kind == EntryKind::kImage ? "image " : "opaque ") + Quoted(EntryPath(index, entry)) + " " +
                     AttributesText(entry.attributes) + " source " + std::to_string(entry.source_size) + " " +
                     Hex(entry.source_sha256) + (layout.kept ? " kept" : "") + "\n";
  const size_t last = layout.kind == EntryKind::kImage ? size_t{kShardLevels} : 1;
  for (size_t level = 1; level <= last; ++level) {
    const Bytes bytes = AtLevel(shard, layout, level);
    text += "  " + std::to_string(level) + ": " + std::to_string(bytes.size()) + " " +
            Hex(Sha256::Of(bytes)).substr(0, 16) + "\n";
  }
  if (layout.restore.size > 0) text += "  restore record: " + Hex(Read(shard, layout.restore)) + "\n";
  return text;
}

std::string Listing(const Dataset& dataset) {
  const DatasetIndex& list = dataset.index();
  std::string text = "options " + Quoted(list.pack_options) + " hash " + std::to_string(list.paths_hash) + " appends " +
                     std::to_string(list.appends) + "\n";
  for (const std::string& label : list.labels) text += "label " + Quoted(label) + "\n";
  for (size_t i = 0; i < dataset.shard_count(); ++i) {
    const OpenedShard shard = OpenShard(dataset, i);
    text += "shard " + list.rows[i].name + " " + std::to_string(list.rows[i].file_size) + " id " +
            Hex(list.rows[i].id) + "\n";
    text += "directory '' " + AttributesText(shard.index.directory_attributes[0]) + "\n";
    for (size_t d = 0; d < shard.index.directories.size(); ++d) {
      text += "directory " + Quoted(shard.index.directories[d]) + " " +
              AttributesText(shard.index.directory_attributes[d + 1]) + "\n";
    }
    for (const Entry& entry : shard.index.entries) text += EntryText(*shard.file, shard.index, entry);
  }
  return text;
}

void ExpectSameFolders(const std::string& expected, const std::string& found) {
  size_t count = 0;
  for (const auto& item : std::filesystem::directory_iterator(found)) {
    const std::string name = item.path().filename().string();
    EXPECT_TRUE(ReadFile(item.path().string()) == ReadFile(expected + "/" + name)) << name << " differs";
    ++count;
  }
  const std::filesystem::directory_iterator files(expected);
  const auto frozen =
      std::count_if(begin(files), end(files), [](const auto& item) { return item.path().filename() != "listing.txt"; });
  EXPECT_EQ(count, static_cast<size_t>(frozen));
}

TEST(GoldenTest, TodaysReaderReadsVersion1) {
  const auto dataset = Dataset::Open(GoldenFolder() + "/v1");
  ASSERT_TRUE(dataset.has_value()) << dataset.error().message;
  EXPECT_EQ(Listing(*dataset), std::string(AsText(ReadFile(GoldenFolder() + "/v1/listing.txt"))));
}

TEST(GoldenTest, TodaysWriterWritesVersion1) {
  const TempDir dir;
  testing::WriteGoldenDataset(dir.path());
  ExpectSameFolders(GoldenFolder() + "/v1", dir.path());
}

TEST(GoldenTest, EveryByteOfItChecks) {
  MemoryGate memory(0);
  for (const char* name : {"/v1", "/example"}) {
    const Dataset dataset = Dataset::Open(GoldenFolder() + name).value();
    for (size_t i = 0; i < dataset.shard_count(); ++i) {
      const OpenedShard shard = OpenShard(dataset, i);
      CheckShardContent(
          *shard.file, dataset.index().rows[i], shard.index, LabelMap(dataset.index().labels), &memory,
          [](const Error& fault) { ADD_FAILURE() << fault.message; }, [](uint64_t) {});
    }
  }
}

TEST(GoldenTest, ItsRestoreRecordRestoresTheSource) {
  const Dataset dataset = Dataset::Open(GoldenFolder() + "/v1").value();
  const OpenedShard shard = OpenShard(dataset, 0);
  const Entry& gray = shard.index.entries[1];
  const Bytes source = ReadFile(GoldenFolder() + "/input/gray_source.jpg");
  ASSERT_EQ(gray.source_sha256, Sha256::Of(source));
  const Bytes image = AtLevel(*shard.file, gray.layout, kShardLevels);
  const auto restored =
      RestoreJpeg(image, Read(*shard.file, gray.layout.restore), {gray.source_size, gray.source_sha256});
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_EQ(*restored, source);
}

// FORMAT.md shows the example's shard and PCR_index.pb as lines "oooo  xx xx .. ", every byte of them.
Bytes BytesShown(const std::string& text, const std::string& heading) {
  Bytes bytes;
  size_t at = text.find("\n    " + heading + "\n");
  EXPECT_NE(at, std::string::npos) << heading;
  at = text.find('\n', at + 1) + 1;
  for (; text.compare(at, 4, "    ") == 0 || text[at] == '\n'; at = text.find('\n', at) + 1) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    unsigned offset = 0;
    if (line.size() < 10 || std::sscanf(line.c_str(), "    %4x  ", &offset) != 1) continue;
    EXPECT_EQ(offset, bytes.size()) << line;
    for (size_t i = 10; i + 1 < line.size() && line[i] != ' '; i += 3) {
      unsigned byte = 0;
      EXPECT_EQ(std::sscanf(line.c_str() + i, "%2x", &byte), 1) << line;
      bytes.push_back(static_cast<uint8_t>(byte));
      if (line.compare(i + 2, 2, "  ") == 0) break;
    }
  }
  return bytes;
}

TEST(GoldenTest, TheExampleInTheFormatsTextIsReal) {
  const TempDir dir;
  testing::WriteExampleDataset(dir.path());
  ExpectSameFolders(GoldenFolder() + "/example", dir.path());
  const std::string text(AsText(ReadFile(GoldenFolder() + "/../../format/FORMAT.md")));
  EXPECT_EQ(BytesShown(text, "PCR_0.pcr"), ReadFile(dir / "PCR_0.pcr"));
  EXPECT_EQ(BytesShown(text, "PCR_index.pb"), ReadFile(dir / "PCR_index.pb"));
}

}  // namespace
}  // namespace pcrfs
