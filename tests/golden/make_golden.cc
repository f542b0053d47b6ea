// Writes the golden files anew into an empty folder: for the day when a new format version needs a set of its own.
// Those that are in the repository are never edited.
#include <cstdio>
#include <filesystem>

#include "tests/golden/golden_inputs.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  const std::string folder = argv[1];
  std::filesystem::create_directories(folder + "/v1");
  std::filesystem::create_directories(folder + "/example");
  pcrfs::testing::WriteGoldenDataset(folder + "/v1");
  pcrfs::testing::WriteExampleDataset(folder + "/example");
  return 0;
}
