#include "format/jpeg_parser.h"

#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "format/file.h"

namespace pcrfs {
namespace {

using namespace jpeg_marker;  // NOLINT(google-build-using-namespace): our own constants, in this file only

bool IsRst(uint8_t marker) { return marker >= kRst0 && marker <= kRst0 + 7; }

bool StandsAlone(uint8_t marker) { return IsRst(marker) || marker == kTem; }

bool IsReadableSof(uint8_t marker) {
  return marker == kSof0 || marker == kSof1 || marker == kSof2 || marker == kSof9 || marker == kSof10;
}

// Segments that have a length and that need no reading here.
bool IsPlainSegment(uint8_t marker) {
  return marker == kDht || marker == kDac || (marker >= kDqt && marker <= kDri) ||
         (marker >= kApp0 && marker <= kApp0 + 15) || marker == kCom;
}

bool IsOtherProcess(uint8_t marker) {
  return (marker >= 0xC0 && marker <= 0xCF) ||  // the SOFs that are not readable, and JPG
         marker == 0xDE || marker == 0xDF ||    // DHP, EXP: hierarchical
         (marker >= 0xF0 && marker <= 0xFD);    // JPGn; F7 is the frame of JPEG-LS
}

std::string MarkerName(uint8_t marker) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  return {'F', 'F', ' ', kHex[marker >> 4], kHex[marker & 15]};
}

class Parser {
 public:
  explicit Parser(ByteSpan bytes) : bytes_(bytes) { component_of_id_.fill(kNoComponent); }

  Result<JpegStructure> Parse() {
    if (Result<void> read = ReadUntil([] { return false; }); !read) return PassOn(std::move(read));
    if (structure_.scans.empty()) return Damaged(position_ - 2, "EOI comes before any scan");
    structure_.eoi = position_ - 2;
    return std::move(structure_);
  }

  Result<JpegFrame> ParseFrame() {
    const auto found = [this] { return structure_.frame.marker != 0; };
    if (Result<void> read = ReadUntil(found); !read) return PassOn(std::move(read));
    if (!found()) return Damaged(position_ - 2, "EOI comes before any frame header");
    return std::move(structure_.frame);
  }

 private:
  // Segment by segment, up to EOI or until `done` says so.
  template <typename Done>
  Result<void> ReadUntil(const Done& done) {
    if (!StartsWithSoi(bytes_)) return Fail(ErrorCode::kInvalidArgument, "the file does not start with SOI (FF D8)");
    position_ = 2;
    while (!done()) {
      Result<uint8_t> marker = NextMarker();
      if (!marker) return PassOn(std::move(marker));
      if (*marker == kEoi) break;
      if (Result<void> step = ReadSegment(*marker); !step) return step;
    }
    return {};
  }

  static tl::unexpected<Error> Damaged(size_t offset, const std::string& what) {
    return Fail(ErrorCode::kDamaged, what + " (offset " + std::to_string(offset) + ")");
  }

  // Steps over fill and one marker; the marker's FF then lies at position_ - 2.
  Result<uint8_t> NextMarker() {
    if (position_ < bytes_.size() && bytes_[position_] != 0xFF)
      return Damaged(position_, "a marker was expected, found other bytes");
    while (position_ < bytes_.size() && bytes_[position_] == 0xFF) ++position_;
    if (position_ >= bytes_.size()) return Damaged(bytes_.size(), "the file ends before EOI");
    const uint8_t marker = bytes_[position_++];
    if (marker == 0) return Damaged(position_ - 2, "a marker was expected, found FF 00");
    return marker;
  }

  Result<void> ReadSegment(uint8_t marker) {
    const size_t offset = position_ - 2;
    if (structure_.segments.size() >= kMaxJpegSegments)
      return Fail(ErrorCode::kLimit, "more than " + std::to_string(kMaxJpegSegments) + " marker segments");
    if (StandsAlone(marker)) {
      structure_.segments.push_back({marker, offset, 2});
      return {};
    }
    const bool known = IsReadableSof(marker) || IsPlainSegment(marker) || marker == kSos;
    if (!known && IsOtherProcess(marker))
      return Fail(ErrorCode::kUnsupported, "marker " + MarkerName(marker) + " at offset " + std::to_string(offset) +
                                               ": a process not supported");
    if (!known) return Damaged(offset, "marker " + MarkerName(marker) + " has no place here");

    Result<ByteSpan> content = TakeContent();
    if (!content) return PassOn(std::move(content));
    structure_.segments.push_back({marker, offset, static_cast<uint32_t>(content->size() + 4)});
    if (IsReadableSof(marker)) return ReadFrame(marker, offset, *content);
    if (marker == kSos) return ReadScan(offset, *content);
    return {};
  }

  // The bytes that a segment's length field counts, without that field.
  Result<ByteSpan> TakeContent() {
    if (bytes_.size() - position_ < 2) return Damaged(bytes_.size(), "the file ends inside a segment's length");
    const size_t length = static_cast<size_t>(bytes_[position_] << 8 | bytes_[position_ + 1]);
    if (length < 2)
      return Damaged(position_, "a segment's length is " + std::to_string(length) + ", at least 2 expected");
    if (length > bytes_.size() - position_)
      return Damaged(position_, "a segment of " + std::to_string(length) + " bytes, the file has " +
                                    std::to_string(bytes_.size() - position_) + " left");
    const ByteSpan content = bytes_.subspan(position_ + 2, length - 2);
    position_ += length;
    return content;
  }

  // T.81 B.2.2
  Result<void> ReadFrame(uint8_t marker, size_t offset, ByteSpan content) {
    JpegFrame& frame = structure_.frame;
    if (frame.marker != 0) return Damaged(offset, "a second frame header");
    if (content.size() < 6 || content[5] == 0 || content.size() != 6 + size_t{3} * content[5])
      return Damaged(offset, "the frame header's length does not fit its number of components");
    frame.marker = marker;
    frame.precision = content[0];
    frame.height = static_cast<uint16_t>(content[1] << 8 | content[2]);
    frame.width = static_cast<uint16_t>(content[3] << 8 | content[4]);
    if (frame.width == 0) return Damaged(offset, "the frame is 0 samples wide");
    for (ByteSpan rest = content.subspan(6); !rest.empty(); rest = rest.subspan(3)) {
      const FrameComponent component{rest[0], static_cast<uint8_t>(rest[1] >> 4), static_cast<uint8_t>(rest[1] & 15),
                                     rest[2]};
      if (component.h < 1 || component.h > 4 || component.v < 1 || component.v > 4)
        return Damaged(offset, "a sampling factor outside 1..4");
      if (component_of_id_[component.id] == kNoComponent)
        component_of_id_[component.id] = static_cast<uint8_t>(frame.components.size());
      frame.components.push_back(component);
    }
    return {};
  }

  // T.81 B.2.3
  Result<void> ReadScan(size_t offset, ByteSpan content) {
    if (structure_.frame.marker == 0) return Damaged(offset, "a scan comes before the frame header");
    if (content.empty() || content[0] < 1 || content[0] > 4 || content.size() != 4 + size_t{2} * content[0])
      return Damaged(offset, "the scan header's length does not fit its number of components");
    ScanHeader header;
    header.component_count = content[0];
    for (size_t i = 0; i < header.component_count; ++i) {
      const uint8_t id = content[1 + 2 * i];
      if (component_of_id_[id] == kNoComponent)
        return Damaged(offset, "the scan names component " + std::to_string(id) + ", the frame has none such");
      header.components[i] = component_of_id_[id];
    }
    const ByteSpan last = content.last(3);
    header.Ss = last[0];
    header.Se = last[1];
    header.Ah = last[2] >> 4;
    header.Al = last[2] & 15;
    if (header.Ss > header.Se || header.Se > 63 || header.Ah > 13 || header.Al > 13)
      return Damaged(offset, "the scan header's Ss, Se, Ah, Al are out of range");

    const size_t begin = structure_.scans.empty() ? 0 : structure_.scans.back().end;
    const size_t entropy = position_;
    if (!SkipEntropyData()) return Damaged(bytes_.size(), "the file ends inside a scan");
    structure_.scans.push_back({header, begin, entropy, position_});
    return {};
  }

  // Moves to the FF of the first marker that is neither stuffing (FF 00) nor RSTn.
  bool SkipEntropyData() {
    for (;;) {
      const void* found = std::memchr(bytes_.data() + position_, 0xFF, bytes_.size() - position_);
      if (found == nullptr) return false;
      position_ = static_cast<size_t>(static_cast<const uint8_t*>(found) - bytes_.data());
      if (bytes_.size() - position_ < 2) return false;
      const uint8_t next = bytes_[position_ + 1];
      if (next == 0xFF) {  // fill, to the last FF of it
        while (position_ + 1 < bytes_.size() && bytes_[position_ + 1] == 0xFF) ++position_;
      } else if (next == 0 || IsRst(next)) {
        position_ += 2;
      } else {
        return true;
      }
    }
  }

  static constexpr uint8_t kNoComponent = 255;  // a frame has at most 255, so positions end at 254

  ByteSpan bytes_;
  size_t position_ = 0;
  std::array<uint8_t, 256> component_of_id_{};
  JpegStructure structure_;
};

}  // namespace

bool StartsWithSoi(ByteSpan bytes) { return bytes.size() >= 2 && bytes[0] == 0xFF && bytes[1] == kSoi; }

Result<bool> StartsWithSoi(const ByteSource& source, uint64_t offset, uint64_t size) {
  std::array<uint8_t, 2> start{};
  if (size < start.size()) return false;
  if (auto read = source.ReadAt(offset, start); !read) return PassOn(std::move(read));
  return StartsWithSoi(start);
}

Result<JpegStructure> ParseJpeg(ByteSpan bytes) { return Parser(bytes).Parse(); }

Result<JpegFrame> ParseJpegFrame(ByteSpan bytes) { return Parser(bytes).ParseFrame(); }

}  // namespace pcrfs
