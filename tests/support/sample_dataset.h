// A small data set of every kind of entry, written by ShardWriter from JPEGs that libjpeg made progressive, without the
// packer: for tests of whatever reads data sets.
#ifndef PCRFS_TESTS_SUPPORT_SAMPLE_DATASET_H_
#define PCRFS_TESTS_SUPPORT_SAMPLE_DATASET_H_

#include <string>
#include <vector>

#include "format/dataset_index.h"
#include "format/image_encoder.h"
#include "format/shard_writer.h"

namespace pcrfs::testing {

// Cuts a progressive JPEG of libjpeg's default script (three components: 10 scans, one: 6) as pack would keep it:
// fragments by the level table, bytes after EOI as the tail. Anything else ends the test program.
[[nodiscard]] EncodedImage CutProgressive(ByteSpan jpeg);

// The file that level `level` shows of an image: fragments, EOI, and at level 10 the tail.
[[nodiscard]] Bytes ImageAtLevel(const EncodedImage& image, int level);

// An image as pack hands it to the writer, kept byte for byte.
[[nodiscard]] ImageItem KeptImage(const std::string& directory, const std::string& name, int32_t label, ByteSpan jpeg,
                                  Attributes attributes = {0644, 1'600'000'000'123'456'789});

// Writes one shard and ends the test program when that fails.
[[nodiscard]] ShardRow WriteShard(const ShardPlan& plan, const std::vector<ImageItem>& images,
                                  const std::vector<std::pair<FileFacts, Bytes>>& opaque);

struct SampleFile {
  std::string path;
  Attributes attributes;
  bool is_image = false;
  std::vector<Bytes> levels;  // [K - 1]: what scanK shows
};

struct SampleDataset {
  std::vector<SampleFile> files;            // in storage order
  std::vector<ShardDirectory> directories;  // byte-sorted, without the root
  Attributes root;
  DatasetIndex index;
};

// Three shards and PCR_index.pb in `folder`, which must exist: PCR_0.pcr (colour, gray, a tail, opaque files of no
// bytes and of more than a block), PCR_1.pcr (names that are no UTF-8, an image in the root), PCR_3.files (an opaque
// file, an empty folder). With another mtime of cats/gray.jpg it is another data set with shards of the same sizes.
[[nodiscard]] SampleDataset WriteSampleDataset(const std::string& folder, int64_t gray_mtime_ns = 7);

}  // namespace pcrfs::testing

#endif  // PCRFS_TESTS_SUPPORT_SAMPLE_DATASET_H_
