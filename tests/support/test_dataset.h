// Folders of made photos, and data sets packed from them, for tests that need a real one.
#ifndef PCRFS_TESTS_SUPPORT_TEST_DATASET_H_
#define PCRFS_TESTS_SUPPORT_TEST_DATASET_H_

#include <map>
#include <string>
#include <vector>

#include "format/bytes.h"
#include "format/packer.h"

namespace pcrfs::testing {

struct PhotoFolder {
  unsigned classes = 3;           // folders n00, n01, ...
  unsigned images_per_class = 6;  // 0.jpg, 1.jpg, ... in each; about 5 to 30 kB
  bool extras = true;             // in the root: notes.txt (opaque) and the empty folder "empty"
};

// Fills `folder`, the same bytes each time. In each class 1.jpg is grayscale, 2.jpg progressive (kept as it is),
// 3.jpg has bytes behind its end (a tail); the others are baseline YCbCr of varied size and sampling.
void MakePhotoFolder(const std::string& folder, const PhotoFolder& spec = {});

// Packs or ends the test program; skipped files end it, too.
PackSummary PackForTest(const std::string& source, const std::string& dataset, const PackOptions& options = {});

// Name and bytes of each file in a folder, which holds no other folders.
std::map<std::string, Bytes> FilesIn(const std::string& folder);

// Names of the files that only one of two folders has, or that have other bytes there.
std::vector<std::string> Differences(const std::map<std::string, Bytes>& a, const std::map<std::string, Bytes>& b);

}  // namespace pcrfs::testing

#endif  // PCRFS_TESTS_SUPPORT_TEST_DATASET_H_
