// What lies in a catalog's LMDB file: tables, keys, and values as bytes. Shared by writer and reader; nobody else.
//
// Node numbers in keys are big-endian, so that LMDB's byte order is the numbers' order. Every value ends in the CRC-32
// of table, key and value, since LMDB verifies nothing; `Unseal` checks it before a byte is looked at, and the decoders
// check every number besides. Decoders return kDamaged. Pure functions, thread-safe.
//
//   nodes     node                 what NodeInfo says of it
//   names     parent, name         node, kind
//   children  parent, node         kind, name
//   crcs      node, chunk          CRCs [chunk * kMaxInlineCrcs, ...) of an entry that has more than kMaxInlineCrcs
//   shards    position             first node, levels, and the directories it lists: node and attributes
//
// The keys of names and children are not dense, so that only the records beside a key can say that it is not there.
// These tables are linked: a value ends, before its CRC, in a CRC-32 of the next record's key, and the first record has
// a key below all others (zeros) and no content. So no record can get lost between two that are whole.
#ifndef PCRFS_CACHE_CATALOG_SCHEMA_H_
#define PCRFS_CACHE_CATALOG_SCHEMA_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cache/catalog.h"
#include "format/bytes.h"
#include "format/entry.h"
#include "format/error.h"

namespace pcrfs {

// Raised whenever tables, keys or values change: a catalog of another version is built anew.
inline constexpr uint32_t kCatalogVersion = 2;

enum class Table : uint8_t { kNodes, kNames, kChildren, kCrcs, kShards };
inline constexpr std::array<const char*, 5> kTableNames = {"nodes", "names", "children", "crcs", "shards"};

class CatalogKey {
 public:
  explicit CatalogKey(uint64_t node) { Append(node); }
  CatalogKey(uint64_t node, uint64_t second) : CatalogKey(node) { Append(second); }
  // `name` has at most kMaxNameBytes.
  CatalogKey(uint64_t parent, std::string_view name);

  [[nodiscard]] ByteSpan bytes() const { return ByteSpan(bytes_).first(size_); }

 private:
  void Append(uint64_t number);

  std::array<uint8_t, 8 + kMaxNameBytes> bytes_;  // LMDB's limit is 511
  size_t size_ = 0;
};

// The two numbers of a key of kChildren.
struct ChildKey {
  uint64_t parent = 0, node = 0;
};
[[nodiscard]] Result<ChildKey> DecodeChildKey(ByteSpan key);
[[nodiscard]] Result<uint64_t> DecodeNodeKey(ByteSpan key);

// Appends the CRC.
void Seal(Table table, ByteSpan key, ByteWriter& value);
// The value without its CRC.
[[nodiscard]] Result<ByteSpan> Unseal(Table table, ByteSpan key, ByteSpan value);

constexpr bool IsLinked(Table table) { return table == Table::kNames || table == Table::kChildren; }
// The key of a linked table's first record.
[[nodiscard]] CatalogKey FirstKey(Table table);
// What a record's value ends in; `next_key` is empty behind the last.
[[nodiscard]] uint32_t LinkTo(ByteSpan next_key);
// Takes the link off the end of an unsealed value.
[[nodiscard]] Result<void> SplitLink(ByteSpan& value, uint32_t& link);

// `shard` is the one that holds the entry; of a directory, the first that lists it.
void EncodeDirectoryNode(uint64_t parent, uint32_t shard, const Attributes& attributes, ByteWriter& value);
void EncodeEntryNode(uint64_t parent, uint32_t shard, const Entry& entry, ByteWriter& value);
[[nodiscard]] Result<void> DecodeNode(uint64_t node, ByteSpan value, NodeInfo& info);

struct NameRecord {
  uint64_t node = 0;
  NodeKind kind = NodeKind::kDirectory;
};
void EncodeName(const NameRecord& record, ByteWriter& value);
[[nodiscard]] Result<NameRecord> DecodeName(ByteSpan value);

struct ChildRecord {
  NodeKind kind = NodeKind::kDirectory;
  std::string_view name;  // points into the value
};
void EncodeChild(const ChildRecord& record, ByteWriter& value);
[[nodiscard]] Result<ChildRecord> DecodeChild(ByteSpan value);

struct ShardRecord {
  uint64_t first_node = 0;  // the shard's nodes are those from here to the next shard's first
  int levels = 0;
  struct Directory {
    uint64_t node = 0;
    Attributes attributes;  // as this shard lists them
  };
  std::vector<Directory> directories;  // the root, then in the order of ShardIndex::directories
};
void EncodeShard(const ShardRecord& record, ByteWriter& value);
[[nodiscard]] Result<ShardRecord> DecodeShard(ByteSpan value);

}  // namespace pcrfs

#endif  // PCRFS_CACHE_CATALOG_SCHEMA_H_
