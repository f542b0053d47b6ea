// Whole data sets of any structure, names, counts and bytes under right checksums, given to everything that opens one:
// verify, a pack that is to continue, the catalog's builder, and a file system of which everything is asked.
//
// The input is read as the steps to build such a data set, so that mutations change names, counts and order and not
// checksums. Whatever is built, a listing is a tree of names that a kernel can be told, a read gives at most a file's
// bytes, and nothing crashes or goes on for ever; what verify finds no fault in mounts and reads as it was written.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cache/catalog_builder.h"
#include "cache/catalog_head.h"
#include "format/dataset.h"
#include "format/kept_shard.h"
#include "format/packer.h"
#include "format/verifier.h"
#include "fs/file_system.h"
#include "tests/support/hostile_shard.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace pcrfs;
using pcrfs::testing::HostileEntry;
using pcrfs::testing::HostileShard;

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "hostile_dataset: %s\n", what);
  std::abort();
}

// Numbers from the input, and zeros behind its end.
class Steps {
 public:
  explicit Steps(ByteSpan bytes) : in_(bytes) {}

  size_t Below(size_t limit) { return (in_.remaining() > 0 ? in_.U8() : 0) % limit; }
  bool Bit() { return Below(2) != 0; }
  // Two statements wherever there are two numbers, since operands have no order and every compiler must read a seed the
  // same.
  size_t Wide() {
    const size_t high = Below(256);
    return high << 8 | Below(256);
  }
  [[nodiscard]] bool more() const { return in_.remaining() > 0; }

  std::string Name() {
    static const std::vector<std::string> names = {"a",
                                                   "b",
                                                   "c",
                                                   "scan1",
                                                   "current",
                                                   "original",
                                                   "..",
                                                   ".",
                                                   "",
                                                   "a/b",
                                                   {"a\0b", 3},
                                                   "\n",
                                                   "\xFF\xFE",
                                                   std::string(255, 'n'),
                                                   std::string(256, 'n'),
                                                   "/",
                                                   "../../etc",
                                                   "A",
                                                   "scan31",
                                                   "a ",
                                                   "lost+found",
                                                   ".pcrfs"};
    const size_t choice = Below(names.size() + 4);
    if (choice < names.size()) return names[choice];
    std::string raw;
    for (size_t size = 1 + Below(8); size > 0; --size) raw += static_cast<char>(Below(256));
    return raw;
  }

  std::string Path() {
    std::string path = Name();
    for (size_t depth = Below(4); depth > 0; --depth) path += "/" + Name();
    return path;
  }

  Bytes Content() {
    Bytes bytes(Below(8) == 7 ? Wide() * 4 : Below(64));
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7 + bytes.size());
    return bytes;
  }

  // Changes a few bytes, or moves the rest by some.
  void Spoil(Bytes& bytes) {
    if (bytes.empty()) return;
    const auto at = bytes.begin() + static_cast<std::ptrdiff_t>(Wide() % bytes.size());
    switch (Below(4)) {
      case 0:
        *at = static_cast<uint8_t>(Below(256));
        break;
      case 1:
        bytes.insert(at, 1 + Below(4), uint8_t{0x7F});
        break;
      case 2:
        bytes.erase(at, at + std::min<std::ptrdiff_t>(bytes.end() - at, 1 + static_cast<std::ptrdiff_t>(Below(16))));
        break;
      default: {
        const Bytes again(at, at + std::min<std::ptrdiff_t>(bytes.end() - at, 64));
        bytes.insert(at, again.begin(), again.end());
      }
    }
  }

 private:
  ByteReader in_;
};

void AddAncestors(std::vector<std::string>& directories) {
  std::set<std::string> all(directories.begin(), directories.end());
  for (const std::string& path : directories)
    for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1))
      all.insert(path.substr(0, slash));
  directories.assign(all.begin(), all.end());
}

HostileEntry MakeEntry(Steps& steps, bool image, size_t directories) {
  HostileEntry entry;
  entry.directory = steps.Below(directories + 1);
  if (steps.Below(16) == 15) ++entry.directory;
  entry.name = steps.Name();
  entry.attributes = {static_cast<uint32_t>(steps.Wide() & 07777), static_cast<int64_t>(steps.Wide()) - 32768};
  if (!image) {
    entry.parts = {steps.Content()};
    return entry;
  }
  for (int group = 0; group < kShardLevels; ++group) entry.parts.push_back(group < 3 ? steps.Content() : Bytes());
  entry.parts[0].insert(entry.parts[0].begin(), {0xFF, 0xD8});
  entry.kept = steps.Bit();
  if (steps.Bit()) entry.tail = steps.Content();
  return entry;
}

HostileShard MakeShard(Steps& steps, uint64_t number) {
  HostileShard shard;
  shard.number = number;
  for (size_t count = steps.Below(6); count > 0; --count) shard.directories.push_back(steps.Path());
  if (steps.Below(8) != 7) AddAncestors(shard.directories);
  for (size_t count = steps.Below(5); count > 0; --count)
    shard.images.push_back(MakeEntry(steps, true, shard.directories.size()));
  for (size_t count = steps.Below(5); count > 0; --count)
    shard.opaque.push_back(MakeEntry(steps, false, shard.directories.size()));
  return shard;
}

// Folders of this process's own, in memory where there is a place for that.
class Places {
 public:
  Places() : folder_(Chosen()) {
    std::filesystem::create_directories(source());
    testing::WriteFile(source() + "/a", "one\n");
    testing::WriteFile(source() + "/b/c", "two\n");
  }

  [[nodiscard]] std::string dataset() const { return folder_.path() + "/dataset"; }
  [[nodiscard]] std::string cache() const { return folder_.path() + "/cache"; }
  [[nodiscard]] std::string source() const { return folder_.path() + "/source"; }

  void Clear() const {
    for (const std::string& path : {dataset(), cache()}) {
      std::filesystem::remove_all(path);
      std::filesystem::create_directory(path);
      std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    }
  }

 private:
  static testing::TempDir Chosen() {
    if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 0);
    return {};
  }
  testing::TempDir folder_;
};

const Places& ThePlaces() {
  static const Places places;
  return places;
}

// What each path is to show, where everything is legal.
std::map<std::string, const HostileEntry*> ByPath(const std::vector<HostileShard>& shards) {
  std::map<std::string, const HostileEntry*> entries;
  const auto add = [&](const HostileShard& shard, const HostileEntry& entry) {
    const std::string folder = entry.directory == 0 ? "" : shard.directories.at(entry.directory - 1) + "/";
    entries[folder + entry.name] = &entry;
  };
  for (const HostileShard& shard : shards) {
    for (const HostileEntry& entry : shard.images) add(shard, entry);
    for (const HostileEntry& entry : shard.opaque) add(shard, entry);
  }
  return entries;
}

Bytes Shown(const HostileEntry& entry, int level) {
  if (entry.parts.size() == 1) return entry.parts[0];
  Bytes shown;
  for (size_t g = 0; g < static_cast<size_t>(level); ++g)
    shown.insert(shown.end(), entry.parts[g].begin(), entry.parts[g].end());
  shown.insert(shown.end(), {0xFF, 0xD9});
  if (level == kShardLevels) shown.insert(shown.end(), entry.tail.begin(), entry.tail.end());
  return shown;
}

// Asks for everything below one level's root.
class Walk {
 public:
  // `clean`: verify found no fault, so nothing may be refused. `entries` may be null.
  Walk(const FileSystem& files, int level, bool clean, const std::map<std::string, const HostileEntry*>* entries)
      : files_(files), level_(level), clean_(clean), entries_(entries) {}

  void Run() {
    const auto root = files_.Lookup(kMountRoot, "scan" + std::to_string(level_));
    Require(root || !clean_, "the level's root is there");
    if (!root) return;
    Folder("", root->ino, kMountRoot);
    Require(!clean_ || seen_.size() == files_.catalog().totals().nodes, "every node is in its tree");
    if (entries_ != nullptr && clean_) Require(files_seen_ == entries_->size(), "every file is shown");
  }

 private:
  struct Child {
    std::string name;
    Ino ino;
    FileType type;
  };

  void Folder(const std::string& path, Ino ino, Ino above) {
    Require(seen_.insert(ino.number()).second, "no node is shown twice");
    const auto up = files_.Lookup(ino, "..");
    Require(up ? up->ino == above : !clean_, "'..' is the folder above");
    std::vector<Child> children;
    if (!List(ino, children)) return Require(!clean_, "a listing of a clean data set");
    std::set<std::string> names;
    for (const Child& child : children) {
      const bool name_ok = !child.name.empty() && child.name.size() <= 255 && child.name != "." && child.name != ".." &&
                           child.name.find('/') == std::string::npos && child.name.find('\0') == std::string::npos;
      Require(name_ok, "a name that a kernel can be told");
      Require(names.insert(child.name).second, "a name is listed once");
      const auto found = files_.Lookup(ino, child.name);
      Require(found ? found->ino == child.ino && found->type == child.type : !clean_, "a listed name is found");
      const std::string below = path.empty() ? child.name : path + "/" + child.name;
      if (child.type == FileType::kDirectory)
        Folder(below, child.ino, ino);
      else
        File(below, child.ino);
    }
  }

  bool List(Ino ino, std::vector<Child>& children) const {
    const auto listed = files_.ReadDir(ino, 0, [&](const DirEntry& entry) {
      if (entry.offset > 2) children.push_back({std::string(entry.name), entry.ino, entry.type});
      return children.size() < 100'000;
    });
    return listed.has_value();
  }

  void File(const std::string& path, Ino ino) {
    Require(seen_.insert(ino.number()).second, "no node is shown twice");
    ++files_seen_;
    const auto stat = files_.GetAttr(ino);
    Require(stat || !clean_, "attributes of a clean file");
    if (!stat) return;
    Require(stat->size < uint64_t{1} << 60, "a size that can be told");
    Bytes bytes(static_cast<size_t>(std::min<uint64_t>(stat->size, 1 << 20)) + 10);
    const auto read = files_.Read(ino, 0, bytes);
    Require(read || !clean_, "a read of a clean file");
    if (!read) return;
    Require(*read == std::min<uint64_t>(stat->size, bytes.size()), "a read gives what the size says");
    bytes.resize(*read);
    if (entries_ == nullptr || !clean_) return;
    const auto entry = entries_->find(path);
    Require(entry != entries_->end() && bytes == Shown(*entry->second, level_), "the bytes that were written");
  }

  const FileSystem& files_;
  int level_;
  bool clean_;
  const std::map<std::string, const HostileEntry*>* entries_;
  std::set<uint64_t> seen_;
  size_t files_seen_ = 0;
};

// A source that has all that anyone asks for.
class AnySource final : public PackSource {
 public:
  explicit AnySource(const std::vector<std::string>& labels) : labels_(labels) {}
  Result<std::optional<PlannedShard>> NextShard() override { return std::nullopt; }
  Result<std::unique_ptr<SourceFile>> Open(const SourceRecord&) const override {
    return Fail(ErrorCode::kNotFound, "no such file");
  }
  bool IsCurrent(const SourceRecord& item, const Entry& entry) const override { return item.size == entry.source_size; }
  Result<void> CheckThere() const override { return {}; }
  const LabelMap& labels() const override { return labels_; }

 private:
  LabelMap labels_;
};

// A shard that a killed pack left, as the plan would have it.
void TryToKeep(const std::string& dataset, const ShardRow& row, const std::vector<std::string>& labels) {
  const auto file = FileSource::Open(dataset + "/" + row.name, FileSource::Access::kSequential);
  const auto lone = file ? ReadLoneShard(**file, row.name) : PassOn(Result<LoneShard>(tl::unexpected(file.error())));
  if (!lone) return;
  PlannedShard planned;
  planned.number = ParseShardFileName(row.name)->number;
  planned.root = lone->index.directory_attributes.at(0);
  for (size_t i = 0; i < lone->index.directories.size(); ++i)
    planned.directories.push_back({lone->index.directories[i], lone->index.directory_attributes.at(i + 1)});
  for (const Entry& entry : lone->index.entries)
    planned.items.push_back({SourceKind::kFile, EntryPath(lone->index, entry), entry.source_size, entry.attributes});
  const auto found = FindKeptShard(dataset, planned, AnySource(labels));
  const auto kept = found ? *found : std::nullopt;
  if (!kept) return;
  CheckShardContent(
      **file, kept->row, kept->index, LabelMap(labels), nullptr,
      [](const Error&) { Require(false, "a kept shard is whole"); }, [](uint64_t) {});
}

// The plan of a pack of the source, as it lies there while the pack goes on.
class PlanTaker : public PackObserver {
 public:
  explicit PlanTaker(std::string path) : path_(std::move(path)) {}
  void OnProgress(const PackProgress&) override {
    if (plan_.empty() && access(path_.c_str(), F_OK) == 0) plan_ = testing::ReadFile(path_);
  }
  [[nodiscard]] const Bytes& plan() const { return plan_; }

 private:
  std::string path_;
  Bytes plan_;
};

// Continues a killed pack over these shards: it must take none of them for its own unless they are, and end well.
void TryToContinue() {
  const Places& places = ThePlaces();
  static const Bytes plan = [&] {
    const testing::TempDir folder;
    PlanTaker taker(folder / "d/" + std::string(kPackPlanName));
    Require(Pack(places.source(), folder / "d", {.jobs = 1}, taker).has_value(), "packing the source");
    Require(!taker.plan().empty(), "the plan was seen");
    return taker.plan();
  }();
  std::filesystem::remove(places.dataset() + "/" + std::string(kDatasetIndexName));
  testing::WriteFile(places.dataset() + "/" + std::string(kPackPlanName), plan);
  PackObserver quiet;
  const auto packed = Pack(places.source(), places.dataset(), {.jobs = 1}, quiet);
  if (!packed) return;  // shards that are none of this plan's
  Require(packed->opaque_files == 2, "both files are packed");
  const auto verified = Verify(
      places.dataset(), {1, true}, [](const Error&) {}, [](const VerifyProgress&) {});
  Require(verified && verified->faults == 0, "a continued pack is whole");
}

// A catalog of somebody who can also write its head.
void SpoilCatalog(Steps& steps) {
  const std::string folder = std::filesystem::directory_iterator(ThePlaces().cache())->path();
  const std::string path = folder + "/" + std::string(kCatalogFile);
  Bytes bytes = testing::ReadFile(path);
  for (size_t count = 1 + steps.Below(4); count > 0; --count) {
    const size_t at = steps.Wide() << 4;
    bytes[(at | steps.Below(16)) % bytes.size()] ^= static_cast<uint8_t>(1 + steps.Below(255));
  }
  testing::WriteFile(path, bytes);
  auto head = ReadCatalogHead(folder);
  Require(head.has_value(), "the head that was built");
  head->file_crcs = *CatalogFileCrcs(MemorySource("catalog", bytes));
  testing::WriteFile(folder + "/" + std::string(kCatalogHeadFile), EncodeCatalogHead(*head));
}

Result<std::unique_ptr<FileSystem>> Mount() {
  auto dataset = Dataset::Open(ThePlaces().dataset());
  if (!dataset) return PassOn(std::move(dataset));
  auto catalog = OpenOrBuildCatalog(*dataset, ThePlaces().cache(), nullptr);
  if (!catalog) return PassOn(std::move(catalog));
  return FileSystem::Open(*std::move(dataset), *std::move(catalog), {}, [](const Error&, auto) {});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Steps steps(ByteSpan(data, size));
  const Places& places = ThePlaces();
  places.Clear();
  const size_t mode = steps.Below(8), level = 1 + steps.Below(10);

  std::vector<HostileShard> shards;
  for (size_t count = 1 + steps.Below(3); count > 0; --count)
    shards.push_back(MakeShard(steps, shards.size() * (1 + steps.Below(2))));
  const std::vector<std::string> labels = testing::LabelsOf(shards);
  bool as_built = true;
  std::vector<ShardRow> rows;
  for (HostileShard& shard : shards) {
    if (mode == 1 && steps.Bit()) {
      as_built = false;
      shard.change_index = [&](Bytes& index) { steps.Spoil(index); };
    }
    auto made = testing::Assemble(shard, labels);
    if (mode == 2 && steps.Bit()) {
      as_built = false;
      steps.Spoil(made.bytes);
    }
    testing::WriteFile(places.dataset() + "/" + made.row.name, made.bytes);
    rows.push_back(made.row);
  }
  if (mode == 3) std::swap(rows.front(), rows.back());
  Bytes index = testing::AssembleDatasetIndex(rows, labels);
  if (mode == 4) {
    as_built = false;
    Bytes body(index.begin(), index.end() - 6);
    steps.Spoil(body);
    ByteWriter whole;
    whole.Append(body);
    whole.Append(ByteSpan(index).subspan(index.size() - 6, 2));
    whole.U32(Crc32(body));
    index = whole.Release();
  }
  testing::WriteFile(places.dataset() + "/" + std::string(kDatasetIndexName), index);

  const auto verified = Verify(
      places.dataset(), {1, true}, [](const Error& fault) { Require(!fault.message.empty(), "a fault is told"); },
      [](const VerifyProgress&) {});
  const bool clean = verified && verified->faults == 0;
  for (const ShardRow& row : rows) TryToKeep(places.dataset(), row, labels);

  auto files = Mount();
  Require(files || !clean, "what verify finds no fault in can be mounted");
  Require(files || !files.error().message.empty(), "what cannot be mounted says why");
  if (files) {
    const auto entries = ByPath(shards);
    for (const int k : {1, static_cast<int>(level), 10}) Walk(**files, k, clean, as_built ? &entries : nullptr).Run();
  }
  if (files && mode == 5) {
    files->reset();
    SpoilCatalog(steps);
    if (auto spoilt = Mount(); spoilt) Walk(**spoilt, static_cast<int>(level), false, nullptr).Run();
  }
  if (mode == 6) TryToContinue();
  return 0;
}
