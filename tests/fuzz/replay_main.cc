// Stands in for libFuzzer where the compiler has none: runs a fuzz target over files, given as such or by folder.
//
// Each seed is run whole, cut off, and with a byte flipped: at every position for small seeds, else at kSteps positions
// spread evenly over it. So a seed that once crashed a target stays a test, and every run is the same.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t kSteps = 512;

using Input = std::vector<uint8_t>;

// Through memory of exactly the input's size, so that an address sanitizer sees the first byte beyond it.
void Run(Input input) {
  input.shrink_to_fit();
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

void RunSeed(const Input& seed) {
  Run(seed);
  const size_t step = std::max<size_t>(1, seed.size() / kSteps);
  for (size_t i = 0; i < seed.size(); i += step) {
    Run(Input(seed.begin(), seed.begin() + static_cast<std::ptrdiff_t>(i)));
    for (const unsigned flip : {0x01u, 0x80u, 0xFFu}) {
      Input changed = seed;
      changed[i] = static_cast<uint8_t>(changed[i] ^ flip);
      Run(std::move(changed));
    }
  }
}

std::vector<std::string> FilesOf(const std::string& argument) {
  if (!std::filesystem::is_directory(argument)) return {argument};
  std::vector<std::string> files;
  for (const auto& item : std::filesystem::recursive_directory_iterator(argument))
    if (item.is_regular_file()) files.push_back(item.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  size_t seeds = 0;
  LLVMFuzzerTestOneInput(nullptr, 0);
  for (int i = 1; i < argc; ++i)
    for (const std::string& path : FilesOf(argv[i])) {
      std::ifstream file(path, std::ios::binary);
      if (!file) {
        std::fprintf(stderr, "cannot open %s\n", path.c_str());
        return 1;
      }
      RunSeed(Input(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()));
      ++seeds;
    }
  std::printf("%zu seeds replayed\n", seeds);
  return 0;
}
