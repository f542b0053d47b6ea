#include "tests/support/sample_dataset.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "format/file.h"
#include "tests/support/jpeg_surgery.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_jpeg.h"

namespace pcrfs::testing {
namespace {

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "test support: %s\n", what.c_str());
  std::abort();
}

SampleFile FileOf(const ImageItem& item) {
  SampleFile file{item.file.directory.empty() ? item.file.name : item.file.directory + "/" + item.file.name,
                  item.file.attributes,
                  true,
                  {}};
  for (int level = 1; level <= kShardLevels; ++level) file.levels.push_back(ImageAtLevel(item.image, level));
  return file;
}

SampleFile FileOf(const std::pair<FileFacts, Bytes>& opaque) {
  const FileFacts& facts = opaque.first;
  return {facts.directory.empty() ? facts.name : facts.directory + "/" + facts.name, facts.attributes, false,
          std::vector<Bytes>(kShardLevels, opaque.second)};
}

}  // namespace

EncodedImage CutProgressive(ByteSpan jpeg) {
  const JpegStructure structure = StructureOf(jpeg);
  const auto& scans = structure.scans;
  static constexpr int kGrayLevels[] = {1, 2, 5, 6, 7, 10};
  if (scans.size() != 10 && scans.size() != std::size(kGrayLevels)) Die("CutProgressive: not libjpeg's script");
  EncodedImage image;
  image.kept = true;
  for (size_t scan = 0; scan < scans.size(); ++scan) {
    const size_t group = scans.size() == 10 ? scan : static_cast<size_t>(kGrayLevels[scan] - 1);
    image.fragment_sizes[group] = static_cast<uint32_t>(scans[scan].end - scans[scan].begin);
  }
  const ByteSpan tail = jpeg.subspan(structure.eoi + 2);
  image.bytes.assign(jpeg.begin(), jpeg.begin() + static_cast<std::ptrdiff_t>(structure.eoi));
  image.tail.assign(tail.begin(), tail.end());
  return image;
}

Bytes ImageAtLevel(const EncodedImage& image, int level) {
  const auto* const sizes = image.fragment_sizes.data();
  const auto size = std::accumulate(sizes, sizes + level, std::ptrdiff_t{0});
  Bytes bytes(image.bytes.begin(), image.bytes.begin() + size);
  bytes.push_back(0xFF);
  bytes.push_back(0xD9);
  if (level == kShardLevels) bytes.insert(bytes.end(), image.tail.begin(), image.tail.end());
  return bytes;
}

ImageItem KeptImage(const std::string& directory, const std::string& name, int32_t label, ByteSpan jpeg,
                    Attributes attributes) {
  return {.file = {directory, name, attributes},
          .label = label,
          .source_size = jpeg.size(),
          .source_sha256 = Sha256::Of(jpeg),
          .image = CutProgressive(jpeg)};
}

ShardRow WriteShard(const ShardPlan& plan, const std::vector<ImageItem>& images,
                    const std::vector<std::pair<FileFacts, Bytes>>& opaque) {
  auto writer = ShardWriter::Create(plan, images);
  if (!writer) Die(writer.error().message);
  for (const auto& [facts, bytes] : opaque) {
    const auto added = writer->AddOpaque(facts, MemorySource(facts.name, bytes));
    if (!added) Die(added.error().message);
    if (added->has_value()) Die((*added)->message);
  }
  auto row = writer->Finish();
  if (!row) Die(row.error().message);
  return *row;
}

SampleDataset WriteSampleDataset(const std::string& folder, int64_t gray_mtime_ns) {
  const auto jpeg = [](uint32_t seed, TestJpeg::Colour colour) {
    return MakeJpeg({.width = 64 + seed, .height = 48, .colour = colour, .progressive = true, .seed = seed});
  };
  using enum TestJpeg::Colour;
  Bytes with_tail = jpeg(3, kYCbCr);
  with_tail.insert(with_tail.end(), 1000, 0x5A);
  Bytes large(kChecksumBlock + 7);
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<uint8_t>(i / 3);

  SampleDataset sample;
  sample.root = {0755, 1'500'000'000'000'000'000};
  const ShardDirectory cats{"cats", {0750, 1'500'000'001'000'000'000}}, old{"cats/old", {0700, -1}},
      dogs{"dogs", {0755, 1'500'000'003'000'000'000}}, empty{"empty", {01777, 0}};
  sample.directories = {cats, old, dogs, empty};

  const auto add = [&](const ShardPlan& plan, const std::vector<ImageItem>& images,
                       const std::vector<std::pair<FileFacts, Bytes>>& opaque) {
    for (const ImageItem& item : images) sample.files.push_back(FileOf(item));
    for (const auto& item : opaque) sample.files.push_back(FileOf(item));
    sample.index.rows.push_back(WriteShard(plan, images, opaque));
  };
  add({folder, 0, sample.root, {old, cats}},
      {KeptImage("cats", "colour.jpg", 0, jpeg(1, kYCbCr)),
       KeptImage("cats", "gray.jpg", 0, jpeg(2, kGray), {0400, gray_mtime_ns}),
       KeptImage("cats/old", "tail.jpg", 0, with_tail)},
      {{{"cats", "empty.txt", {0640, 5}}, Bytes()}, {{"cats", "large.bin", {04755, INT64_MIN}}, large}});
  add({folder, 1, sample.root, {dogs}},
      {KeptImage("dogs", "\xff\xfe\n.jpg", 1, jpeg(4, kYCbCr)), KeptImage("", "root.jpg", -1, jpeg(5, kGray))}, {});
  add({folder, 3, sample.root, {empty}}, {}, {{{"", "zz notes.txt", {0644, 1}}, {'h', 'i', '\n'}}});

  sample.index.labels = {"cats", "dogs", "empty"};
  sample.index.pack_options = "order=path\nrecord-bytes=67108864\nrecord-images=256\n";
  sample.index.paths_hash = 0x0123456789ABCDEF;
  const auto encoded = EncodeDatasetIndex(sample.index);
  if (!encoded) Die(encoded.error().message);
  WriteFile(folder + "/" + std::string(kDatasetIndexName), *encoded);
  return sample;
}

}  // namespace pcrfs::testing
