#include "format/libjpeg.h"

#include <algorithm>
#include <utility>

namespace pcrfs {

LibjpegFence::LibjpegFence() {
  jpeg_std_error(&manager_);
  manager_.error_exit = [](j_common_ptr info) { Escape(info); };
  manager_.emit_message = [](j_common_ptr info, int level) {
    if (level < 0) Escape(info);  // a warning; the levels from 0 on are traces
  };
  manager_.output_message = [](j_common_ptr) {};
}

void LibjpegFence::Escape(j_common_ptr info) {
  auto& fence = *static_cast<LibjpegFence*>(info->client_data);
  (*fence.manager_.format_message)(info, fence.text_);
  longjmp(fence.escape_, 1);
}

LibjpegOutput::LibjpegOutput(Bytes& out) : out_(&out) {
  manager_.init_destination = [](j_compress_ptr info) { Of(info).Reset(); };
  manager_.empty_output_buffer = [](j_compress_ptr info) -> boolean {
    Of(info).Flush(info, kBufferSize);
    return TRUE;
  };
  manager_.term_destination = [](j_compress_ptr info) {
    Of(info).Flush(info, kBufferSize - Of(info).manager_.free_in_buffer);
  };
}

LibjpegOutput& LibjpegOutput::Of(j_compress_ptr info) {
  static_assert(std::is_standard_layout_v<LibjpegOutput>);  // so a pointer to manager_ is one to the whole
  return *reinterpret_cast<LibjpegOutput*>(info->dest);
}

void LibjpegOutput::Reset() {
  manager_.next_output_byte = buffer_;
  manager_.free_in_buffer = kBufferSize;
}

// No exception may pass through libjpeg's frames, and none may be alive when error_exit jumps.
void LibjpegOutput::Flush(j_compress_ptr info, size_t size) {
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

}  // namespace pcrfs
