#include "format/packer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "format/dataset.h"
#include "format/pack_lock.h"
#include "format/pack_plan.h"
#include "format/source_tree.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_dataset.h"
#include "tests/support/test_jpeg.h"

namespace pcrfs {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using testing::Differences;
using ::testing::ElementsAre;
using testing::FilesIn;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MakePhotoFolder;
using testing::PackForTest;
using ::testing::Pair;
using testing::ReadFile;
using testing::TempDir;
using ::testing::UnorderedElementsAre;
using testing::WriteFile;

class Observer : public PackObserver {
 public:
  void OnProgress(const PackProgress& progress) override {
    EXPECT_GE(progress.files_done, last.files_done);
    EXPECT_GE(progress.bytes_done, last.bytes_done);
    last = progress;
  }
  void OnSkipped(const std::string& path, const Skipped& why) override {
    EXPECT_TRUE(skipped.emplace(path, why.detail).second) << path << " reported twice";
  }
  void OnOpaque(const std::string& path, const Opaque& why) override { opaque.emplace(path, why.reason); }

  PackProgress last;
  std::map<std::string, std::string> skipped;
  std::map<std::string, OpaqueReason> opaque;
};

std::vector<std::string> Names(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : FilesIn(folder)) names.push_back(name);
  return names;
}

// What a data set holds, read back through Dataset: each file as the highest level shows it.
struct Contents {
  struct File {
    Entry entry;
    Bytes bytes;
    size_t shard = 0;
  };
  std::map<std::string, File> files;
  std::map<std::string, Attributes> folders;
  std::vector<std::string> labels;
};

Contents ReadBack(const std::string& path) {
  Contents contents;
  auto dataset = Dataset::Open(path);
  EXPECT_TRUE(dataset) << dataset.error().message;
  if (!dataset) return contents;
  contents.labels = dataset->index().labels;
  for (size_t shard = 0; shard < dataset->shard_count(); ++shard) {
    auto file = dataset->OpenShard(shard);
    EXPECT_TRUE(file) << file.error().message;
    auto index = dataset->ReadShardIndex(shard, **file);
    EXPECT_TRUE(index) << index.error().message;
    contents.folders.emplace("", index->directory_attributes[0]);
    for (size_t i = 0; i < index->directories.size(); ++i)
      contents.folders.emplace(index->directories[i], index->directory_attributes[i + 1]);
    for (const Entry& entry : index->entries) {
      Bytes bytes;
      const auto append = [&](const Extent& extent) {
        const size_t at = bytes.size();
        bytes.resize(at + extent.size);
        EXPECT_TRUE((*file)->ReadAt(extent.offset, MutableByteSpan(bytes).subspan(at)));
      };
      for (const Extent& extent : entry.layout.extents) append(extent);
      if (entry.layout.kind == EntryKind::kImage) {
        bytes.push_back(0xFF), bytes.push_back(0xD9);
        append(entry.layout.tail);
      }
      EXPECT_TRUE(contents.files.emplace(EntryPath(*index, entry), Contents::File{entry, bytes, shard}).second);
    }
  }
  return contents;
}

Attributes AttributesAt(const std::string& path) {
  struct stat status;
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return AttributesOf(status);
}

Error PackFails(const std::string& source, const std::string& dataset, const PackOptions& options = {}) {
  Observer observer;
  auto summary = Pack(source, dataset, options, observer);
  EXPECT_FALSE(summary);
  return summary ? Error{} : summary.error();
}

TEST(Packer, EveryFileAndFolderComesBack) {
  TempDir source, out;
  MakePhotoFolder(source.path());
  const std::vector<std::string> odd = {"new\nline",        "n00/\xff\xfe", "n00/" + std::string(255, 'x'),
                                        "deep/a/b/c/d.txt", "n01.txt",      "scan1/original/current",
                                        "a.jpg/b.jpg",      "zero"};
  for (const std::string& name : odd) WriteFile(source / name, name == "zero" ? "" : "content of " + name);
  ASSERT_EQ(chmod((source / "zero").c_str(), 04701), 0);
  ASSERT_EQ(chmod((source / "empty").c_str(), 01711), 0);

  Observer observer;
  auto summary = Pack(source.path(), out / "data/set", {}, observer);
  ASSERT_TRUE(summary) << summary.error().message;
  EXPECT_THAT(Names(out / "data/set"), ElementsAre("PCR_0.pcr", "PCR_index.pb"));

  const Contents contents = ReadBack(out / "data/set");
  uint64_t files = 0, folders = 0, bytes = 0;
  for (const auto& found : fs::recursive_directory_iterator(source.path())) {
    const std::string path = found.path().string().substr(source.path().size() + 1);
    if (found.is_directory()) {
      ++folders;
      ASSERT_TRUE(contents.folders.contains(path)) << path;
      EXPECT_EQ(contents.folders.at(path), AttributesAt(found.path()));
      continue;
    }
    ++files;
    ASSERT_TRUE(contents.files.contains(path)) << Quoted(path);
    const auto& [entry, shown, shard] = contents.files.at(path);
    const Bytes original = ReadFile(found.path());
    bytes += original.size();
    EXPECT_EQ(entry.attributes, AttributesAt(found.path()));
    EXPECT_EQ(entry.source_size, original.size());
    EXPECT_EQ(entry.source_sha256, Sha256::Of(original));
    if (entry.layout.kind == EntryKind::kOpaque || entry.layout.kept)
      EXPECT_EQ(shown, original) << path;
    else
      EXPECT_EQ(testing::DecodeJpeg(shown).pixels, testing::DecodeJpeg(original).pixels) << path;
  }
  EXPECT_EQ(contents.files.size(), files);
  EXPECT_EQ(contents.folders.size(), folders + 1);
  EXPECT_EQ(contents.folders.at(""), AttributesAt(source.path()));
  EXPECT_THAT(contents.labels, ElementsAre("a.jpg", "deep", "empty", "n00", "n01", "n02", "scan1"));

  EXPECT_EQ(summary->images, 15U);
  EXPECT_EQ(summary->images_kept, 3U);
  EXPECT_EQ(summary->opaque_files, odd.size() + 1);
  EXPECT_EQ(summary->skipped, 0U);
  EXPECT_EQ(summary->directories, folders);
  EXPECT_EQ(summary->shards, 1U);
  EXPECT_EQ(summary->source_bytes, bytes);
  uint64_t stored = 0;
  for (const auto& [name, content] : FilesIn(out / "data/set")) stored += content.size();
  EXPECT_EQ(summary->stored_bytes, stored);
  EXPECT_EQ(observer.last.files_done, files);
  EXPECT_EQ(observer.last.files_total, files);
  EXPECT_EQ(observer.last.bytes_done, bytes);
  EXPECT_EQ(observer.last.bytes_total, bytes);
  EXPECT_THAT(observer.opaque, Contains(Pair("notes.txt", OpaqueReason::kNotJpeg)));
}

TEST(Packer, SameBytesWhateverTheJobsAndHoweverOften) {
  TempDir source, out;
  MakePhotoFolder(source.path());
  const PackOptions one = {.jobs = 1, .record_images = 3};
  PackOptions four = one;
  four.jobs = 4;
  PackForTest(source.path(), out / "1", one);
  PackForTest(source.path(), out / "2", one);
  PackForTest(source.path(), out / "3", four);
  EXPECT_THAT(Names(out / "1"), Contains("PCR_6.pcr"));
  EXPECT_THAT(Differences(FilesIn(out / "1"), FilesIn(out / "2")), IsEmpty());
  EXPECT_THAT(Differences(FilesIn(out / "1"), FilesIn(out / "3")), IsEmpty());
}

TEST(Packer, ShardsAreCutByItemsAndBytesInOrderOfPaths) {
  TempDir source, out;
  for (const char* name : {"a", "b", "c", "d", "e"}) WriteFile(source / name, std::string(1000, *name));
  PackForTest(source.path(), out / "items", {.record_images = 2});
  const Contents items = ReadBack(out / "items");
  for (const auto& [name, shard] : std::map<std::string, size_t>{{"a", 0}, {"b", 0}, {"c", 1}, {"d", 1}, {"e", 2}})
    EXPECT_EQ(items.files.at(name).shard, shard) << name;
  EXPECT_THAT(Names(out / "items"), ElementsAre("PCR_0.files", "PCR_1.files", "PCR_2.files", "PCR_index.pb"));
  PackForTest(source.path(), out / "bytes", {.record_bytes = 3999});
  const Contents bytes = ReadBack(out / "bytes");
  EXPECT_EQ(bytes.files.at("c").shard, 0U);
  EXPECT_EQ(bytes.files.at("d").shard, 1U);
}

TEST(Packer, AShuffledOrderIsItsSeeds) {
  TempDir source, out;
  MakePhotoFolder(source.path());
  for (const uint64_t seed : {uint64_t{0}, uint64_t{7}}) {
    PackOptions options = {.record_images = 4, .order = {true, seed}};
    PackForTest(source.path(), out / std::to_string(seed), options);
    options.jobs = 3;
    PackForTest(source.path(), out / ("again" + std::to_string(seed)), options);
    EXPECT_THAT(Differences(FilesIn(out / std::to_string(seed)), FilesIn(out / ("again" + std::to_string(seed)))),
                IsEmpty());
    EXPECT_THAT(Dataset::Open(out / std::to_string(seed))->index().pack_options,
                HasSubstr("order=shuffle:" + std::to_string(seed) + "\n"));
  }
  EXPECT_FALSE(Differences(FilesIn(out / "0"), FilesIn(out / "7")).empty());
  PackForTest(source.path(), out / "path");
  const Contents by_path = ReadBack(out / "path"), by_seed = ReadBack(out / "7");
  ASSERT_EQ(by_path.files.size(), by_seed.files.size());
  for (const auto& [path, file] : by_path.files) EXPECT_EQ(by_seed.files.at(path).bytes, file.bytes);
  EXPECT_EQ(by_path.folders, by_seed.folders);
  EXPECT_EQ(by_path.labels, by_seed.labels);
}

TEST(Packer, IndexHoldsOptionsLabelsAndHash) {
  TempDir source, out;
  WriteFile(source / "b/1", "1");
  WriteFile(source / "a", "2");
  fs::create_directory(source / "c");
  PackForTest(source.path(), out / "set");
  auto dataset = Dataset::Open(out / "set");
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->index().pack_options, "order=path\nrecord-bytes=67108864\nrecord-images=256\n");
  PackForTest(source.path(), out / "all", {.encode = {.exact = true, .rescan = true}});
  EXPECT_EQ(Dataset::Open(out / "all")->index().pack_options,
            "exact=1\norder=path\nrecord-bytes=67108864\nrecord-images=256\nrescan=1\n");
  EXPECT_THAT(dataset->index().labels, ElementsAre("b", "c"));
  EXPECT_EQ(dataset->index().appends, 0U);
  using std::string_literals::operator""s;
  EXPECT_EQ(dataset->index().paths_hash, ByteReader(Sha256::Of(AsBytes("a\0b/1\0c/\0"s))).U64());
}

TEST(Packer, AnEmptySourceIsADataSetOfOneFolder) {
  TempDir source, out;
  ASSERT_EQ(chmod(source.path().c_str(), 0750), 0);
  const PackSummary summary = PackForTest(source.path(), out / "set");
  EXPECT_THAT(Names(out / "set"), ElementsAre("PCR_0.files", "PCR_index.pb"));
  EXPECT_EQ(summary.shards, 1U);
  EXPECT_EQ(summary.directories, 0U);
  const Contents contents = ReadBack(out / "set");
  EXPECT_THAT(contents.files, IsEmpty());
  EXPECT_THAT(contents.folders, ElementsAre(Pair("", AttributesAt(source.path()))));
}

TEST(Packer, AShardOfOnlyEmptyFoldersIsWritten) {
  TempDir source, out;
  for (const char* name : {"a", "b", "c"}) fs::create_directory(source / name);
  PackForTest(source.path(), out / "set", {.record_images = 2});
  EXPECT_EQ(ReadBack(out / "set").folders.size(), 4U);
  EXPECT_THAT(Names(out / "set"), ElementsAre("PCR_0.files", "PCR_1.files", "PCR_index.pb"));
}

TEST(Packer, WhatCannotBePackedIsReportedAndTheRestIsThere) {
  TempDir source, out;
  WriteFile(source / "file", "1");
  ASSERT_EQ(symlink(".", (source / "loop").c_str()), 0);
  ASSERT_EQ(symlink("nowhere", (source / "dangling").c_str()), 0);
  ASSERT_EQ(mkfifo((source / "fifo").c_str(), 0644), 0);
  Observer observer;
  auto summary = Pack(source.path(), out / "set", {}, observer);
  ASSERT_TRUE(summary) << summary.error().message;
  EXPECT_EQ(summary->skipped, 3U);
  EXPECT_THAT(observer.skipped,
              UnorderedElementsAre(Pair("loop", HasSubstr("leads back")), Pair("dangling", HasSubstr("does not exist")),
                                   Pair("fifo", HasSubstr("FIFO"))));
  EXPECT_EQ(ReadBack(out / "set").files.size(), 1U);
}

TEST(Packer, LinksToTheKernelsOwnFilesAreReportedAndNotPackedAsEmpty) {
  TempDir source, out;
  WriteFile(source / "empty", "");
  ASSERT_EQ(symlink("/proc/version", (source / "version").c_str()), 0);
  ASSERT_EQ(symlink("/proc/self/mem", (source / "mem").c_str()), 0);
  Observer observer;
  auto summary = Pack(source.path(), out / "set", {}, observer);
  ASSERT_TRUE(summary) << summary.error().message;
  EXPECT_THAT(observer.skipped, UnorderedElementsAre(Pair("version", HasSubstr("more than its size says")),
                                                     Pair("mem", HasSubstr("Input/output error"))));
  EXPECT_EQ(ReadBack(out / "set").files.size(), 1U);
}

TEST(Packer, WithTooFewDescriptorsItStopsAndLeavesNoFileOut) {
  PCRFS_NOT_UNDER_ADDRESS_SANITIZER();
  TempDir source, out;
  for (int i = 0; i < 40; ++i)
    WriteFile(source / ("a/b" + std::to_string(i % 4) + "/c/" + std::to_string(i)), std::to_string(i));
  const auto open_now = std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  PackOptions options;
  options.jobs = 8;
  options.record_images = 2;
  int stopped = 0;
  for (int spare = 0; spare < 16; ++spare) {
    const std::string set = out / std::to_string(spare);
    const rlimit few{static_cast<rlim_t>(open_now + spare), before.rlim_max};
    Observer observer;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    const auto summary = Pack(source.path(), set, options, observer);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_TRUE(observer.skipped.empty()) << spare << ": " << observer.skipped.begin()->first;
    stopped += summary ? 0 : 1;
    if (!summary) {
      EXPECT_THAT(summary.error().message, HasSubstr("Too many open files"));
      Observer going_on;
      ASSERT_TRUE(Pack(source.path(), set, options, going_on)) << spare;
    }
    EXPECT_EQ(ReadBack(set).files.size(), 40U) << spare;
  }
  EXPECT_GT(stopped, 2);
}

TEST(Packer, UnreadableFilesAreReportedAndTheirFoldersStay) {
  TempDir source, out;
  WriteFile(source / "a/secret", "1");
  WriteFile(source / "b", "2");
  ASSERT_EQ(chmod((source / "a/secret").c_str(), 0), 0);
  ASSERT_EQ(chmod(source.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod(out.path().c_str(), 0777), 0);
  Observer observer;
  // Root may read everything, so become someone else meanwhile.
  const bool root = geteuid() == 0;
  ASSERT_TRUE(!root || seteuid(65534) == 0);
  auto summary = Pack(source.path(), out / "set", {}, observer);
  ASSERT_TRUE(!root || seteuid(0) == 0);
  ASSERT_TRUE(summary) << summary.error().message;
  EXPECT_THAT(observer.skipped, ElementsAre(Pair("a/secret", HasSubstr("Permission denied"))));
  const Contents contents = ReadBack(out / "set");
  EXPECT_EQ(contents.files.size(), 1U);
  EXPECT_TRUE(contents.folders.contains("a"));
  EXPECT_THAT(contents.labels, ElementsAre("a"));
}

TEST(Packer, LargeFilesThatAreNoJpegsAreStreamedWhole) {
  TempDir source, out;
  std::string large(20 << 20, '\0');
  for (size_t i = 0; i < large.size(); i += 997) large[i] = static_cast<char>(i);
  WriteFile(source / "large", large);
  WriteFile(source / "small", "1");
  Observer observer;
  auto summary = Pack(source.path(), out / "set", {.record_bytes = 1 << 20}, observer);
  ASSERT_TRUE(summary) << summary.error().message;
  EXPECT_EQ(summary->shards, 2U);
  EXPECT_EQ(summary->opaque_files, 2U);
  EXPECT_EQ(summary->source_bytes, large.size() + 1);
  const Contents contents = ReadBack(out / "set");
  EXPECT_TRUE(AsText(contents.files.at("large").bytes) == large);
  EXPECT_EQ(contents.files.at("large").entry.source_sha256, Sha256::Of(AsBytes(large)));
  EXPECT_EQ(contents.files.at("large").entry.attributes, AttributesAt(source / "large"));
}

TEST(Packer, RefusesAFolderThatHoldsSomethingElse) {
  TempDir source, out;
  WriteFile(source / "file", "1");
  WriteFile(out / "set/thesis.tex", "years");
  const Error foreign = PackFails(source.path(), out / "set");
  EXPECT_EQ(foreign.code, ErrorCode::kExists);
  EXPECT_THAT(foreign.message, HasSubstr("'thesis.tex'"));
  EXPECT_THAT(Names(out / "set"), ElementsAre("thesis.tex"));

  PackForTest(source.path(), out / "done");
  const auto before = FilesIn(out / "done");
  const Error done = PackFails(source.path(), out / "done");
  EXPECT_EQ(done.code, ErrorCode::kExists);
  EXPECT_THAT(done.message, HasSubstr("already holds a data set"));
  EXPECT_THAT(Differences(FilesIn(out / "done"), before), IsEmpty());
}

TEST(Packer, RefusesSourceAndDataSetWithinOneAnother) {
  TempDir dir;
  WriteFile(dir / "source/file", "1");
  fs::create_directory(dir / "other");
  ASSERT_EQ(symlink((dir / "source").c_str(), (dir / "link").c_str()), 0);
  for (const auto& [source, dataset] : std::map<std::string, std::string>{
           {dir / "source", dir / "source"},
           {dir / "source/", dir / "source/set"},
           {dir / "other/../source", dir / "link/new/set"},
           {dir / "source/.", dir.path()},
       }) {
    const Error error = PackFails(source, dataset);
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument) << source << ' ' << dataset;
    EXPECT_THAT(error.message, HasSubstr("contain"));
  }
  EXPECT_THAT(Names(dir / "source"), ElementsAre("file"));
  PackForTest(dir / "source", dir / "source2");  // a name that only begins like the other's
}

TEST(Packer, RefusesADataSetInsideAnother) {
  TempDir dir;
  WriteFile(dir / "source/file", "1");
  PackForTest(dir / "source", dir / "set");
  const auto before = FilesIn(dir / "set");
  ASSERT_EQ(symlink((dir / "set").c_str(), (dir / "link").c_str()), 0);
  for (const char* inner : {"set/sub", "set/a/b/c", "link/sub"}) {
    const Error error = PackFails(dir / "source", dir / inner);
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument) << inner;
    EXPECT_THAT(error.message, HasSubstr("inside the data set " + Quoted(dir / "set")));
  }
  EXPECT_EQ(FilesIn(dir / "set"), before);
}

TEST(Packer, AnEmptyPathIsNamedAsSuch) {
  TempDir dir;
  EXPECT_THAT(PackFails(dir.path(), "").message, HasSubstr("data set is empty"));
  EXPECT_THAT(PackFails("", dir / "set").message, HasSubstr("source is empty"));
}

TEST(Packer, LeavesOutItsOwnDataSetWhenALinkLeadsThere) {
  TempDir dir;
  WriteFile(dir / "source/file", "1");
  ASSERT_EQ(symlink(dir.path().c_str(), (dir / "source/up").c_str()), 0);
  Observer observer;
  auto summary = Pack(dir / "source", dir / "set", {}, observer);
  ASSERT_TRUE(summary) << summary.error().message;
  EXPECT_THAT(observer.skipped, UnorderedElementsAre(Pair("up/set", HasSubstr("being written")),
                                                     Pair("up/source", HasSubstr("leads back"))));
}

TEST(Packer, RefusesWhatIsNoSourceAndLeavesNothing) {
  TempDir dir;
  WriteFile(dir / "file", "1");
  EXPECT_EQ(PackFails(dir / "missing", dir / "set").code, ErrorCode::kNotFound);
  EXPECT_EQ(PackFails(dir / "file", dir / "set").code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(fs::exists(dir / "set"));
  fs::create_directory(dir / "source");
  EXPECT_EQ(PackFails(dir / "source", dir / "file").code, ErrorCode::kNotDirectory);
}

TEST(Packer, RefusesOptionsOutOfRange) {
  TempDir source, out;
  for (const PackOptions& options : std::vector<PackOptions>{
           {.record_images = 0}, {.record_images = 65537}, {.record_bytes = 0}, {.record_bytes = (1 << 30) + 1}})
    EXPECT_EQ(PackFails(source.path(), out / "set", options).code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(fs::exists(out / "set"));
  PackForTest(source.path(), out / "most", {.record_images = 65536, .record_bytes = 1 << 30});
}

TEST(Packer, OnePackAtATime) {
  TempDir source, out;
  WriteFile(source / "file", "1");
  fs::create_directory(out / "set");
  {
    auto lock = PackLock::Acquire(out / "set");
    ASSERT_TRUE(lock) << lock.error().message;
    const Error error = PackFails(source.path(), out / "set");
    EXPECT_EQ(error.code, ErrorCode::kBusy);
    EXPECT_THAT(error.message, HasSubstr("another pack"));
    EXPECT_THAT(Names(out / "set"), ElementsAre("pack.lock"));
  }
  PackForTest(source.path(), out / "set");
}

TEST(Packer, AFolderThatIsReplacedMeanwhileBecomesNoDataSetWithShardsMissing) {
  TempDir dir;
  MakePhotoFolder(dir / "source");
  struct Mover : PackObserver {
    explicit Mover(const TempDir& at) : dir(at) {}
    void OnProgress(const PackProgress& progress) override {
      if (progress.files_done < 5 || std::exchange(moved, true)) return;
      fs::rename(dir / "packed", dir / "away");
      fs::create_directory(dir / "packed");
    }
    const TempDir& dir;
    bool moved = false;
  } mover(dir);
  PackOptions options;
  options.jobs = 1;
  options.record_images = 2;
  const auto packed = Pack(dir / "source", dir / "packed", options, mover);
  ASSERT_FALSE(packed);
  EXPECT_EQ(packed.error().code, ErrorCode::kBusy) << packed.error().message;
  EXPECT_FALSE(fs::exists(dir / "packed/PCR_index.pb"));
  EXPECT_FALSE(fs::exists(dir / "away/PCR_index.pb"));
}

TEST(Packer, WhatAKilledPackLeftBeforeItsPlanIsNoObstacle) {
  TempDir source, out;
  WriteFile(source / "file", "1");
  WriteFile(out / "set/pack.lock", "");
  WriteFile(out / "set/pack.plan.tmp", "half a plan");
  PackForTest(source.path(), out / "set");
  EXPECT_THAT(Names(out / "set"), ElementsAre("PCR_0.files", "PCR_index.pb"));
}

}  // namespace
}  // namespace pcrfs
