#include "format/jpeg_picture.h"

#include "format/libjpeg.h"

namespace pcrfs {
namespace {

class PictureDecoder {
 public:
  PictureDecoder() { fence_.Guard(info_); }
  ~PictureDecoder() { jpeg_destroy_decompress(&info_); }
  PictureDecoder(const PictureDecoder&) = delete;
  PictureDecoder& operator=(const PictureDecoder&) = delete;

  Result<JpegPicture> Decode(ByteSpan jpeg) {
    const bool started = fence_.Run([this, jpeg] {
      jpeg_create_decompress(&info_);
      LiftMemoryLimit(info_);
      jpeg_mem_src(&info_, jpeg.data(), static_cast<unsigned long>(jpeg.size()));
      jpeg_read_header(&info_, TRUE);
      jpeg_start_decompress(&info_);
    });
    if (!started) return Fail(ErrorCode::kDamaged, fence_.text());
    row_.resize(size_t{info_.output_width} * static_cast<size_t>(info_.output_components));
    const bool done = fence_.Run([this] {
      JSAMPROW row = row_.data();
      while (info_.output_scanline < info_.output_height) {
        jpeg_read_scanlines(&info_, &row, 1);
        pixels_.Update(row_);
      }
      jpeg_finish_decompress(&info_);
    });
    if (!done) return Fail(ErrorCode::kDamaged, fence_.text());
    return JpegPicture{info_.output_width, info_.output_height, info_.out_color_space, pixels_.Finish()};
  }

 private:
  LibjpegFence fence_;
  jpeg_decompress_struct info_{};
  Bytes row_;
  Sha256 pixels_;
};

}  // namespace

Result<JpegPicture> DecodePicture(ByteSpan jpeg) { return PictureDecoder().Decode(jpeg); }

}  // namespace pcrfs
