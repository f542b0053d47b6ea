#include "cache/catalog_schema.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "format/checksum.h"

namespace pcrfs {
namespace {

constexpr size_t kCrcBytes = 4;

constexpr uint8_t kKept = 1, kChecked = 2, kHasTail = 4, kHasRestore = 8;

// No shard is larger (FORMAT.md: 2^31 before C, files of 2^42 bytes behind it), so sums of sizes cannot overflow.
constexpr uint64_t kMaxOffset = uint64_t{1} << 56;

constexpr uint64_t kMaxLevels = 65535;

tl::unexpected<Error> Malformed(const char* what) {
  return Fail(ErrorCode::kDamaged, std::string("a record of the catalog is malformed: ") + what);
}

uint32_t RecordCrc(Table table, ByteSpan key, ByteSpan value) {
  const uint8_t tag = static_cast<uint8_t>(table);
  return Crc32(value, Crc32(key, Crc32({&tag, 1})));
}

// Small differences of either sign become small numbers.
uint64_t ZigZag(uint64_t difference) { return difference << 1 ^ (difference >> 63 != 0 ? ~uint64_t{0} : 0); }
uint64_t UnZigZag(uint64_t number) { return number >> 1 ^ (~(number & 1) + 1); }

// `end` is where the extent before ended: the next one lies some of its group's fragments behind.
void EncodeExtent(const Extent& extent, uint64_t& end, ByteWriter& value) {
  value.Varint(extent.size);
  value.Varint(ZigZag(extent.offset - end));
  end = extent.offset + extent.size;
}

struct ExtentDecoder {
  ByteReader& reader;
  bool checked;
  uint64_t end = 0;
  uint64_t total = 0;
  uint64_t crc_count = 0;
  bool ok = true;

  Extent Next() {
    Extent extent;
    extent.size = reader.Varint();
    extent.offset = end + UnZigZag(reader.Varint());
    ok = ok && extent.offset <= kMaxOffset && extent.size <= kMaxOffset - extent.offset;
    end = extent.offset + extent.size;
    total += extent.size;
    ok = ok && total <= kMaxOffset;
    if (checked) {
      extent.first_crc = static_cast<uint32_t>(crc_count);
      crc_count += BlockCount(extent.size);
      ok = ok && crc_count <= UINT32_MAX;
    }
    return extent;
  }
};

void EncodeHead(NodeKind kind, uint64_t parent, uint32_t shard, const Attributes& attributes, ByteWriter& value) {
  value.U8(static_cast<uint8_t>(kind));
  value.Varint(parent);
  value.Varint(shard);
  value.Varint(attributes.mode);
  value.U64(static_cast<uint64_t>(attributes.mtime_ns));
}

Result<void> DecodeEntry(ByteReader& reader, NodeInfo& info) {
  EntryLayout& layout = info.layout;
  info.source_size = reader.Varint();
  const ByteSpan digest = reader.Take(info.source_sha256.size());
  std::copy(digest.begin(), digest.end(), info.source_sha256.begin());
  const uint8_t flags = reader.U8();
  const uint64_t count = reader.Varint();
  if (!reader.ok() || flags > 15 || count == 0 || count > reader.remaining() / 2)
    return Malformed("extents of an entry");
  layout.kind = info.kind == NodeKind::kImage ? EntryKind::kImage : EntryKind::kOpaque;
  if (layout.kind == EntryKind::kOpaque && count != 1) return Malformed("extents of an opaque entry");
  layout.kept = (flags & kKept) != 0;
  layout.checked = (flags & kChecked) != 0;
  ExtentDecoder extents{reader, layout.checked};
  for (uint64_t i = 0; i < count; ++i) layout.extents.push_back(extents.Next());
  if (flags & kHasTail) layout.tail = extents.Next();
  if (flags & kHasRestore) layout.restore = extents.Next();
  info.crc_count = extents.crc_count;
  if (!reader.ok() || !extents.ok) return Malformed("extents of an entry");
  if (info.crc_count <= kMaxInlineCrcs)
    for (uint64_t i = 0; i < info.crc_count; ++i) layout.crcs.push_back(reader.U32());
  return {};
}

void Reset(NodeInfo& info) {
  EntryLayout layout = std::move(info.layout);  // for its memory
  layout.extents.clear();
  layout.crcs.clear();
  layout.tail = layout.restore = Extent{};
  layout.kept = false;
  layout.checked = true;
  info = NodeInfo{};
  info.layout = std::move(layout);
}

Result<NodeKind> KindOf(uint8_t number) {
  if (number > static_cast<uint8_t>(NodeKind::kOpaque)) return Malformed("unknown kind of node");
  return static_cast<NodeKind>(number);
}

}  // namespace

CatalogKey::CatalogKey(uint64_t parent, std::string_view name) : CatalogKey(parent) {
  const size_t size = std::min(name.size(), kMaxNameBytes);
  std::copy_n(name.begin(), size, bytes_.begin() + static_cast<std::ptrdiff_t>(size_));
  size_ += size;
}

void CatalogKey::Append(uint64_t number) {
  for (int shift = 56; shift >= 0; shift -= 8) bytes_[size_++] = static_cast<uint8_t>(number >> shift);
}

Result<uint64_t> DecodeNodeKey(ByteSpan key) {
  if (key.size() != 8) return Malformed("length of a key");
  uint64_t number = 0;
  for (const uint8_t byte : key) number = number << 8 | byte;
  return number;
}

Result<ChildKey> DecodeChildKey(ByteSpan key) {
  if (key.size() != 16) return Malformed("length of a key");
  return ChildKey{*DecodeNodeKey(key.first(8)), *DecodeNodeKey(key.last(8))};
}

void Seal(Table table, ByteSpan key, ByteWriter& value) { value.U32(RecordCrc(table, key, value.bytes())); }

Result<ByteSpan> Unseal(Table table, ByteSpan key, ByteSpan value) {
  if (value.size() < kCrcBytes) return Malformed("no room for its checksum");
  const ByteSpan payload = value.first(value.size() - kCrcBytes);
  const uint32_t expected = ByteReader(value.last(kCrcBytes)).U32();
  const uint32_t found = RecordCrc(table, key, payload);
  if (found == expected) return payload;
  char crcs[64];
  std::snprintf(crcs, sizeof crcs, "CRC-32 expected %08x, found %08x", expected, found);
  return Fail(ErrorCode::kDamaged, "a record of the catalog is damaged (table " +
                                       std::string(kTableNames[static_cast<size_t>(table)]) + ", key " + Hex(key) +
                                       "): " + crcs);
}

CatalogKey FirstKey(Table table) { return table == Table::kNames ? CatalogKey(0) : CatalogKey(0, uint64_t{0}); }

uint32_t LinkTo(ByteSpan next_key) { return Crc32(next_key); }

Result<void> SplitLink(ByteSpan& value, uint32_t& link) {
  if (value.size() < kCrcBytes) return Malformed("no room for its link");
  link = ByteReader(value.last(kCrcBytes)).U32();
  value = value.first(value.size() - kCrcBytes);
  return {};
}

void EncodeDirectoryNode(uint64_t parent, uint32_t shard, const Attributes& attributes, ByteWriter& value) {
  EncodeHead(NodeKind::kDirectory, parent, shard, attributes, value);
}

void EncodeEntryNode(uint64_t parent, uint32_t shard, const Entry& entry, ByteWriter& value) {
  const EntryLayout& layout = entry.layout;
  EncodeHead(NodeKindOf(layout.kind), parent, shard, entry.attributes, value);
  value.Varint(entry.source_size);
  value.Append(ByteSpan(entry.source_sha256));
  value.U8(static_cast<uint8_t>((layout.kept ? kKept : 0) | (layout.checked ? kChecked : 0) |
                                (layout.tail.size > 0 ? kHasTail : 0) | (layout.restore.size > 0 ? kHasRestore : 0)));
  value.Varint(layout.extents.size());
  uint64_t end = 0;
  for (const Extent& extent : layout.extents) EncodeExtent(extent, end, value);
  if (layout.tail.size > 0) EncodeExtent(layout.tail, end, value);
  if (layout.restore.size > 0) EncodeExtent(layout.restore, end, value);
  if (layout.crcs.size() <= kMaxInlineCrcs)
    for (const uint32_t crc : layout.crcs) value.U32(crc);
}

Result<void> DecodeNode(uint64_t node, ByteSpan value, NodeInfo& info) {
  Reset(info);
  ByteReader reader(value);
  info.node = node;
  const auto kind = KindOf(reader.U8());
  if (!kind) return tl::unexpected<Error>(kind.error());
  info.kind = *kind;
  info.parent = reader.Varint();
  const uint64_t shard = reader.Varint();
  const uint64_t mode = reader.Varint();
  info.attributes.mtime_ns = static_cast<int64_t>(reader.U64());
  // A parent is numbered before its children, so a walk up to the root ends.
  const bool parent_ok = node == kRootNode ? info.parent == kRootNode : info.parent >= kRootNode && info.parent < node;
  if (!reader.ok() || !parent_ok || shard > UINT32_MAX || mode > 07777) return Malformed("head of a node");
  info.shard = static_cast<uint32_t>(shard);
  info.attributes.mode = static_cast<uint32_t>(mode);
  if (info.kind != NodeKind::kDirectory)
    if (auto entry = DecodeEntry(reader, info); !entry) return entry;
  if (!reader.ok() || reader.remaining() != 0) return Malformed("length of a node");
  return {};
}

void EncodeName(const NameRecord& record, ByteWriter& value) {
  value.U8(static_cast<uint8_t>(record.kind));
  value.Varint(record.node);
}

Result<NameRecord> DecodeName(ByteSpan value) {
  ByteReader reader(value);
  const auto kind = KindOf(reader.U8());
  if (!kind) return tl::unexpected<Error>(kind.error());
  const NameRecord record{reader.Varint(), *kind};
  if (!reader.ok() || reader.remaining() != 0 || record.node <= kRootNode) return Malformed("node of a name");
  return record;
}

void EncodeChild(const ChildRecord& record, ByteWriter& value) {
  value.U8(static_cast<uint8_t>(record.kind));
  value.Append(record.name);
}

Result<ChildRecord> DecodeChild(ByteSpan value) {
  ByteReader reader(value);
  const auto kind = KindOf(reader.U8());
  if (!kind) return tl::unexpected<Error>(kind.error());
  const std::string_view name = AsText(reader.Take(reader.remaining()));
  if (!reader.ok() || !IsValidName(name)) return Malformed("name of a node");
  return ChildRecord{*kind, name};
}

void EncodeShard(const ShardRecord& record, ByteWriter& value) {
  value.Varint(record.first_node);
  value.Varint(static_cast<uint64_t>(record.levels));
  value.Varint(record.directories.size());
  for (const ShardRecord::Directory& directory : record.directories) {
    value.Varint(directory.node);
    value.Varint(directory.attributes.mode);
    value.U64(static_cast<uint64_t>(directory.attributes.mtime_ns));
  }
}

Result<ShardRecord> DecodeShard(ByteSpan value) {
  ByteReader reader(value);
  ShardRecord record;
  record.first_node = reader.Varint();
  const uint64_t levels = reader.Varint();
  const uint64_t count = reader.Varint();
  constexpr size_t kMinDirectoryBytes = 10;
  if (!reader.ok() || levels > kMaxLevels || count == 0 || count > reader.remaining() / kMinDirectoryBytes)
    return Malformed("head of a shard");
  record.levels = static_cast<int>(levels);
  record.directories.resize(static_cast<size_t>(count));
  for (ShardRecord::Directory& directory : record.directories) {
    directory.node = reader.Varint();
    const uint64_t mode = reader.Varint();
    directory.attributes = {static_cast<uint32_t>(mode & 07777), static_cast<int64_t>(reader.U64())};
    if (mode > 07777) return Malformed("mode of a directory");
  }
  if (!reader.ok() || reader.remaining() != 0) return Malformed("length of a shard");
  return record;
}

}  // namespace pcrfs
