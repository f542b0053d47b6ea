#include "tests/golden/golden_inputs.h"

#include <cstdio>
#include <cstdlib>

#include "format/restore_record.h"
#include "tests/support/jpeg_surgery.h"
#include "tests/support/sample_dataset.h"
#include "tests/support/temp_dir.h"

namespace pcrfs::testing {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

Bytes Input(const std::string& name) { return ReadFile(GoldenFolder() + "/input/" + name); }

// An image as pack stores one that it converted: the progressive form, and of the source only what is needed beside.
ImageItem Converted(const std::string& directory, const std::string& name, int32_t label, Attributes attributes) {
  const Bytes source = Input(name + "_source.jpg");
  ImageItem item = KeptImage(directory, name + ".jpg", label, Input(name + ".jpg"), attributes);
  item.image.kept = false;
  item.source_size = source.size();
  item.source_sha256 = Sha256::Of(source);
  const size_t eoi = StructureOf(source).eoi;
  item.image.tail.assign(source.begin() + static_cast<std::ptrdiff_t>(eoi) + 2, source.end());
  if (item.image.tail.empty()) return item;
  // The tail stays at its offset: fill bytes before EOI.
  const size_t fill = eoi - item.image.bytes.size();
  item.image.bytes.insert(item.image.bytes.end(), fill, 0xFF);
  item.image.fragment_sizes[kShardLevels - 1] += static_cast<uint32_t>(fill);
  return item;
}

// Of a source that libjpeg wrote with the standard tables: everything but the frame and scan headers is in the image
// or in the standard.
Bytes RestoreRecordOf(ByteSpan source) {
  const auto segment = [&](uint8_t marker) {
    const size_t offset = SegmentOffset(source, marker);
    const size_t size = 2 + source[offset + 2] * size_t{256} + source[offset + 3];
    return Bytes(source.begin() + static_cast<std::ptrdiff_t>(offset),
                 source.begin() + static_cast<std::ptrdiff_t>(offset + size));
  };
  RestoreRecord record;
  record.segments = {RestoreRecord::MarkerSegment{0},  // APP0
                     RestoreRecord::MarkerSegment{1},  // DQT
                     RestoreRecord::Literal{segment(jpeg_marker::kSof0)},
                     RestoreRecord::StandardTables::kDc0,
                     RestoreRecord::StandardTables::kAc0,
                     RestoreRecord::Literal{segment(jpeg_marker::kSos)},
                     RestoreRecord::EntropyData{}};
  record.padding_bit = true;
  record.restart_intervals = {0};
  return EncodeRestoreRecord(record).value();
}

void WriteIndex(const std::string& folder, const DatasetIndex& index) {
  WriteFile(folder + "/" + std::string(kDatasetIndexName), EncodeDatasetIndex(index).value());
}

}  // namespace

std::string GoldenFolder() { return PCRFS_GOLDEN_FOLDER; }

void WriteGoldenDataset(const std::string& folder) {
  const Attributes root{0755, 1'600'000'000 * kSecond};
  ImageItem gray = Converted("birds", "gray", 0, {0644, 1'500'000'001 * kSecond});
  gray.image.restore = RestoreRecordOf(Input("gray_source.jpg"));
  Bytes large(kChecksumBlock + 100);
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<uint8_t>(i / 256);
  Bytes with_tail = Input("root.jpg");
  with_tail.insert(with_tail.end(), {'t', 'a', 'i', 'l'});

  DatasetIndex index;
  index.rows.push_back(
      WriteShard({folder,
                  0,
                  root,
                  {{"birds", {0755, 1}}, {"fish", {02775, -1}}, {"fish/deep", {0700, 1'600'000'000'123'456'789}}}},
                 {Converted("birds", "colour", 0, {0644, 1'500'000'000 * kSecond}), gray,
                  KeptImage("fish/deep", "kept.jpg", 1, Input("kept.jpg"), {0600, 1'500'000'002'000'000'001}),
                  Converted("fish", "tail", 1, {0644, 0})},
                 {{{"fish", "large.bin", {0444, INT64_MAX}}, large}, {{"fish", "empty", {0, INT64_MIN}}, {}}}));
  index.rows.push_back(
      WriteShard({folder, 1, root, {}}, {KeptImage("", "\xFF\n.jpg", -1, with_tail, {04755, kSecond})}, {}));
  index.rows.push_back(WriteShard({folder, 3, root, {{"void", {01777, 2}}, {"void/inner", {0111, 3}}}}, {},
                                  {{{"", "notes.txt", {0640, 4}}, Bytes{'n', 'o', 't', 'e', 's', '\n'}}}));
  index.labels = {"birds", "fish", "void"};
  index.pack_options = "order=path\nrecord-bytes=67108864\nrecord-images=256\n";
  index.paths_hash = 0x0123456789ABCDEF;
  index.appends = 1;
  WriteIndex(folder, index);
}

void WriteExampleDataset(const std::string& folder) {
  const Attributes folder_attributes{0755, 1'700'000'000 * kSecond}, file_attributes{0644, 1'700'000'000 * kSecond};
  DatasetIndex index;
  index.rows.push_back(WriteShard({folder, 0, folder_attributes, {{"cat", folder_attributes}}},
                                  {Converted("cat", "tiny", 0, file_attributes)},
                                  {{{"", "note", file_attributes}, Bytes{'h', 'i', '\n'}}}));
  index.labels = {"cat"};
  index.pack_options = "order=path\nrecord-bytes=67108864\nrecord-images=256\n";
  // Of the paths "cat/tiny.jpg" and "note", each followed by a zero byte.
  const std::string_view paths("cat/tiny.jpg\0note\0", 18);
  index.paths_hash = ByteReader(Sha256::Of(AsBytes(paths))).U64();
  WriteIndex(folder, index);
}

}  // namespace pcrfs::testing
