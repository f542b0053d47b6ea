#include "format/jpeg_transcoder.h"

#include <csetjmp>
#include <cstdio>
// jpeglib.h needs size_t and FILE before it.
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <new>
#include <optional>
#include <string>
#include <type_traits>

namespace pcrfs {
namespace {

// libjpeg reports an error by a function that must not return. This one jumps back to Run, over libjpeg's C frames and
// over the body handed to Run; so neither may hold an object with a destructor when libjpeg is called.
class Fence {
 public:
  Fence() {
    jpeg_std_error(&manager_);
    manager_.error_exit = [](j_common_ptr info) { Of(info).Escape(info); };
    manager_.emit_message = [](j_common_ptr info, int level) {
      if (level < 0) Of(info).Escape(info);  // a warning; the levels from 0 on are traces
    };
    manager_.output_message = [](j_common_ptr) {};
  }
  Fence(const Fence&) = delete;
  Fence& operator=(const Fence&) = delete;

  // For a compress or decompress object before its jpeg_create_*.
  template <typename Info>
  void Guard(Info& info) {
    info.err = &manager_;
    info.client_data = this;
  }

  // False when libjpeg escaped; text() then says why. Throws std::bad_alloc when it had no memory.
  template <typename Body>
  [[nodiscard]] bool Run(const Body& body) {
    static_assert(std::is_trivially_destructible_v<Body>);
    if (setjmp(escape_) == 0) {
      body();
      return true;
    }
    if (manager_.msg_code == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
    return false;
  }

  [[nodiscard]] std::string text() const { return text_; }

 private:
  static Fence& Of(j_common_ptr info) { return *static_cast<Fence*>(info->client_data); }

  [[noreturn]] void Escape(j_common_ptr info) {
    (*manager_.format_message)(info, text_);
    longjmp(escape_, 1);
  }

  jpeg_error_mgr manager_{};
  jmp_buf escape_{};
  char text_[JMSG_LENGTH_MAX] = {};
};

// libjpeg reads a memory limit from the environment; results must not depend on it.
template <typename Info>
void LiftMemoryLimit(Info& info) {
  info.mem->max_memory_to_use = 0;
}

// A JPEG with all its coefficients in memory.
class CoefficientReader {
 public:
  explicit CoefficientReader(ByteSpan jpeg) : jpeg_(jpeg) { fence_.Guard(info_); }
  ~CoefficientReader() { jpeg_destroy_decompress(&info_); }
  CoefficientReader(const CoefficientReader&) = delete;
  CoefficientReader& operator=(const CoefficientReader&) = delete;

  Result<void> Read() {
    const bool done = fence_.Run([this] {
      jpeg_create_decompress(&info_);
      LiftMemoryLimit(info_);
      jpeg_mem_src(&info_, jpeg_.data(), static_cast<unsigned long>(jpeg_.size()));
      jpeg_read_header(&info_, TRUE);
      coefficients_ = jpeg_read_coefficients(&info_);
    });
    if (!done || coefficients_ == nullptr) return Fail(ErrorCode::kDamaged, "libjpeg: " + fence_.text());
    return {};
  }

  // After Read.
  [[nodiscard]] bool ycbcr() const { return info_.jpeg_color_space == JCS_YCbCr; }

  Result<JpegContent> Content() {
    JpegContent content;
    content.width = info_.image_width;
    content.height = info_.image_height;
    content.colour_space = info_.jpeg_color_space;
    content.ycbcr = ycbcr();
    for (int i = 0; i < info_.num_components; ++i) content.components.push_back(ComponentAt(i));
    Sha256 sha;
    if (!fence_.Run([&] { HashBlocks(sha); })) return Fail(ErrorCode::kDamaged, "libjpeg: " + fence_.text());
    content.coefficients = sha.Finish();
    return content;
  }

  jpeg_decompress_struct& info() { return info_; }
  jvirt_barray_ptr* coefficients() { return coefficients_; }

 private:
  JpegContent::Component ComponentAt(int i) const {
    const jpeg_component_info& info = info_.comp_info[i];
    JpegContent::Component component;
    component.id = info.component_id;
    component.h_sampling = info.h_samp_factor;
    component.v_sampling = info.v_samp_factor;
    component.width_in_blocks = info.width_in_blocks;
    component.height_in_blocks = info.height_in_blocks;
    if (info.quant_table != nullptr)
      std::copy_n(info.quant_table->quantval, component.quant_table.size(), component.quant_table.begin());
    return component;
  }

  void HashBlocks(Sha256& sha) {
    for (int i = 0; i < info_.num_components; ++i) {
      const jpeg_component_info& component = info_.comp_info[i];
      for (JDIMENSION row = 0; row < component.height_in_blocks; ++row) {
        const JBLOCKARRAY blocks =
            (*info_.mem->access_virt_barray)(reinterpret_cast<j_common_ptr>(&info_), coefficients_[i], row, 1, FALSE);
        sha.Update({reinterpret_cast<const uint8_t*>(blocks[0]), sizeof(JBLOCK) * component.width_in_blocks});
      }
    }
  }

  ByteSpan jpeg_;
  Fence fence_;
  jpeg_decompress_struct info_{};
  jvirt_barray_ptr* coefficients_ = nullptr;
};

// Appends what libjpeg writes to a vector, without libjpeg's SOI: the vector begins with its own.
class VectorDestination {
 public:
  VectorDestination() {
    manager_.init_destination = [](j_compress_ptr info) { Of(info).Reset(); };
    manager_.empty_output_buffer = [](j_compress_ptr info) -> boolean {
      Of(info).Flush(info, kBufferSize);
      return TRUE;
    };
    manager_.term_destination = [](j_compress_ptr info) {
      Of(info).Flush(info, kBufferSize - Of(info).manager_.free_in_buffer);
    };
  }
  void AppendTo(Bytes& out) { out_ = &out; }
  jpeg_destination_mgr* manager() { return &manager_; }

 private:
  static constexpr size_t kBufferSize = 16384;

  static VectorDestination& Of(j_compress_ptr info) {
    static_assert(std::is_standard_layout_v<VectorDestination>);  // so a pointer to manager_ is one to the whole
    return *reinterpret_cast<VectorDestination*>(info->dest);
  }

  void Reset() {
    manager_.next_output_byte = buffer_;
    manager_.free_in_buffer = kBufferSize;
  }

  // No exception may pass through libjpeg's frames, and none may be alive when error_exit jumps.
  void Flush(j_compress_ptr info, size_t size) {
    const size_t skip = std::exchange(skip_, 0);
    bool stored = true;
    try {
      out_->insert(out_->end(), buffer_ + skip, buffer_ + std::max(size, skip));
    } catch (const std::bad_alloc&) {
      stored = false;
    }
    if (!stored) ERREXIT1(info, JERR_OUT_OF_MEMORY, 0);
    Reset();
  }

  jpeg_destination_mgr manager_{};
  Bytes* out_ = nullptr;
  size_t skip_ = 2;
  JOCTET buffer_[kBufferSize] = {};
};

class ProgressiveWriter {
 public:
  ProgressiveWriter() { fence_.Guard(info_); }
  ~ProgressiveWriter() { jpeg_destroy_compress(&info_); }
  ProgressiveWriter(const ProgressiveWriter&) = delete;
  ProgressiveWriter& operator=(const ProgressiveWriter&) = delete;

  Result<void> Write(CoefficientReader& source, Bytes& out) {
    destination_.AppendTo(out);
    const bool done = fence_.Run([&] {
      jpeg_create_compress(&info_);
      LiftMemoryLimit(info_);
      jpeg_copy_critical_parameters(&source.info(), &info_);
      // The source's own segments are in `out` already; libjpeg would add some that the source does not have.
      info_.write_JFIF_header = FALSE;
      info_.write_Adobe_marker = FALSE;
      jpeg_simple_progression(&info_);
      SplitCrowdedScans();
      info_.dest = destination_.manager();
      jpeg_write_coefficients(&info_, source.coefficients());
      jpeg_finish_compress(&info_);
    });
    if (!done) return Fail(ErrorCode::kUnsupported, "libjpeg: " + fence_.text());
    return {};
  }

 private:
  // One scan a component in place of interleaved ones whose MCU would have more blocks than T.81 B.2.3 allows.
  void SplitCrowdedScans() {
    int blocks = 0;
    for (int i = 0; i < info_.num_components; ++i)
      blocks += info_.comp_info[i].h_samp_factor * info_.comp_info[i].v_samp_factor;
    if (info_.num_components == 1 || blocks <= C_MAX_BLOCKS_IN_MCU) return;
    size_t count = 0;
    for (int i = 0; i < info_.num_scans; ++i) {
      const jpeg_scan_info& scan = info_.scan_info[i];
      for (int c = 0; c < scan.comps_in_scan && count < split_scans_.size(); ++c) {
        split_scans_[count] = scan;
        split_scans_[count].comps_in_scan = 1;
        split_scans_[count++].component_index[0] = scan.component_index[c];
      }
    }
    info_.scan_info = split_scans_.data();
    info_.num_scans = static_cast<int>(count);
  }

  Fence fence_;
  jpeg_compress_struct info_{};
  VectorDestination destination_;
  // The default script has 18 scans for four components, 2 of them interleaved.
  std::array<jpeg_scan_info, 18 + 2 * 3> split_scans_{};
};

}  // namespace

Result<JpegContent> ReadJpegContent(ByteSpan jpeg) {
  CoefficientReader reader(jpeg);
  if (Result<void> read = reader.Read(); !read) return PassOn(std::move(read));
  return reader.Content();
}

Result<bool> ReadJpegIsYcbcr(ByteSpan jpeg) {
  CoefficientReader reader(jpeg);
  if (Result<void> read = reader.Read(); !read) return PassOn(std::move(read));
  return reader.ycbcr();
}

Result<ProgressiveJpeg> ConvertToProgressive(ByteSpan source, const JpegStructure& structure) {
  CoefficientReader reader(source);
  if (Result<void> read = reader.Read(); !read) return PassOn(std::move(read));
  Result<JpegContent> content = reader.Content();
  if (!content) return PassOn(std::move(content));

  ProgressiveJpeg progressive;
  progressive.content = *std::move(content);
  progressive.bytes.reserve(source.size());
  progressive.bytes = {0xFF, jpeg_marker::kSoi};
  for (const JpegSegment& segment : structure.segments) {
    if (!IsCopiedSegment(segment.marker)) continue;
    const ByteSpan bytes = source.subspan(segment.offset, segment.size);
    progressive.bytes.insert(progressive.bytes.end(), bytes.begin(), bytes.end());
  }
  ProgressiveWriter writer;
  if (Result<void> written = writer.Write(reader, progressive.bytes); !written) return PassOn(std::move(written));
  return progressive;
}

}  // namespace pcrfs
