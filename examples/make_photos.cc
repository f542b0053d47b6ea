// make_photos FOLDER [COUNT [SEED]]: a small data set of made-up photographs, for trying pcrfs without data of one's
// own.
//
// Writes COUNT (default 64) baseline JPEGs into eight class folders of FOLDER. They are drawn, not photographed, but
// have what real ones have: soft light, hard edges, texture at every scale and sensor grain, so that the bytes of a
// scan are about as large a part of the file as in real photographs. Sizes run from 60 to 500 pixels, samplings are
// 4:4:4, 4:2:2 and 4:2:0, some are grayscale, some carry an EXIF orientation. The same COUNT and SEED give the same
// files; file N does not depend on COUNT.
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>
// jpeglib.h needs size_t and FILE before it.
#include <jpeglib.h>

namespace {

// ---- Randomness that is the same with every compiler and library

uint64_t Mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(Mix(seed)) {}
  uint64_t Next() { return state_ = Mix(state_); }
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
  double Between(double low, double high) { return low + (high - low) * Unit(); }
  unsigned Below(unsigned bound) { return static_cast<unsigned>(Next() % bound); }

 private:
  uint64_t state_;
};

// ---- Noise fields

// The value at (x, y) of a random field whose features are `cell` pixels wide; -1..1.
double ValueNoise(uint64_t seed, double x, double y, double cell) {
  const auto corner = [seed](int64_t ix, int64_t iy) {
    const uint64_t h =
        Mix(seed * 0xd6e8feb86659fd93 + static_cast<uint64_t>(ix) * 0x100000001b3 + static_cast<uint64_t>(iy));
    return static_cast<double>(h >> 11) * 0x1p-52 - 1;
  };
  const double gx = x / cell, gy = y / cell;
  const double fx = std::floor(gx), fy = std::floor(gy);
  const auto ix = static_cast<int64_t>(fx), iy = static_cast<int64_t>(fy);
  const auto smooth = [](double t) { return t * t * (3 - 2 * t); };
  const double tx = smooth(gx - fx), ty = smooth(gy - fy);
  const double top = corner(ix, iy) * (1 - tx) + corner(ix + 1, iy) * tx;
  const double bottom = corner(ix, iy + 1) * (1 - tx) + corner(ix + 1, iy + 1) * tx;
  return top * (1 - ty) + bottom * ty;
}

// Octaves from `largest` down to two pixels; each finer one is `roughness` times as strong, as in natural scenes.
double Fractal(uint64_t seed, double x, double y, double largest, double roughness) {
  double sum = 0, strength = 1;
  for (double cell = largest; cell >= 2; cell /= 2, strength *= roughness) {
    sum += strength * ValueNoise(seed++, x, y, cell);
  }
  return sum;
}

// ---- Scenes

using Colour = std::array<double, 3>;

Colour RandomColour(Random& random) {
  // Photographs are mostly of muted colours: three channels around a common brightness.
  const double light = random.Between(50, 190);
  return {light + random.Between(-45, 45), light + random.Between(-30, 30), light + random.Between(-45, 45)};
}

struct Material {
  Colour base;
  double texture;    // strength of its fractal, in grey levels
  double roughness;  // of its fractal
};

struct Thing {  // a shaded ellipse
  double x, y, rx, ry, cosine, sine;
  Material material;
};

struct Ridge {  // everything below a ragged line
  double height, raggedness;
  Material material;
};

struct Kind {  // what the pictures of one class have in common
  const char* name;
  unsigned ridges, things;
  double roughness;  // of all materials
};

constexpr Kind kKinds[] = {
    {"balloons", 0, 4, 0.70}, {"boulders", 1, 9, 0.85}, {"dunes", 4, 1, 0.80}, {"foliage", 1, 14, 1.0},
    {"mountains", 5, 0, 0.9}, {"pebbles", 0, 30, 0.85}, {"fruit", 1, 5, 0.75}, {"shore", 2, 12, 0.9},
};
constexpr unsigned kKindCount = sizeof kKinds / sizeof kKinds[0];

class Scene {
 public:
  Scene(const Kind& kind, unsigned width, unsigned height, uint64_t seed)
      : width_(width), height_(height), seed_(seed) {
    Random random(seed);
    sky_top_ = RandomColour(random), sky_bottom_ = RandomColour(random);
    grain_ = random.Between(0.5, 3);
    const auto material = [&] {
      return Material{RandomColour(random), random.Between(10, 40), kind.roughness + random.Between(-0.1, 0.4)};
    };
    for (unsigned i = 0; i < kind.ridges; ++i) {
      const double height_of_ridge = (0.3 + 0.6 * (i + random.Unit()) / kind.ridges) * height;
      ridges_.push_back({height_of_ridge, random.Between(0.03, 0.2) * height, material()});
    }
    for (unsigned i = 0; i < kind.things; ++i) {
      const double size = random.Between(0.05, 0.25) * height, turn = random.Between(0, 3.14);
      things_.push_back({random.Unit() * width, random.Between(0.2, 1) * height, size * random.Between(0.6, 1.6), size,
                         std::cos(turn), std::sin(turn), material()});
    }
  }

  // Red, green, blue, one byte each, rows from the top.
  [[nodiscard]] std::vector<JSAMPLE> Render() const {
    std::vector<JSAMPLE> pixels;
    pixels.reserve(size_t{3} * width_ * height_);
    for (unsigned y = 0; y < height_; ++y) {
      for (unsigned x = 0; x < width_; ++x) {
        const Colour colour = At(x, y);
        const double grain = grain_ * ValueNoise(seed_ + 900, x, y, 1.3);
        for (size_t c = 0; c < 3; ++c) {
          pixels.push_back(static_cast<JSAMPLE>(std::lround(std::fmin(255, std::fmax(0, colour[c] + grain)))));
        }
      }
    }
    return pixels;
  }

 private:
  [[nodiscard]] Colour At(double x, double y) const {
    for (size_t i = things_.size(); i-- > 0;) {
      const Thing& thing = things_[i];
      const double dx = x - thing.x, dy = y - thing.y;
      const double u = (dx * thing.cosine + dy * thing.sine) / thing.rx;
      const double v = (dy * thing.cosine - dx * thing.sine) / thing.ry;
      if (u * u + v * v < 1) return Textured(thing.material, i, x, y, 50 * std::sqrt(1 - u * u - v * v) - 25 * v);
    }
    for (size_t i = ridges_.size(); i-- > 0;) {
      const Ridge& ridge = ridges_[i];
      if (y > ridge.height + ridge.raggedness * Fractal(seed_ + 100 * i, x, 0, 128, 0.5)) {
        return Textured(ridge.material, 40 + i, x, y, 0.1 * (y - ridge.height));
      }
    }
    const double t = y / height_;
    Colour sky;
    for (size_t c = 0; c < 3; ++c) sky[c] = sky_top_[c] * (1 - t) + sky_bottom_[c] * t;
    return Textured({sky, 14, 0.7}, 60, x, y, 0);
  }

  [[nodiscard]] Colour Textured(const Material& material, size_t number, double x, double y, double light) const {
    const uint64_t seed = seed_ + 1000 * (number + 1);
    const double value = material.texture * Fractal(seed, x, y, 64, material.roughness) + light;
    const double tint = 0.4 * material.texture * Fractal(seed + 50, x, y, 64, material.roughness);
    return {material.base[0] + value + tint, material.base[1] + value, material.base[2] + value - 0.8 * tint};
  }

  unsigned width_, height_;
  uint64_t seed_;
  Colour sky_top_{}, sky_bottom_{};
  double grain_ = 0;
  std::vector<Ridge> ridges_;
  std::vector<Thing> things_;
};

// ---- JPEG files

struct Photo {
  const Kind* kind;
  unsigned width, height;
  bool gray;
  int quality;
  int h_sampling, v_sampling;  // of luma; chroma has 1x1
  unsigned orientation;        // EXIF 1..8; 0: no EXIF segment
  uint64_t seed;
};

Photo PlanPhoto(unsigned number, uint64_t seed) {
  Random random(Mix(seed) ^ number);
  Photo photo{};
  photo.kind = &kKinds[number % kKindCount];
  photo.seed = random.Next();
  // Two thirds have the 500 pixels of a typical training set, the others anything down to 60.
  const double longer = random.Unit() < 0.8 ? 500 : random.Between(60, 500);
  const double shorter = std::fmax(60, longer * random.Between(0.6, 1));
  photo.width = static_cast<unsigned>(longer), photo.height = static_cast<unsigned>(shorter);
  if (random.Below(4) == 0) std::swap(photo.width, photo.height);
  constexpr int kQualities[] = {96, 96, 95, 95, 92, 90, 85, 75};
  photo.quality = kQualities[random.Below(8)];
  constexpr int kSamplings[][2] = {{1, 1}, {1, 1}, {1, 1}, {2, 1}, {2, 2}};
  const int* const sampling = kSamplings[random.Below(5)];
  photo.h_sampling = sampling[0], photo.v_sampling = sampling[1];
  // By number, so that even a small set has each of them.
  photo.gray = number % 13 == 5;
  photo.orientation = number % 5 == 2 ? 1 + number / 5 % 8 : 0;
  return photo;
}

// The smallest APP1 segment that says how a camera was held.
std::vector<JOCTET> ExifOrientation(unsigned orientation) {
  std::vector<JOCTET> exif = {'E',  'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0,  // TIFF, little-endian, IFD at 8
                              1,    0,                                                 // one field:
                              0x12, 1,   3,   0,   1, 0, 0,   0,   0,  0, 0, 0,        // tag 0x0112, one SHORT
                              0,    0,   0,   0};                                      // no further IFD
  exif[24] = static_cast<JOCTET>(orientation);
  return exif;
}

// libjpeg's own error handler is left in place: it prints why and ends the program.
void WriteJpeg(const Photo& photo, const std::vector<JSAMPLE>& rgb, std::FILE* file) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  jpeg_stdio_dest(&info, file);
  info.image_width = photo.width, info.image_height = photo.height;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, photo.quality, TRUE);
  if (photo.gray) {
    jpeg_set_colorspace(&info, JCS_GRAYSCALE);
  } else {
    info.comp_info[0].h_samp_factor = photo.h_sampling, info.comp_info[0].v_samp_factor = photo.v_sampling;
  }
  jpeg_start_compress(&info, TRUE);
  if (photo.orientation != 0) {
    const std::vector<JOCTET> exif = ExifOrientation(photo.orientation);
    jpeg_write_marker(&info, JPEG_APP0 + 1, exif.data(), static_cast<unsigned>(exif.size()));
  }
  while (info.next_scanline < info.image_height) {
    // libjpeg's interface is older than const; it does not write to the row.
    auto* row = const_cast<JSAMPLE*>(rgb.data() + size_t{3} * info.next_scanline * info.image_width);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
}

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "make_photos: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

void MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) Die(path);
}

void MakePhoto(const std::string& folder, unsigned number, uint64_t seed) {
  const Photo photo = PlanPhoto(number, seed);
  const std::string class_folder = folder + "/" + photo.kind->name;
  MakeFolder(class_folder);
  char name[32];
  std::snprintf(name, sizeof name, "/photo_%05u.jpg", number);
  const std::string path = class_folder + name;
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const std::unique_ptr<std::FILE, Closer> file(std::fopen(path.c_str(), "wb"));
  if (!file) Die(path);
  WriteJpeg(photo, Scene(*photo.kind, photo.width, photo.height, photo.seed).Render(), file.get());
  if (std::fflush(file.get()) != 0) Die(path);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr, "usage: make_photos FOLDER [COUNT [SEED]]\n");
    return 2;
  }
  const std::string folder = argv[1];
  const unsigned count = argc > 2 ? static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10)) : 64;
  const uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  MakeFolder(folder);
  for (unsigned number = 0; number < count; ++number) MakePhoto(folder, number, seed);
}
