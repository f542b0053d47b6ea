#include "format/gzip_stream.h"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <utility>

namespace pcrfs {
namespace {

constexpr size_t kBufferBytes = 256 << 10;
constexpr int kGzipOnly = 15 + 16;  // the largest window, and gzip's header and checksum

}  // namespace

struct GzipStream::Inflater {
  Inflater() {
    if (inflateInit2(&state, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&state); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream state{};
};

GzipStream::GzipStream(ByteStream& stream, std::string name)
    : stream_(stream), name_(std::move(name)), inflater_(std::make_unique<Inflater>()) {}
GzipStream::~GzipStream() = default;

Result<size_t> GzipStream::Read(MutableByteSpan out) {
  z_stream& state = inflater_->state;
  size_t done = 0;
  while (done < out.size() && !at_end_) {
    if (!in_member_) {
      auto starts = StartsMember();
      if (!starts) return PassOn(std::move(starts));
      at_end_ = !*starts;
      if (at_end_) break;
      in_member_ = true;
      inflateReset(&state);
    }
    if (position_ == buffer_.size()) {
      auto filled = Fill();
      if (!filled) return PassOn(std::move(filled));
      if (!*filled) return Damaged("it is cut off");
    }
    const size_t room = std::min<size_t>(out.size() - done, size_t{1} << 30);
    const size_t left = buffer_.size() - position_;
    state.next_in = buffer_.data() + position_;
    state.avail_in = static_cast<uInt>(left);
    state.next_out = out.data() + done;
    state.avail_out = static_cast<uInt>(room);
    const int result = inflate(&state, Z_NO_FLUSH);
    position_ += left - state.avail_in;
    done += room - state.avail_out;
    if (result == Z_STREAM_END)
      in_member_ = false;
    else if (result == Z_MEM_ERROR)
      throw std::bad_alloc();
    else if (result != Z_OK && result != Z_BUF_ERROR)
      return Damaged(state.msg != nullptr ? state.msg : "its gzip data are not well-formed");
  }
  return done;
}

// Whether another member begins here.
Result<bool> GzipStream::StartsMember() {
  if (buffer_.size() - position_ < 2) {
    auto filled = Fill();
    if (!filled) return filled;
  }
  return buffer_.size() - position_ >= 2 && buffer_[position_] == 0x1F && buffer_[position_ + 1] == 0x8B;
}

// Reads on behind what is left in the buffer; false when nothing came.
Result<bool> GzipStream::Fill() {
  taken_ += position_;
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(position_));
  position_ = 0;
  const size_t left = buffer_.size();
  buffer_.resize(left + kBufferBytes);
  auto got = stream_.Read(MutableByteSpan(buffer_).subspan(left));
  buffer_.resize(left + (got ? *got : 0));
  if (!got) return PassOn(std::move(got));
  return *got > 0;
}

tl::unexpected<Error> GzipStream::Damaged(const std::string& what) const {
  return Fail(ErrorCode::kDamaged,
              Quoted(name_) + " is damaged, at about its byte " + std::to_string(taken_ + position_) + ": " + what);
}

}  // namespace pcrfs
