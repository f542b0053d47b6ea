// The catalog's records on any bytes, the first of which says which record: they must not crash, and what they return
// must be such that later code can use it unseen.
#include <cstdlib>

#include "cache/catalog_schema.h"

namespace {

using namespace pcrfs;

void Require(bool condition) {
  if (!condition) std::abort();
}

void CheckNode(ByteSpan value) {
  NodeInfo info;
  if (!DecodeNode(8, value, info)) return;
  Require(info.parent >= 1 && info.parent < 8 && info.attributes.mode <= 07777);
  if (info.kind == NodeKind::kDirectory) return;
  const EntryLayout& layout = info.layout;
  Require(!layout.extents.empty());
  uint64_t crcs = 0;
  const auto check = [&](const Extent& extent) {
    Require(extent.offset + extent.size >= extent.offset);
    if (layout.checked && extent.size > 0) Require(extent.first_crc == crcs);
    crcs += layout.checked ? BlockCount(extent.size) : 0;
  };
  for (const Extent& extent : layout.extents) check(extent);
  check(layout.tail);
  check(layout.restore);
  Require(info.crc_count == crcs);
  Require(layout.crcs.size() == (crcs <= kMaxInlineCrcs ? crcs : 0));
  for (int level = 1; level <= Level::kMaximum; ++level)
    Require(SizeAtLevel(layout, *Level::FromNumber(level), 10) < uint64_t{1} << 60);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const ByteSpan value = ByteSpan(data, size).subspan(1);
  switch (data[0] % 5) {
    case 0:
      CheckNode(value);
      break;
    case 1:
      if (const auto name = DecodeName(value)) Require(name->node > kRootNode);
      break;
    case 2:
      if (const auto child = DecodeChild(value)) Require(IsValidName(child->name));
      break;
    case 3:
      if (const auto shard = DecodeShard(value)) Require(!shard->directories.empty());
      break;
    default:
      (void)DecodeChildKey(value);
      (void)Unseal(Table::kNodes, CatalogKey(8).bytes(), value);
  }
  return 0;
}
