// libjpeg-turbo, fenced in: the one includer of <jpeglib.h> in the program, for the .cc files that call it. No public
// header includes this one.
//
// libjpeg reports an error by a function that must not return. A fence turns that into a return value: its longjmp
// never leaves LibjpegFence::Run, nothing is printed, and the first warning counts as an error: an image that libjpeg
// complains about is not one to convert. Memory that runs out is std::bad_alloc.
//
// Thread safety: one fence, and the libjpeg objects that it guards, a thread.
#ifndef PCRFS_FORMAT_LIBJPEG_H_
#define PCRFS_FORMAT_LIBJPEG_H_

#include <csetjmp>
#include <cstddef>
#include <cstdio>
// jpeglib.h needs size_t and FILE before it.
#include <jerror.h>
#include <jpeglib.h>

#include <new>
#include <string>
#include <type_traits>

#include "format/bytes.h"
#include "format/error.h"
#include "format/jpeg_coefficients.h"

namespace pcrfs {

class LibjpegFence {
 public:
  LibjpegFence();
  LibjpegFence(const LibjpegFence&) = delete;
  LibjpegFence& operator=(const LibjpegFence&) = delete;

  // For a compress or decompress object before its jpeg_create_*.
  template <typename Info>
  void Guard(Info& info) {
    info.err = &manager_;
    info.client_data = this;
  }

  // False when libjpeg escaped; text() then says why. The jump goes over libjpeg's C frames and over `body`: so neither
  // may hold an object with a destructor when libjpeg is called.
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

  [[nodiscard]] std::string text() const { return std::string("libjpeg: ") + text_; }

 private:
  [[noreturn]] static void Escape(j_common_ptr info);

  jpeg_error_mgr manager_{};
  jmp_buf escape_{};
  char text_[JMSG_LENGTH_MAX] = {};
};

// libjpeg reads a memory limit from the environment; results must not depend on it. After jpeg_create_*.
template <typename Info>
void LiftMemoryLimit(Info& info) {
  info.mem->max_memory_to_use = 0;
}

// Appends what libjpeg writes to a vector, without libjpeg's SOI: the vector begins with its own.
class LibjpegOutput {
 public:
  // `out` must outlive the writing.
  explicit LibjpegOutput(Bytes& out);
  LibjpegOutput(const LibjpegOutput&) = delete;
  LibjpegOutput& operator=(const LibjpegOutput&) = delete;

  jpeg_destination_mgr* manager() { return &manager_; }

 private:
  static constexpr size_t kBufferSize = 16384;

  static LibjpegOutput& Of(j_compress_ptr info);
  void Reset();
  void Flush(j_compress_ptr info, size_t size);

  jpeg_destination_mgr manager_{};
  Bytes* out_;
  size_t skip_ = 2;
  JOCTET buffer_[kBufferSize] = {};
};

// Writes the coefficients of a file once more, appended to a vector that holds SOI and the marker segments already:
// libjpeg adds neither SOI nor JFIF and Adobe segments.
class CoefficientWriter {
 public:
  // `out` must outlive the writing.
  explicit CoefficientWriter(Bytes& out) : output_(out) { fence_.Guard(info_); }
  ~CoefficientWriter() { jpeg_destroy_compress(&info_); }
  CoefficientWriter(const CoefficientWriter&) = delete;
  CoefficientWriter& operator=(const CoefficientWriter&) = delete;

  // `choose(info)` sets how they are coded; what it points `info` to must last until this returns. It must own nothing,
  // as LibjpegFence::Run says. kUnsupported: libjpeg cannot write that; its words.
  template <typename Choose>
  [[nodiscard]] Result<void> Write(const JpegCoefficients& source, const Choose& choose) {
    const bool done = fence_.Run([&] {
      jpeg_create_compress(&info_);
      LiftMemoryLimit(info_);
      jpeg_copy_critical_parameters(&source.libjpeg(), &info_);
      info_.write_JFIF_header = FALSE;
      info_.write_Adobe_marker = FALSE;
      choose(info_);
      info_.dest = output_.manager();
      jpeg_write_coefficients(&info_, source.arrays());
      jpeg_finish_compress(&info_);
    });
    if (!done) return Fail(ErrorCode::kUnsupported, fence_.text());
    return {};
  }

 private:
  LibjpegFence fence_;
  jpeg_compress_struct info_{};
  LibjpegOutput output_;
};

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_LIBJPEG_H_
