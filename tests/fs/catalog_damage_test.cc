// A catalog that goes bad on disk, before a mount opens it or under one: what is shown is right or an error, never
// another file's bytes, never a file less; and the next mount builds it anew.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "cache/catalog_builder.h"
#include "cache/catalog_head.h"
#include "fs/file_system.h"
#include "tests/support/sample_dataset.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temp_dir.h"

namespace pcrfs {
namespace {

using testing::ReadFile;
using testing::SampleFile;
using testing::TempDir;
using testing::WriteFile;

// What was asked for and came out right, and what was refused as damage; anything else fails the test.
struct Tally {
  int right = 0, refused = 0;
};

class CatalogDamageTest : public ::testing::Test {
 protected:
  CatalogDamageTest() : sample_(testing::WriteSampleDataset(data_.path())) {
    for (const ShardDirectory& directory : sample_.directories)
      children_[Parent(directory.path)].insert(directory.path);
    for (const SampleFile& file : sample_.files) children_[Parent(file.path)].insert(file.path);
  }

  static std::string Parent(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "" : path.substr(0, slash);
  }

  // As a mount does; counts the shards that had to be read.
  std::unique_ptr<FileSystem> Mount() {
    reads_ = 0;
    auto dataset = Dataset::Open(data_.path());
    auto catalog = OpenOrBuildCatalog(*dataset, cache_.path(), [this](const CatalogProgress&) { ++reads_; });
    EXPECT_TRUE(catalog) << catalog.error().message;
    if (!catalog) return nullptr;
    return *FileSystem::Open(*std::move(dataset), *std::move(catalog), {}, [](const Error&, auto) {});
  }

  std::string Path(std::string_view name) const {
    return std::filesystem::directory_iterator(cache_.path())->path() / name;
  }

  // The value, or nothing when it was refused.
  template <typename T>
  static std::optional<T> Take(Result<T> result, Tally& tally, const std::string& what) {
    if (result) return std::move(*result);
    EXPECT_EQ(result.error().code, ErrorCode::kDamaged) << what << ": " << result.error().message;
    ++tally.refused;
    return std::nullopt;
  }

  void LookAtFile(const FileSystem& files, const SampleFile& file, Ino ino, int level, Tally& tally) const {
    const Bytes& expected = file.levels[static_cast<size_t>(level - 1)];
    Bytes bytes(expected.size() + 10);
    const auto read = Take(files.Read(ino, 0, bytes), tally, file.path);
    if (!read) return;
    bytes.resize(*read);
    EXPECT_TRUE(bytes == expected) << file.path << " at level " << level;
    ++tally.right;
  }

  void LookAtFolder(const FileSystem& files, const std::string& path, Ino ino, Tally& tally) const {
    std::set<std::string> listed;
    const auto done = files.ReadDir(ino, 0, [&](const DirEntry& entry) {
      if (entry.name != "." && entry.name != "..")
        listed.insert(path.empty() ? std::string(entry.name) : path + "/" + std::string(entry.name));
      return true;
    });
    if (!done) {
      EXPECT_EQ(done.error().code, ErrorCode::kDamaged) << done.error().message;
      ++tally.refused;
      return;
    }
    EXPECT_EQ(listed, children_.at(path)) << path;
    ++tally.right;
  }

  // Looks up every path from the root, reads every file, lists every folder, and asks for names that are not there.
  Tally LookAtAll(const FileSystem& files, int level) const {
    Tally tally;
    const auto find = [&](const std::string& path) -> std::optional<Ino> {
      Ino at(1, level);
      for (size_t begin = 0; begin < path.size();) {
        const size_t end = std::min(path.find('/', begin), path.size());
        const auto stat = Take(files.Lookup(at, path.substr(begin, end - begin)), tally, path);
        if (!stat) return std::nullopt;
        at = stat->ino;
        begin = end + 1;
      }
      return at;
    };
    for (const SampleFile& file : sample_.files)
      if (const auto ino = find(file.path)) LookAtFile(files, file, *ino, level, tally);
    for (const auto& [folder, children] : children_) {
      const auto ino = find(folder);
      if (!ino) continue;
      LookAtFolder(files, folder, *ino, tally);
      const auto missing = files.Lookup(*ino, "cats.");
      EXPECT_FALSE(missing);
      EXPECT_TRUE(missing.error().code == ErrorCode::kNotFound || missing.error().code == ErrorCode::kDamaged);
    }
    return tally;
  }

  void ExpectAllRight(const FileSystem& files, int level) const {
    const Tally tally = LookAtAll(files, level);
    EXPECT_EQ(tally.refused, 0);
    EXPECT_EQ(static_cast<size_t>(tally.right), sample_.files.size() + children_.size());
  }

  int AnyLevel() { return 1 + static_cast<int>(random_() % 10); }

  TempDir data_, cache_;
  testing::SampleDataset sample_;
  std::map<std::string, std::set<std::string>> children_ = {{"cats/old", {}}, {"empty", {}}};  // by folder
  int reads_ = 0;
  std::mt19937_64 random_{17};
};

// Damage to one of the two files while nobody has it open.
class CatalogRebuildTest : public CatalogDamageTest, public ::testing::WithParamInterface<std::string_view> {
 protected:
  // Whole again after each damage, since each is built anew.
  void DamageAndMount(int times, const std::function<void(Bytes&)>& damage) {
    ASSERT_TRUE(Mount());
    for (int i = 0; i < times && !HasFailure(); ++i) {
      Bytes bytes = ReadFile(Path(GetParam()));
      damage(bytes);
      WriteFile(Path(GetParam()), bytes);
      const auto files = Mount();
      ASSERT_TRUE(files);
      EXPECT_EQ(reads_, 3) << "built anew, time " << i;
      ExpectAllRight(*files, AnyLevel());
    }
    ASSERT_TRUE(Mount());
    EXPECT_EQ(reads_, 0) << "what was built is good";
  }
};
INSTANTIATE_TEST_SUITE_P(Files, CatalogRebuildTest, ::testing::Values(kCatalogFile, kCatalogHeadFile),
                         [](const auto& file) { return file.param == kCatalogFile ? "Catalog" : "Head"; });

TEST_P(CatalogRebuildTest, AnyFlippedBitIsSeenAndTheCatalogBuiltAnew) {
  DamageAndMount(300,
                 [&](Bytes& bytes) { bytes[random_() % bytes.size()] ^= static_cast<uint8_t>(1 << random_() % 8); });
}

TEST_P(CatalogRebuildTest, AnyTruncationIsSeenAndTheCatalogBuiltAnew) {
  DamageAndMount(60, [&](Bytes& bytes) { bytes.resize(random_() % bytes.size()); });
}

TEST_P(CatalogRebuildTest, ALostFileIsBuiltAnew) {
  ASSERT_TRUE(Mount());
  unlink(Path(GetParam()).c_str());
  const auto files = Mount();
  ASSERT_TRUE(files);
  EXPECT_EQ(reads_, 3);
  ExpectAllRight(*files, 10);
}

// The mapping shows what is written to the file. LMDB itself checks nothing: of such flips one in forty ended the
// process, in LMDB's own code, and one in a thousand made a listing shorter.
TEST_F(CatalogDamageTest, AFlipUnderAMountIsRightOrRefused) {
  PCRFS_NOT_UNDER_ADDRESS_SANITIZER();
  const auto files = Mount();
  const Bytes good = ReadFile(Path(kCatalogFile));
  const UniqueFd fd(open(Path(kCatalogFile).c_str(), O_WRONLY));
  int noticed = 0;
  for (int i = 0; i < 1000 && !HasFailure(); ++i) {
    const size_t at = random_() % good.size();
    const uint8_t flipped = good[at] ^ static_cast<uint8_t>(1 << random_() % 8);
    ASSERT_EQ(pwrite(fd.get(), &flipped, 1, static_cast<off_t>(at)), 1);
    noticed += LookAtAll(*files, AnyLevel()).refused > 0 ? 1 : 0;
    ASSERT_EQ(pwrite(fd.get(), &good[at], 1, static_cast<off_t>(at)), 1);
  }
  EXPECT_GT(noticed, 20);
  ExpectAllRight(*files, 10);
  ExpectAllRight(*Mount(), 10);
  EXPECT_EQ(reads_, 3) << "the catalog was set aside";
}

// Reading behind the end of a mapped file is SIGBUS.
TEST_F(CatalogDamageTest, ATruncationUnderAMountIsRightOrRefused) {
  PCRFS_NOT_UNDER_ADDRESS_SANITIZER();
  const auto files = Mount();
  const Bytes good = ReadFile(Path(kCatalogFile));
  const UniqueFd fd(open(Path(kCatalogFile).c_str(), O_WRONLY));
  for (int i = 0; i < 60 && !HasFailure(); ++i) {
    ASSERT_EQ(ftruncate(fd.get(), i == 0 ? 0 : static_cast<off_t>(random_() % good.size())), 0);
    const Tally tally = LookAtAll(*files, AnyLevel());
    EXPECT_TRUE(i > 0 || tally.right == 0);
    ASSERT_EQ(pwrite(fd.get(), good.data(), good.size(), 0), static_cast<ssize_t>(good.size()));
  }
  ExpectAllRight(*files, 10);
}

TEST_F(CatalogDamageTest, NonsenseInPlaceOfWholePagesIsRightOrRefused) {
  PCRFS_NOT_UNDER_ADDRESS_SANITIZER();
  const auto files = Mount();
  const Bytes good = ReadFile(Path(kCatalogFile));
  const UniqueFd fd(open(Path(kCatalogFile).c_str(), O_WRONLY));
  constexpr size_t kPage = 4096;
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    Bytes page(kPage);
    const size_t at = random_() % (good.size() / kPage) * kPage, from = random_() % (good.size() / kPage) * kPage;
    for (uint8_t& byte : page) byte = static_cast<uint8_t>(random_());
    if (i % 2 == 0)
      page.assign(good.begin() + static_cast<ptrdiff_t>(from), good.begin() + static_cast<ptrdiff_t>(from + kPage));
    ASSERT_EQ(pwrite(fd.get(), page.data(), kPage, static_cast<off_t>(at)), static_cast<ssize_t>(kPage));
    (void)LookAtAll(*files, AnyLevel());
    ASSERT_EQ(pwrite(fd.get(), good.data(), good.size(), 0), static_cast<ssize_t>(good.size()));
  }
  ExpectAllRight(*files, 10);
}

// With PCR_index.pb, of course: a shard alone that was replaced so is found by its checksums.
TEST_F(CatalogDamageTest, AShardReplacedWithItsSizeAndTimeButAnotherIdIsReadAnew) {
  ASSERT_TRUE(Mount());
  const size_t last = sample_.index.rows.size() - 1;
  const std::string shard = data_ / sample_.index.rows[last].name;
  struct stat before {
  }, after{};
  ASSERT_EQ(stat(shard.c_str(), &before), 0);
  ASSERT_EQ(sample_.files.back().path, "zz notes.txt");
  const Bytes changed = {'h', 'o', '\n'};
  sample_.index.rows[last] = testing::WriteShard({data_.path(), 3, sample_.root, {sample_.directories.back()}}, {},
                                                 {{{"", "zz notes.txt", {0644, 1}}, changed}});
  WriteFile(data_ / kDatasetIndexName, *EncodeDatasetIndex(sample_.index));
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, shard.c_str(), times, 0), 0);
  ASSERT_EQ(stat(shard.c_str(), &after), 0);
  ASSERT_EQ(after.st_size, before.st_size);
  sample_.files.back().levels.assign(10, changed);
  const auto files = Mount();
  EXPECT_EQ(reads_, 3);
  ExpectAllRight(*files, 10);
}

}  // namespace
}  // namespace pcrfs
