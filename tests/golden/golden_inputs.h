// What the golden data sets are made of: the same items, time after time, from the files in input/.
//
// The JPEGs there were made once (photo-like noise, a few pixels wide) and are kept as files, so that another libjpeg
// cannot change them. X.jpg is the progressive form of X_source.jpg.
#ifndef PCRFS_TESTS_GOLDEN_GOLDEN_INPUTS_H_
#define PCRFS_TESTS_GOLDEN_GOLDEN_INPUTS_H_

#include <string>

#include "format/dataset_index.h"

namespace pcrfs::testing {

// The folder of this file, with input/, v1/ and example/.
[[nodiscard]] std::string GoldenFolder();

// Writes the golden data set of format version 1 into `folder`: every kind of entry.
//   PCR_0.pcr    images of ten fragments, of six (gray, with a restore record), kept, and with a tail behind FF fill
//                bytes; an opaque file of more than a block, an empty one
//   PCR_1.pcr    a kept image with a tail, in the root, its name no UTF-8
//   PCR_3.files  an opaque file and two empty folders
void WriteGoldenDataset(const std::string& folder);

// Writes the shard that FORMAT.md shows byte by byte: one image of 8 x 8 pixels and an opaque file of three bytes.
void WriteExampleDataset(const std::string& folder);

}  // namespace pcrfs::testing

#endif  // PCRFS_TESTS_GOLDEN_GOLDEN_INPUTS_H_
