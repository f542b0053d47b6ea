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

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_LIBJPEG_H_
