#include "tests/support/test_jpeg.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
// jpeglib.h needs size_t and FILE before it.
#include <jpeglib.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace pcrfs::testing {
namespace {

struct ErrorManager {
  jpeg_error_mgr base;
  jmp_buf escape;
};

[[noreturn]] void Escape(j_common_ptr info) { longjmp(reinterpret_cast<ErrorManager*>(info->err)->escape, 1); }

int ComponentsOf(TestJpeg::Colour colour) {
  switch (colour) {
    case TestJpeg::Colour::kGray:
      return 1;
    case TestJpeg::Colour::kTwo:
      return 2;
    case TestJpeg::Colour::kYCbCr:
    case TestJpeg::Colour::kRgb:
      return 3;
    default:
      return 4;
  }
}

// Broad colour waves, a few hard-edged discs and some noise: enough that every scan of a progressive file has work.
Bytes Picture(unsigned width, unsigned height, int components, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> unit(0, 1);
  struct Disc {
    double x, y, r;
    int value[4];
  };
  std::vector<Disc> discs(6);
  for (Disc& disc : discs) {
    disc = {unit(random) * width, unit(random) * height, unit(random) * height / 4, {}};
    for (int& value : disc.value) value = static_cast<int>(unit(random) * 200) - 100;
  }
  double phase[4], fx[4], fy[4];
  for (int c = 0; c < 4; ++c) phase[c] = unit(random) * 6, fx[c] = unit(random) * 9, fy[c] = unit(random) * 9;

  Bytes pixels(size_t{width} * height * static_cast<size_t>(components));
  size_t at = 0;
  for (unsigned y = 0; y < height; ++y)
    for (unsigned x = 0; x < width; ++x)
      for (int c = 0; c < components; ++c) {
        double value = 128 + 70 * std::sin(phase[c] + fx[c] * x / width + fy[c] * y / height);
        for (const Disc& disc : discs)
          if ((x - disc.x) * (x - disc.x) + (y - disc.y) * (y - disc.y) < disc.r * disc.r) value += disc.value[c];
        value += static_cast<double>(random() % 25) - 12;
        pixels[at++] = static_cast<uint8_t>(std::clamp(value, 0.0, 255.0));
      }
  return pixels;
}

J_COLOR_SPACE InputSpaceOf(int components) {
  constexpr J_COLOR_SPACE kSpaces[] = {JCS_GRAYSCALE, JCS_UNKNOWN, JCS_RGB, JCS_CMYK};
  return kSpaces[components - 1];
}

std::vector<jpeg_scan_info> ScriptOf(const TestJpeg& spec) {
  std::vector<jpeg_scan_info> script;
  for (const TestScan& scan : spec.script) {
    jpeg_scan_info info{};
    info.comps_in_scan = static_cast<int>(scan.components.size());
    std::copy(scan.components.begin(), scan.components.end(), info.component_index);
    info.Ss = scan.Ss, info.Se = scan.Se, info.Ah = scan.Ah, info.Al = scan.Al;
    script.push_back(info);
  }
  return script;
}

void Configure(jpeg_compress_struct& out, const TestJpeg& spec, const std::vector<jpeg_scan_info>& script) {
  const int components = ComponentsOf(spec.colour);
  out.image_width = spec.width;
  out.image_height = spec.height;
  out.input_components = components;
  out.in_color_space = InputSpaceOf(components);
  jpeg_set_defaults(&out);
  if (spec.colour == TestJpeg::Colour::kRgb) jpeg_set_colorspace(&out, JCS_RGB);
  if (spec.colour == TestJpeg::Colour::kYcck) jpeg_set_colorspace(&out, JCS_YCCK);
  jpeg_set_quality(&out, spec.quality, TRUE);
  if (spec.colour == TestJpeg::Colour::kYCbCr || spec.colour == TestJpeg::Colour::kYcck) {
    out.comp_info[0].h_samp_factor = spec.h_sampling;
    out.comp_info[0].v_samp_factor = spec.v_sampling;
    if (components == 4)
      out.comp_info[3] = out.comp_info[3], out.comp_info[3].h_samp_factor = spec.h_sampling,
      out.comp_info[3].v_samp_factor = spec.v_sampling;
  }
  for (size_t i = 0; i < spec.sampling.size(); ++i) {
    out.comp_info[i].h_samp_factor = spec.sampling[i].first;
    out.comp_info[i].v_samp_factor = spec.sampling[i].second;
  }
  if (!spec.jfif) out.write_JFIF_header = FALSE;
  if (!spec.adobe) out.write_Adobe_marker = FALSE;
  out.raw_data_in = spec.sampling.empty() ? FALSE : TRUE;
  out.optimize_coding = spec.optimize ? TRUE : FALSE;
  out.arith_code = spec.arithmetic ? TRUE : FALSE;
  for (UINT8& k : out.arith_ac_K) k = static_cast<UINT8>(spec.arithmetic_ac);
  out.restart_interval = spec.restart_interval;
  if (spec.progressive) jpeg_simple_progression(&out);
  if (!script.empty()) {
    out.scan_info = script.data();
    out.num_scans = static_cast<int>(script.size());
  }
}

void WritePixels(jpeg_compress_struct& out, Bytes pixels) {
  const size_t stride = size_t{out.image_width} * static_cast<size_t>(out.input_components);
  while (out.next_scanline < out.image_height) {
    JSAMPROW row = pixels.data() + out.next_scanline * stride;
    jpeg_write_scanlines(&out, &row, 1);
  }
}

// Each component as a picture of its own, at its own size and beyond, handed over without down-sampling.
void WritePlanes(jpeg_compress_struct& out, uint32_t seed) {
  struct Plane {
    Bytes samples;
    std::vector<JSAMPROW> rows;
  };
  const auto mcu_rows = static_cast<unsigned>(out.max_v_samp_factor) * DCTSIZE;
  std::vector<Plane> planes(static_cast<size_t>(out.num_components));
  for (size_t i = 0; i < planes.size(); ++i) {
    const jpeg_component_info& info = out.comp_info[i];
    const unsigned width = (info.width_in_blocks + 3) * DCTSIZE, height = (info.height_in_blocks + 3) * DCTSIZE;
    planes[i].samples = Picture(width, height, 1, seed + static_cast<uint32_t>(i));
    for (unsigned y = 0; y < height; ++y) planes[i].rows.push_back(planes[i].samples.data() + size_t{y} * width);
  }
  for (size_t row = 0; out.next_scanline < out.image_height; ++row) {
    std::vector<JSAMPARRAY> data;
    for (size_t i = 0; i < planes.size(); ++i)
      data.push_back(planes[i].rows.data() + row * static_cast<size_t>(out.comp_info[i].v_samp_factor) * DCTSIZE);
    jpeg_write_raw_data(&out, data.data(), mcu_rows);
  }
}

}  // namespace

Bytes MakeJpeg(const TestJpeg& spec) {
  const std::vector<jpeg_scan_info> script = ScriptOf(spec);
  jpeg_compress_struct out;
  jpeg_error_mgr errors;
  out.err = jpeg_std_error(&errors);  // its error_exit prints and ends the program, which is right for a test
  jpeg_create_compress(&out);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&out, &buffer, &size);
  Configure(out, spec, script);
  jpeg_start_compress(&out, TRUE);
  for (const auto& [code, content] : spec.markers)
    jpeg_write_marker(&out, code, content.data(), static_cast<unsigned>(content.size()));
  if (spec.sampling.empty())
    WritePixels(out, Picture(spec.width, spec.height, out.input_components, spec.seed));
  else
    WritePlanes(out, spec.seed);
  jpeg_finish_compress(&out);
  Bytes jpeg(buffer, buffer + size);
  jpeg_destroy_compress(&out);
  std::free(buffer);
  return jpeg;
}

DecodedJpeg DecodeJpeg(ByteSpan jpeg) {
  DecodedJpeg decoded;
  jpeg_decompress_struct in;
  ErrorManager errors;
  in.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = Escape;
  errors.base.output_message = [](j_common_ptr) {};
  if (setjmp(errors.escape) != 0) {
    jpeg_destroy_decompress(&in);
    decoded.pixels.clear();
    decoded.warnings = errors.base.num_warnings + 1;
    return decoded;
  }
  jpeg_create_decompress(&in);
  jpeg_mem_src(&in, jpeg.data(), static_cast<unsigned long>(jpeg.size()));
  jpeg_read_header(&in, TRUE);
  in.out_color_space = in.jpeg_color_space == JCS_YCCK ? JCS_CMYK : in.jpeg_color_space;
  if (in.jpeg_color_space == JCS_YCbCr) in.out_color_space = JCS_RGB;
  in.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&in);
  decoded.width = in.output_width;
  decoded.height = in.output_height;
  decoded.components = static_cast<unsigned>(in.output_components);
  const size_t stride = size_t{in.output_width} * decoded.components;
  decoded.pixels.resize(stride * in.output_height);
  while (in.output_scanline < in.output_height) {
    JSAMPROW row = decoded.pixels.data() + stride * in.output_scanline;
    jpeg_read_scanlines(&in, &row, 1);
  }
  jpeg_finish_decompress(&in);
  decoded.warnings = errors.base.num_warnings;
  jpeg_destroy_decompress(&in);
  return decoded;
}

}  // namespace pcrfs::testing
