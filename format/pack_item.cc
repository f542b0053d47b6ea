#include "format/pack_item.h"

#include <utility>

#include "format/pack_pipeline.h"
#include "format/source_file.h"

namespace pcrfs {
namespace {

FileFacts FactsOf(const std::string& path, const Attributes& attributes) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path, attributes};
  return {path.substr(0, slash), path.substr(slash + 1), attributes};
}

OpaqueItem Streamed(FileFacts facts, const SourceFile& file, OpaqueReason reason, std::string detail) {
  return {std::move(facts), std::nullopt, file.size(), {reason, std::move(detail)}};
}

tl::expected<EncodedImage, Opaque> Encode(ByteSpan source, const EncodeOptions& options, MemoryGate& memory) {
  const auto claim = memory.Enter(EncodeMemory(source));
  return EncodeImage(source, options);
}

Result<PackItem> TryMakePackItem(int source, const SourceRecord& record, const LabelMap& labels,
                                 const EncodeOptions& options, MemoryGate& memory) {
  auto file = SourceFile::Open(source, record.path);
  if (!file) return PassOn(std::move(file));
  FileFacts facts = FactsOf(record.path, (*file)->attributes());
  const uint64_t size = (*file)->size();
  auto like_jpeg = (*file)->StartsLikeJpeg();
  if (!like_jpeg) return PassOn(std::move(like_jpeg));
  if (!*like_jpeg && size >= kStreamedBytes)
    return Streamed(std::move(facts), **file, OpaqueReason::kNotJpeg, "it does not start with SOI");
  if (size >= kMaxImageSourceBytes)
    return Streamed(std::move(facts), **file, OpaqueReason::kTooLarge, "files of 1 GiB and more are not converted");
  auto bytes = (*file)->ReadWhole();
  if (!bytes) return PassOn(std::move(bytes));
  auto encoded = Encode(*bytes, options, memory);
  if (!encoded) return OpaqueItem{std::move(facts), std::move(*bytes), size, std::move(encoded.error())};
  const int32_t label = labels.Of(facts.directory).value_or(-1);  // always there: the plan lists all top-level folders
  return ImageItem{std::move(facts), label, size, Sha256::Of(*bytes), std::move(*encoded)};
}

}  // namespace

PackItem MakePackItem(int source, const SourceRecord& record, const LabelMap& labels, const EncodeOptions& options,
                      MemoryGate& memory) {
  if (record.kind != SourceKind::kFile) return {};
  auto item = TryMakePackItem(source, record, labels, options, memory);
  for (int attempt = 1; attempt < kReadAttempts && !item && item.error().code == ErrorCode::kStale; ++attempt)
    item = TryMakePackItem(source, record, labels, options, memory);
  if (!item) return item.error();
  return std::move(*item);
}

}  // namespace pcrfs
