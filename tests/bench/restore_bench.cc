// restore_bench FOLDER [ROUNDS]: what proving and restoring cost, over all images below FOLDER, in one run on one core,
// as processor time.
//
//   transcoding   read the source's coefficients, write them as progressive
//   proof, trial  what EncodeImage adds, against transcoding
//   restoring     RestoreJpeg, against a loop in memory of jpeg_read_coefficients and jpeg_write_coefficients, from
//                 the progressive file to a sequential one (Huffman tables as they come)
//
// Says of each image that has no restore record why.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "format/image_encoder.h"
#include "format/jpeg_coefficients.h"
#include "format/jpeg_parser.h"
#include "format/jpeg_proof.h"
#include "format/jpeg_restorer.h"
#include "format/jpeg_transcoder.h"
#include "tests/bench/coefficient_loop.h"

namespace pcrfs {
namespace {

struct Image {
  Bytes source;
  JpegStructure structure;
  Bytes stored;
  Bytes record;
  SourceIdentity identity;
};

Bytes ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The images that are converted and restorable; prints what the others are.
std::vector<Image> Load(const std::string& folder) {
  std::vector<Image> images;
  std::map<std::string, int> counts;
  for (const auto& item : std::filesystem::recursive_directory_iterator(folder)) {
    if (!item.is_regular_file()) continue;
    Image image;
    image.source = ReadAll(item.path());
    auto encoded = EncodeImage(image.source);
    const std::string name = item.path().lexically_relative(folder).string();
    if (!encoded) {
      ++counts["opaque"];
      std::printf("opaque          %s: %s\n", name.c_str(), encoded.error().detail.c_str());
    } else if (encoded->kept) {
      ++counts["kept"];
    } else if (encoded->restore.empty()) {
      ++counts["not restorable"];
      std::printf("not restorable  %s: %s\n", name.c_str(), encoded->not_restorable.c_str());
    } else {
      image.structure = ParseJpeg(image.source).value();
      image.stored = std::move(encoded->bytes);
      image.stored.insert(image.stored.end(), {0xFF, jpeg_marker::kEoi});
      image.stored.insert(image.stored.end(), encoded->tail.begin(), encoded->tail.end());
      image.record = std::move(encoded->restore);
      image.identity = {image.source.size(), Sha256::Of(image.source)};
      const auto restored = RestoreJpeg(image.stored, image.record, image.identity);
      const bool same = restored && *restored == image.source;
      if (!same)
        std::printf("NOT RESTORED    %s: %s\n", name.c_str(), restored ? "differs" : restored.error().message.c_str());
      ++counts[same ? "restorable" : "NOT RESTORED"];
      images.push_back(std::move(image));
    }
  }
  for (const auto& [kind, count] : counts) std::printf("%d %s\n", count, kind.c_str());
  return images;
}

// Of this program on its processor, so that what else the machine does counts less.
double Now() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double Seconds(int rounds, const std::vector<Image>& images, void (*job)(const Image&)) {
  double best = 1e9;
  for (int round = 0; round < rounds; ++round) {
    const double start = Now();
    for (const Image& image : images) job(image);
    best = std::min(best, Now() - start);
  }
  return best;
}

ByteSpan UpToEoi(const Image& image) { return ByteSpan(image.source).first(image.structure.eoi + 2); }

void Transcode(const Image& image) {
  const auto coefficients = JpegCoefficients::Read(UpToEoi(image)).value();
  (void)ConvertToProgressive(image.source, image.structure, coefficients).value();
}

void TranscodeAndTry(const Image& image) {
  const auto coefficients = JpegCoefficients::Read(UpToEoi(image)).value();
  const auto converted = ConvertToProgressive(image.source, image.structure, coefficients).value();
  (void)MakeRestoreRecord(image.source, image.structure, converted.bytes, coefficients).value();
}

void Encode(const Image& image) { (void)EncodeImage(image.source).value(); }

void Restore(const Image& image) { (void)RestoreJpeg(image.stored, image.record, image.identity).value(); }

void ReadAndWrite(const Image& image) { testing::ReadAndWriteCoefficients(image.stored); }

int Run(const std::string& folder, int rounds) {
  const std::vector<Image> images = Load(folder);
  if (images.empty()) return 1;
  size_t record_bytes = 0;
  for (const Image& image : images) record_bytes += image.record.size();
  std::printf("records: %zu bytes an image\n", record_bytes / images.size());
  const double transcode = Seconds(rounds, images, Transcode), with_trial = Seconds(rounds, images, TranscodeAndTry),
               encode = Seconds(rounds, images, Encode);
  std::printf("transcoding %.3f s, trial %.2f of it, proof %.2f, together %.2f\n", transcode,
              with_trial / transcode - 1, (encode - with_trial) / transcode, encode / transcode - 1);
  const double loop = Seconds(rounds, images, ReadAndWrite), restore = Seconds(rounds, images, Restore);
  std::printf("read and write %.3f s, restoring %.3f s: %.2f of its rate\n", loop, restore, loop / restore);
  return 0;
}

}  // namespace
}  // namespace pcrfs

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: restore_bench FOLDER [ROUNDS]\n");
    return 2;
  }
  return pcrfs::Run(argv[1], argc > 2 ? std::atoi(argv[2]) : 5);
}
