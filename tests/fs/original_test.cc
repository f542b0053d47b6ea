// `original` as the file system shows it, over a shard in memory with faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "format/image_encoder.h"
#include "fs/file_system.h"
#include "tests/support/faulty_source.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_catalog.h"
#include "tests/support/test_jpeg.h"
#include "tests/support/test_shard_index.h"

namespace pcrfs {
namespace {

using ::testing::ElementsAre;
using testing::FaultySource;
using ::testing::HasSubstr;
using testing::TempDir;
using testing::TestShard;
using testing::TestShardBuilder;

// A shard with the restorable image photo.jpg, as packed from `source`, and an opaque file.
TestShard MakeShard(const Bytes& source) {
  const auto encoded = EncodeImage(source);
  EXPECT_TRUE(encoded);
  std::vector<Bytes> fragments;
  auto at = encoded->bytes.begin();
  for (const uint32_t size : encoded->fragment_sizes) {
    fragments.emplace_back(at, at + size);
    at += size;
  }
  TestShardBuilder builder("PCR_0.pcr");
  builder.AddImage("photo.jpg", fragments).AddOpaque("opaque", Bytes(1000, 7));
  TestShard shard = builder.Build();
  Entry& entry = shard.index.entries[0];
  entry.source_size = source.size();
  entry.source_sha256 = Sha256::Of(source);
  entry.layout.restore = {shard.bytes.size(), encoded->restore.size(), static_cast<uint32_t>(entry.layout.crcs.size())};
  entry.layout.crcs.push_back(Crc32(encoded->restore));
  shard.bytes.insert(shard.bytes.end(), encoded->restore.begin(), encoded->restore.end());
  shard.index.section_sizes.back() += encoded->restore.size();
  return shard;
}

class OriginalTreeTest : public ::testing::Test {
 protected:
  void Open() {
    const auto opener = [this](size_t) -> Result<std::unique_ptr<ByteSource>> {
      auto source = std::make_unique<FaultySource>(shard_.name, shard_.bytes);
      for (const uint64_t offset : flips_) source->Flip(offset);
      for (const uint64_t offset : failures_) source->FailAt(offset, {ErrorCode::kIo, "bad sector"});
      return std::unique_ptr<ByteSource>(std::move(source));
    };
    const std::vector<ShardFacts> facts = {{shard_.name, shard_.bytes.size(), std::vector<uint64_t>(11, 0)}};
    const std::string& folder = folders_.emplace_back().path();
    testing::WriteTestCatalog(folder, {shard_});
    files_ = std::make_unique<FileSystem>(
        *Catalog::Open(folder),
        std::make_unique<ShardSet>(facts, opener, ShardSetOptions{10, [] { return uint64_t{0}; }}), MountView{},
        [this](const Error& error, auto) { faults_.push_back(error.message); });
    original_ = files_->Lookup(files_->Lookup(kMountRoot, "original")->ino, "photo.jpg")->ino;
    highest_ = Ino(original_.node(), 10);
  }

  [[nodiscard]] Result<Bytes> Read(Ino ino, uint64_t offset, size_t size) const {
    Bytes out(size);
    const auto read = files_->Read(ino, offset, out);
    if (!read) return tl::unexpected<Error>(read.error());
    out.resize(*read);
    return out;
  }

  // In parts, since what is read to its end is forgotten.
  void ExpectDamagedButNotTheHighestLevel() const {
    for (uint64_t offset = 0; offset < 3000; offset += 1000) {
      const auto read = Read(original_, offset, 1000);
      ASSERT_FALSE(read);
      EXPECT_EQ(read.error().code, ErrorCode::kDamaged);
    }
    EXPECT_TRUE(Read(highest_, 0, 1'000'000));
  }

  const Bytes source_ = testing::MakeJpeg({.width = 320, .height = 200});
  TestShard shard_ = MakeShard(source_);
  std::list<TempDir> folders_;  // one each time it is opened
  std::vector<uint64_t> flips_, failures_;
  std::vector<std::string> faults_;
  std::unique_ptr<FileSystem> files_;
  Ino original_, highest_;
};

TEST_F(OriginalTreeTest, ShowsTheSource) {
  Open();
  EXPECT_EQ(original_.level(), 0);
  EXPECT_EQ(files_->GetAttr(original_)->size, source_.size());
  EXPECT_NE(files_->GetAttr(highest_)->size, source_.size());
  Bytes out(100);
  EXPECT_FALSE(files_->ReadAtHand(original_, 0, out)) << "it is not restored yet";
  for (uint64_t offset = 0; offset < source_.size() - 1000; offset += 777) {
    const auto begin = source_.begin() + static_cast<std::ptrdiff_t>(offset);
    EXPECT_EQ(Read(original_, offset, 500).value(), Bytes(begin, begin + 500)) << offset;
  }
  EXPECT_EQ(files_->ReadAtHand(original_, 0, out), 100u);
  EXPECT_EQ(Read(original_, 0, source_.size() + 100).value(), source_);
  EXPECT_EQ(Read(original_, source_.size(), 100).value(), Bytes());
  EXPECT_EQ(Read(Ino(original_.node() + 1, 0), 0, 2000).value(), Bytes(1000, 7));
  EXPECT_THAT(faults_, ElementsAre());
}

TEST_F(OriginalTreeTest, StatfsIsOfTheSources) {
  Open();
  const auto tree = files_->GetStatFs(Ino(kRootNode, 0));
  ASSERT_TRUE(tree);
  EXPECT_EQ(tree->blocks, (source_.size() + 1000 + tree->block_size - 1) / tree->block_size);
}

TEST_F(OriginalTreeTest, WhatIsNotTheSourceIsNeverShown) {
  shard_.index.entries[0].source_sha256[3] ^= 1;
  Open();
  ExpectDamagedButNotTheHighestLevel();
  ASSERT_EQ(faults_.size(), 1u) << "told once";
  EXPECT_THAT(faults_[0], HasSubstr("'PCR_0.pcr'"));
  EXPECT_THAT(faults_[0], HasSubstr("'photo.jpg'"));
  EXPECT_THAT(faults_[0], HasSubstr("SHA-256"));
}

TEST_F(OriginalTreeTest, AnotherSizeThanTheSourcesIsDamage) {
  for (const uint64_t size : {source_.size() - 1, source_.size() + 1, uint64_t{5000}}) {
    shard_.index.entries[0].source_size = size;
    Open();
    EXPECT_EQ(files_->GetAttr(original_)->size, size);
    ExpectDamagedButNotTheHighestLevel();
  }
}

TEST_F(OriginalTreeTest, ASourceTooLargeToBeRestoredIsAnErrorBeforeMemoryIsTaken) {
  shard_.index.entries[0].source_size = uint64_t{1} << 60;
  Open();
  const auto read = Read(original_, 0, 1000);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kIo);
  EXPECT_THAT(faults_, ElementsAre(HasSubstr("over the limits of what is restored")));
}

TEST_F(OriginalTreeTest, ABadByteInTheRecordOrTheImageIsFoundByItsChecksum) {
  const EntryLayout& layout = shard_.index.entries[0].layout;
  flips_ = {layout.restore.offset + 1};
  Open();
  ExpectDamagedButNotTheHighestLevel();
  EXPECT_THAT(faults_, ElementsAre(HasSubstr("its restore record, block at offset")));
  faults_.clear();
  flips_ = {layout.extents[0].offset + 20};
  Open();
  EXPECT_EQ(Read(original_, 0, 10).error().code, ErrorCode::kDamaged);
  EXPECT_THAT(faults_, ElementsAre(HasSubstr("fragment 1")));
}

TEST_F(OriginalTreeTest, WhatCannotBeReadNowIsTriedAgain) {
  const EntryLayout& layout = shard_.index.entries[0].layout;
  failures_ = {layout.extents[9].offset};
  Open();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Read(original_, 0, 10).error().code, ErrorCode::kIo);
  EXPECT_THAT(faults_, ElementsAre(HasSubstr("bad sector")));
}

}  // namespace
}  // namespace pcrfs
