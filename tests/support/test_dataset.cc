#include "tests/support/test_dataset.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tests/support/temp_dir.h"
#include "tests/support/test_jpeg.h"

namespace pcrfs::testing {
namespace {

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "test support: %s\n", what.c_str());
  std::abort();
}

Bytes MakePhoto(unsigned class_number, unsigned number) {
  TestJpeg spec;
  spec.seed = class_number * 1000 + number + 1;
  spec.width = 96 + 37 * (number % 5) + class_number;
  spec.height = 80 + 23 * (number % 7);
  spec.h_sampling = number % 2 == 0 ? 2 : 1;
  spec.v_sampling = number % 4 == 0 ? 2 : 1;
  spec.optimize = number % 3 == 0;
  if (number == 1) spec.colour = TestJpeg::Colour::kGray;
  if (number == 2) spec.progressive = true;
  Bytes jpeg = MakeJpeg(spec);
  if (number == 3)
    for (const char c : std::string("bytes behind the end")) jpeg.push_back(static_cast<uint8_t>(c));
  return jpeg;
}

class EndOnSkipped : public PackObserver {
 public:
  void OnSkipped(const std::string& path, const Skipped& why) override { Die("skipped " + path + ": " + why.detail); }
};

}  // namespace

void MakePhotoFolder(const std::string& folder, const PhotoFolder& spec) {
  std::filesystem::create_directories(folder);
  for (unsigned c = 0; c < spec.classes; ++c)
    for (unsigned i = 0; i < spec.images_per_class; ++i) {
      const std::string name = (c < 10 ? "/n0" : "/n") + std::to_string(c) + '/' + std::to_string(i) + ".jpg";
      WriteFile(folder + name, MakePhoto(c, i));
    }
  if (!spec.extras) return;
  WriteFile(folder + "/notes.txt", "not an image\n");
  std::filesystem::create_directories(folder + "/empty");
}

PackSummary PackForTest(const std::string& source, const std::string& dataset, const PackOptions& options) {
  EndOnSkipped observer;
  auto summary = Pack(source, dataset, options, observer);
  if (!summary) Die("packing " + source + ": " + summary.error().message);
  return *summary;
}

std::map<std::string, Bytes> FilesIn(const std::string& folder) {
  std::map<std::string, Bytes> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files[entry.path().filename()] = ReadFile(entry.path());
  return files;
}

std::vector<std::string> Differences(const std::map<std::string, Bytes>& a, const std::map<std::string, Bytes>& b) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : a)
    if (!b.contains(name) || b.at(name) != bytes) names.push_back(name);
  for (const auto& [name, bytes] : b)
    if (!a.contains(name)) names.push_back(name);
  return names;
}

}  // namespace pcrfs::testing
