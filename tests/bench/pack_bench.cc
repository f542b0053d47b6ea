// pack_bench FOLDER SCRATCH [RUNS [FILES]]: how fast pack and verify are, against loops that do only the part that
// cannot be left out, over the images below FOLDER, repeated to FILES (default 3000), in SCRATCH (2 GB are needed).
//
//   transcoding   in memory, on all cores: read the source's coefficients, write them as progressive
//   encoding      in memory, on all cores: EncodeImage, so with proof and restore trial
//   packing       Pack of the folder, its files in the page cache
//   opaque        Pack of 512 MB that are no images, against a copy of them that is synced as often
//   verifying     Verify of the data set, against reading its files
//
// Each is run once a run, one after the other; printed are the medians of times and of ratios within a run.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "format/image_encoder.h"
#include "format/jpeg_coefficients.h"
#include "format/jpeg_parser.h"
#include "format/jpeg_transcoder.h"
#include "format/packer.h"
#include "format/verifier.h"
#include "format/worker_threads.h"

namespace pcrfs {
namespace {

namespace fs = std::filesystem;

constexpr size_t kOpaqueFiles = 512, kOpaqueBytes = 1'000'000;

struct Image {
  Bytes source;
  JpegStructure structure;
};

Bytes ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteAll(const fs::path& path, ByteSpan bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

std::vector<Image> Load(const std::string& folder) {
  std::vector<Image> images;
  for (const auto& item : fs::recursive_directory_iterator(folder)) {
    if (!item.is_regular_file()) continue;
    Image image{ReadAll(item.path()), {}};
    const auto encoded = EncodeImage(image.source);
    if (!encoded || encoded->kept) continue;
    image.structure = ParseJpeg(image.source).value();
    images.push_back(std::move(image));
  }
  return images;
}

template <typename Job>
double Seconds(const Job& job) {
  const auto start = std::chrono::steady_clock::now();
  job();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <typename Job>
double OnAllCores(size_t files, const std::vector<Image>& images, const Job& job) {
  std::atomic<size_t> next{0};
  return Seconds([&] {
    RunOnThreads(0, [&] {
      for (size_t i = next++; i < files; i = next++) job(images[i % images.size()]);
    });
  });
}

void Transcode(const Image& image) {
  const auto coefficients = JpegCoefficients::Read(ByteSpan(image.source).first(image.structure.eoi + 2)).value();
  (void)ConvertToProgressive(image.source, image.structure, coefficients).value();
}

double PackSeconds(const fs::path& source, const fs::path& dataset) {
  fs::remove_all(dataset);
  PackObserver quiet;
  return Seconds([&] {
    if (const auto packed = Pack(source, dataset, {}, quiet); !packed) {
      std::fprintf(stderr, "%s\n", packed.error().message.c_str());
      std::exit(1);
    }
  });
}

// As pack writes them: a file of 64 MB after the other, each synced.
double CopySeconds(const fs::path& source, const fs::path& target) {
  return Seconds([&] {
    int fd = -1;
    size_t in_file = 0;
    for (const auto& item : fs::directory_iterator(source)) {
      if (fd < 0) fd = open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
      const Bytes bytes = ReadAll(item.path());
      if (write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) std::exit(1);
      if (++in_file < 64) continue;
      in_file = 0;
      fsync(fd);
      close(fd);
      fd = -1;
    }
    if (fd >= 0) close(fd);
  });
}

double ReadSeconds(const fs::path& dataset) {
  Bytes buffer(size_t{1} << 20);
  return Seconds([&] {
    for (const auto& item : fs::directory_iterator(dataset)) {
      const int fd = open(item.path().c_str(), O_RDONLY | O_CLOEXEC);
      while (read(fd, buffer.data(), buffer.size()) > 0) {
      }
      close(fd);
    }
  });
}

double VerifySeconds(const fs::path& dataset) {
  return Seconds([&] {
    const auto verified = Verify(
        dataset, {}, [](const Error&) {}, [](const VerifyProgress&) {});
    if (!verified || verified->faults > 0) std::exit(1);
  });
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Figures {
 public:
  std::vector<double> transcode, encode, pack, opaque, copy, verify, read;

  void Print(double files, double opaque_bytes, double stored_bytes) const {
    std::printf("transcoding  %7.1f images/s in memory\n", files / Median(transcode));
    std::printf("encoding     %7.1f images/s in memory: proof and trial cost %.2f of transcoding\n",
                files / Median(encode), Ratio(encode, transcode) - 1);
    std::printf(
        "packing      %7.1f images/s: %.2f of encoding's rate, %.2f of transcoding's with proof and trial apart\n",
        files / Median(pack), Ratio(encode, pack), Apart());
    std::printf("opaque       %7.1f MB/s: %.2f of a copy's rate\n", opaque_bytes / Median(opaque) / 1e6,
                Ratio(copy, opaque));
    std::printf("verifying    %7.1f MB/s: reading alone %.1f MB/s\n", stored_bytes / Median(verify) / 1e6,
                stored_bytes / Median(read) / 1e6);
  }

 private:
  static double Ratio(const std::vector<double>& a, const std::vector<double>& b) {
    std::vector<double> ratios;
    for (size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
    return Median(ratios);
  }
  // Time of a pack less what proof and trial took, against transcoding.
  [[nodiscard]] double Apart() const {
    std::vector<double> ratios;
    for (size_t i = 0; i < pack.size(); ++i) ratios.push_back(transcode[i] / (pack[i] - (encode[i] - transcode[i])));
    return Median(ratios);
  }
};

uint64_t BytesIn(const fs::path& folder) {
  uint64_t bytes = 0;
  for (const auto& item : fs::directory_iterator(folder)) bytes += item.file_size();
  return bytes;
}

int Run(const std::string& folder, const fs::path& scratch, int runs, size_t files) {
  const std::vector<Image> images = Load(folder);
  if (images.empty()) {
    std::fprintf(stderr, "no image below %s is converted\n", folder.c_str());
    return 1;
  }
  const fs::path photos = scratch / "photos", opaque = scratch / "opaque";
  for (size_t i = 0; i < files; ++i) {
    const fs::path folder_of_file = photos / std::to_string(i % 10);
    fs::create_directories(folder_of_file);
    WriteAll(folder_of_file / (std::to_string(i) + ".jpg"), images[i % images.size()].source);
  }
  fs::create_directories(opaque);
  std::mt19937_64 random{1};
  std::vector<uint64_t> noise(kOpaqueBytes / 8);
  for (size_t i = 0; i < kOpaqueFiles; ++i) {
    for (uint64_t& word : noise) word = random();
    noise[0] = 0;  // no SOI
    WriteAll(opaque / std::to_string(i), {reinterpret_cast<const uint8_t*>(noise.data()), kOpaqueBytes});
  }

  Figures figures;
  for (int run = 0; run < runs; ++run) {
    figures.transcode.push_back(OnAllCores(files, images, Transcode));
    figures.encode.push_back(OnAllCores(files, images, [](const Image& image) { (void)EncodeImage(image.source); }));
    figures.pack.push_back(PackSeconds(photos, scratch / "set"));
    figures.copy.push_back(CopySeconds(opaque, scratch / "copy"));
    figures.opaque.push_back(PackSeconds(opaque, scratch / "opaque set"));
    figures.read.push_back(ReadSeconds(scratch / "set"));
    figures.verify.push_back(VerifySeconds(scratch / "set"));
  }
  std::printf("%zu files, medians of %d runs\n", files, runs);
  figures.Print(static_cast<double>(files), kOpaqueFiles * kOpaqueBytes, static_cast<double>(BytesIn(scratch / "set")));
  for (const char* name : {"photos", "opaque", "set", "opaque set", "copy"}) fs::remove_all(scratch / name);
  return 0;
}

}  // namespace
}  // namespace pcrfs

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: pack_bench FOLDER SCRATCH [RUNS [FILES]]\n");
    return 2;
  }
  return pcrfs::Run(argv[1], argv[2], argc > 3 ? std::atoi(argv[3]) : 5,
                    argc > 4 ? std::strtoul(argv[4], nullptr, 10) : 3000);
}
