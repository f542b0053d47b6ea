// Shards made by hand, without packing: an index and the bytes that it describes, with true checksums. Metadata and
// group framing are left out, since nothing that reads through an index looks at them.
#ifndef PCRFS_TESTS_SUPPORT_TEST_SHARD_INDEX_H_
#define PCRFS_TESTS_SUPPORT_TEST_SHARD_INDEX_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "format/bytes.h"
#include "format/entry.h"
#include "format/shard_index.h"

namespace pcrfs::testing {

struct TestShard {
  std::string name;
  ShardIndex index;
  Bytes bytes;
};

// `size` bytes that `seed` decides.
[[nodiscard]] Bytes RandomBytes(uint64_t size, uint64_t seed);

class TestShardBuilder {
 public:
  explicit TestShardBuilder(std::string name, int levels = 10, bool checked = true);

  // `fragments` has one item a level. Directories on the way to a path are added with mode 0755 and mtime 1 s.
  TestShardBuilder& AddImage(const std::string& path, std::vector<Bytes> fragments, Bytes tail = {});
  // Fragments of a few hundred bytes that the path decides, some empty.
  TestShardBuilder& AddImage(const std::string& path);
  TestShardBuilder& AddOpaque(const std::string& path, Bytes content);
  TestShardBuilder& AddDirectory(const std::string& path, Attributes attributes);  // "" = the root
  // Of the entry that was added last.
  TestShardBuilder& WithAttributes(Attributes attributes);

  [[nodiscard]] TestShard Build() const;

 private:
  struct Item {
    std::string path;
    EntryKind kind = EntryKind::kImage;
    std::vector<Bytes> parts;  // fragments or the whole file
    Bytes tail;
    Attributes attributes;
  };
  void AddAncestors(const std::string& path);
  [[nodiscard]] Entry MakeEntry(const Item& item) const;

  std::string name_;
  int levels_;
  bool checked_;
  std::vector<Item> items_;
  std::map<std::string, Attributes> directories_;
};

// What level k of an image shows, from its parts.
[[nodiscard]] Bytes ImageAtLevel(const std::vector<Bytes>& fragments, const Bytes& tail, int level, int highest);

}  // namespace pcrfs::testing

#endif  // PCRFS_TESTS_SUPPORT_TEST_SHARD_INDEX_H_
