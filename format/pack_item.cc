#include "format/pack_item.h"

#include <utility>

#include "format/pack_pipeline.h"

namespace pcrfs {
namespace {

FileFacts FactsOf(const std::string& path, const Attributes& attributes) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path, attributes};
  return {path.substr(0, slash), path.substr(slash + 1), attributes};
}

// What is made of a file's bytes, which are at hand.
PackItem ItemOf(FileFacts facts, Bytes bytes, const PackSource& source, const EncodeOptions& options,
                MemoryGate& memory) {
  const uint64_t size = bytes.size();
  auto encoded = EncodeWithin(memory, bytes, options);
  if (!encoded) return OpaqueItem{std::move(facts), std::move(bytes), size, std::move(encoded.error())};
  // Always there: labels are made of all top-level folders.
  const int32_t label = source.labels().Of(facts.directory).value_or(-1);
  return ImageItem{std::move(facts), label, size, Sha256::Of(bytes), std::move(*encoded)};
}

Result<PackItem> ReadPackItem(const PackSource& source, const SourceRecord& item, const EncodeOptions& options,
                              MemoryGate& memory) {
  auto file = source.Open(item);
  if (!file) return PassOn(std::move(file));
  FileFacts facts = FactsOf(item.path, (*file)->attributes());
  const uint64_t size = (*file)->size();
  auto like_jpeg = (*file)->StartsLikeJpeg();
  if (!like_jpeg) return PassOn(std::move(like_jpeg));
  if (auto opaque = OpaqueUnread(size, *like_jpeg); opaque && size >= kStreamedBytes)
    return OpaqueItem{std::move(facts), std::nullopt, size, *std::move(opaque)};
  auto bytes = (*file)->ReadWhole();
  if (!bytes) return PassOn(std::move(bytes));
  return ItemOf(std::move(facts), std::move(*bytes), source, options, memory);
}

}  // namespace

tl::expected<EncodedImage, Opaque> EncodeWithin(MemoryGate& memory, ByteSpan source, const EncodeOptions& options) {
  const auto claim = memory.Enter(EncodeMemory(source));
  return EncodeImage(source, options);
}

std::optional<Opaque> OpaqueUnread(uint64_t size, bool like_jpeg) {
  if (!like_jpeg) return Opaque{OpaqueReason::kNotJpeg, "the file does not start with SOI (FF D8)"};
  if (size >= kMaxImageSourceBytes) return Opaque{OpaqueReason::kTooLarge, "files of 1 GiB and more are not converted"};
  return std::nullopt;
}

Opaque NoRoomInShard() { return {OpaqueReason::kTooLarge, "its shard's scan groups would pass 2 GiB"}; }

Skipped WhySkipped(Error error) {
  const auto reason = [&] {
    switch (error.code) {
      case ErrorCode::kNotFound:
      case ErrorCode::kNotDirectory:
      case ErrorCode::kIsDirectory:
        return SkipReason::kVanished;
      case ErrorCode::kStale:
        return SkipReason::kChanged;
      case ErrorCode::kInvalidArgument:  // FileSource takes regular files only
        return SkipReason::kSpecialFile;
      case ErrorCode::kLimit:
        return SkipReason::kOverLimits;
      default:
        return SkipReason::kUnreadable;
    }
  };
  return {reason(), std::move(error.message)};
}

PackItem MakePackItem(const PackSource& source, const SourceRecord& item, HeldContent held,
                      const EncodeOptions& options, MemoryGate& memory) {
  if (item.kind != SourceKind::kFile) return {};
  if (held && !*held) return std::move(held->error());
  if (held) return ItemOf(FactsOf(item.path, item.attributes), std::move(**held), source, options, memory);
  auto made = ReadPackItem(source, item, options, memory);
  for (int attempt = 1; attempt < kReadAttempts && !made && made.error().code == ErrorCode::kStale; ++attempt)
    made = ReadPackItem(source, item, options, memory);
  if (!made) return made.error();
  return std::move(*made);
}

}  // namespace pcrfs
