#include "format/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "format/checksum.h"
#include "format/dataset_index.h"
#include "format/proto/pcrfs.pb.h"
#include "format/shard_writer.h"
#include "tests/support/sample_dataset.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_dataset.h"
#include "tests/support/test_jpeg.h"

namespace pcrfs {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ReadFile;
using testing::TempDir;
using testing::WriteFile;

struct Outcome {
  Result<VerifySummary> summary;
  std::vector<std::string> faults;
  VerifyProgress progress;
};

Outcome Check(const std::string& dataset, unsigned jobs = 2, bool restore = true) {
  Outcome outcome;
  outcome.summary = Verify(
      dataset, {jobs, restore}, [&](const Error& fault) { outcome.faults.push_back(fault.message); },
      [&](const VerifyProgress& progress) {
        EXPECT_GE(progress.bytes_done, outcome.progress.bytes_done);
        outcome.progress = progress;
      });
  EXPECT_TRUE(!outcome.summary || outcome.summary->faults == outcome.faults.size());
  return outcome;
}

bool FindsFault(const std::string& dataset) {
  const Outcome outcome = Check(dataset, 1);
  return !outcome.summary || !outcome.faults.empty();
}

void Flip(const std::string& path, size_t at, uint8_t mask) {
  Bytes bytes = ReadFile(path);
  bytes.at(at) ^= mask;
  WriteFile(path, bytes);
}

// Adds a shard with one opaque file at `path` to a data set.
void AddShard(const std::string& dataset, uint64_t number, const std::string& directory, const std::string& name) {
  auto index = DecodeDatasetIndex(ReadFile(dataset + "/PCR_index.pb"));
  ASSERT_TRUE(index) << index.error().message;
  ShardPlan plan{dataset, number, {0755, 0}, {}};
  if (!directory.empty()) plan.directories.push_back({directory, {0755, 0}});
  index->rows.push_back(testing::WriteShard(plan, {}, {{{directory, name, {0644, 0}}, Bytes{1, 2, 3}}}));
  auto bytes = EncodeDatasetIndex(*index);
  ASSERT_TRUE(bytes) << bytes.error().message;
  WriteFile(dataset + "/PCR_index.pb", *bytes);
}

TEST(Verifier, FindsNothingInASoundDataSet) {
  TempDir source, out;
  testing::MakePhotoFolder(source.path());
  testing::PackForTest(source.path(), out / "set", {.record_images = 4});
  for (const unsigned jobs : {0U, 1U, 4U}) {
    const Outcome outcome = Check(out / "set", jobs);
    ASSERT_TRUE(outcome.summary) << outcome.summary.error().message;
    EXPECT_THAT(outcome.faults, IsEmpty());
    EXPECT_EQ(outcome.summary->shards, 5U);
    EXPECT_EQ(outcome.summary->entries, 19U);
    EXPECT_THAT(outcome.summary->unlisted, IsEmpty());
    uint64_t bytes = 0;
    for (const auto& file : fs::directory_iterator(out / "set"))
      if (file.path().filename() != "PCR_index.pb") bytes += file.file_size();
    EXPECT_EQ(outcome.summary->bytes, bytes) << "every byte once";
    EXPECT_EQ(outcome.progress.bytes_done, bytes);
    EXPECT_EQ(outcome.progress.bytes_total, bytes);
  }
}

TEST(Verifier, FindsNothingInTheSampleDataSet) {
  TempDir dir;
  (void)testing::WriteSampleDataset(dir.path());
  EXPECT_THAT(Check(dir.path()).faults, IsEmpty());
}

// Every byte of every file of a small data set, each by another bit.
TEST(Verifier, FindsAFlippedByteAnywhere) {
  TempDir source, out;
  WriteFile(source / "n/kept.jpg", testing::MakeJpeg({.width = 16, .height = 16, .progressive = true}));
  WriteFile(source / "n/gray.jpg",
            testing::MakeJpeg({.width = 8, .height = 8, .colour = testing::TestJpeg::Colour::kGray}));
  Bytes with_tail = testing::MakeJpeg({.width = 24, .height = 8});
  with_tail.insert(with_tail.end(), 10, 'T');
  WriteFile(source / "tail.jpg", with_tail);
  WriteFile(source / "zz/note.txt", "text");
  WriteFile(source / "zz/zero", "");
  fs::create_directory(source / "zzz");
  testing::PackForTest(source.path(), out / "set", {.record_images = 4});
  ASSERT_FALSE(FindsFault(out / "set"));
  size_t tried = 0;
  for (const auto& file : fs::directory_iterator(out / "set")) {
    const Bytes whole = ReadFile(file.path());
    for (size_t at = 0; at < whole.size(); ++at, ++tried) {
      Bytes damaged = whole;
      damaged[at] ^= static_cast<uint8_t>(1U << (at % 8));
      WriteFile(file.path(), damaged);
      EXPECT_TRUE(FindsFault(out / "set")) << file.path() << " byte " << at << " of " << whole.size();
    }
    WriteFile(file.path(), whole);
  }
  EXPECT_GT(tried, 2000U);
  EXPECT_FALSE(FindsFault(out / "set"));
}

TEST(Verifier, FindsAShardThatIsCutOrLonger) {
  TempDir dir;
  (void)testing::WriteSampleDataset(dir.path());
  for (const char* name : {"PCR_0.pcr", "PCR_1.pcr", "PCR_3.files"}) {
    const Bytes whole = ReadFile(dir / name);
    for (const size_t size : {size_t{0}, size_t{1}, size_t{47}, whole.size() / 2, whole.size() - 1, whole.size() + 1}) {
      Bytes other = whole;
      other.resize(size);
      WriteFile(dir / name, other);
      const Outcome outcome = Check(dir.path());
      ASSERT_TRUE(outcome.summary);
      EXPECT_THAT(outcome.faults, ElementsAre(HasSubstr(name))) << size;
    }
    WriteFile(dir / name, whole);
  }
}

TEST(Verifier, GoesOnAfterAFaultAndNamesEach) {
  TempDir source, out;
  testing::MakePhotoFolder(source.path());
  testing::PackForTest(source.path(), out / "set", {.record_images = 4});
  fs::remove(out / "set/PCR_1.pcr");
  Flip(out / "set/PCR_2.pcr", 5000, 0x40);
  Flip(out / "set/PCR_4.pcr", 4000, 0x04);
  const Outcome outcome = Check(out / "set", 1);
  ASSERT_TRUE(outcome.summary);
  EXPECT_THAT(outcome.faults, ElementsAre(HasSubstr("PCR_1.pcr"), AllOf(HasSubstr("PCR_2.pcr"), HasSubstr(".jpg")),
                                          AllOf(HasSubstr("PCR_4.pcr"), HasSubstr(".jpg"))));
}

TEST(Verifier, AShardInAnothersPlaceIsAFault) {
  TempDir source, out;
  testing::MakePhotoFolder(source.path());
  testing::PackForTest(source.path(), out / "set", {.record_images = 4});
  fs::copy_file(out / "set/PCR_1.pcr", out / "set/PCR_2.pcr", fs::copy_options::overwrite_existing);
  EXPECT_THAT(Check(out / "set").faults, ElementsAre(HasSubstr("PCR_2.pcr")));
}

TEST(Verifier, AWrongLabelIsAFault) {
  TempDir dir;
  (void)testing::WriteSampleDataset(dir.path());
  auto index = DecodeDatasetIndex(ReadFile(dir / "PCR_index.pb"));
  ASSERT_TRUE(index);
  ASSERT_GE(index->labels.size(), 2U);
  std::swap(index->labels[0], index->labels[1]);
  WriteFile(dir / "PCR_index.pb", *EncodeDatasetIndex(*index));
  EXPECT_THAT(Check(dir.path()).faults, Contains(HasSubstr("label: expected 1, found 0")));
  index->labels.clear();
  WriteFile(dir / "PCR_index.pb", *EncodeDatasetIndex(*index));
  EXPECT_THAT(Check(dir.path()).faults, Contains(HasSubstr("is not in the label list of PCR_index.pb")));
}

// Every checksum of what is stored is right.
TEST(Verifier, ARecordThatGivesAnotherSourceIsAFaultWhereSourcesAreRestored) {
  TempDir dir;
  const Bytes jpeg = testing::MakeJpeg({.seed = 1});
  ImageItem item{.file = {"", "a.jpg", {0644, 1}},
                 .label = -1,
                 .source_size = jpeg.size(),
                 .source_sha256 = Sha256::Of(testing::MakeJpeg({.seed = 2})),
                 .image = EncodeImage(jpeg).value()};
  ASSERT_FALSE(item.image.restore.empty());
  DatasetIndex index;
  index.rows.push_back(testing::WriteShard({dir.path(), 0, {0755, 1}, {}}, {item}, {}));
  index.pack_options = "order=path\n";
  WriteFile(dir / "PCR_index.pb", EncodeDatasetIndex(index).value());
  EXPECT_THAT(Check(dir.path(), 1, true).faults, ElementsAre(AllOf(HasSubstr("'a.jpg'"), HasSubstr("SHA-256"))));
  EXPECT_THAT(Check(dir.path(), 1, false).faults, IsEmpty());
}

TEST(Verifier, APathInTwoShardsIsAFault) {
  TempDir dir;
  const testing::SampleDataset sample = testing::WriteSampleDataset(dir.path());
  const std::string path = sample.files.back().path;
  const size_t slash = path.rfind('/');
  AddShard(dir.path(), 7, slash == std::string::npos ? "" : path.substr(0, slash), path.substr(slash + 1));
  EXPECT_THAT(Check(dir.path()).faults,
              ElementsAre(AllOf(HasSubstr(Quoted(path)), HasSubstr("in two shards"), HasSubstr("PCR_7.files"))));
}

TEST(Verifier, AFileWhosePathIsAFolderElsewhereIsAFault) {
  TempDir dir;
  (void)testing::WriteSampleDataset(dir.path());
  AddShard(dir.path(), 7, "folder or file", "inside");
  EXPECT_THAT(Check(dir.path()).faults, IsEmpty());
  AddShard(dir.path(), 8, "", "folder or file");
  EXPECT_THAT(Check(dir.path()).faults,
              ElementsAre(AllOf(HasSubstr("'folder or file'"), HasSubstr("a file in PCR_8.files"),
                                HasSubstr("a folder in PCR_7.files"))));
}

TEST(Verifier, ShardsWithoutARowAreListedAndNoFault) {
  TempDir dir;
  (void)testing::WriteSampleDataset(dir.path());
  for (const char* name : {"PCR_8.pcr", "PCR_08.pcr", "PCR_5.files", "notes.txt"}) WriteFile(dir / name, "");
  const Outcome outcome = Check(dir.path());
  ASSERT_TRUE(outcome.summary);
  EXPECT_THAT(outcome.faults, IsEmpty());
  EXPECT_THAT(outcome.summary->unlisted, ElementsAre("PCR_5.files", "PCR_8.pcr"));
}

TEST(Verifier, WithoutAnIndexNothingCanBeChecked) {
  TempDir dir;
  auto outcome = Check(dir.path());
  ASSERT_FALSE(outcome.summary);
  EXPECT_EQ(outcome.summary.error().code, ErrorCode::kNotFound);
  (void)testing::WriteSampleDataset(dir.path());
  fs::remove(dir / "PCR_index.pb");
  outcome = Check(dir.path());
  ASSERT_FALSE(outcome.summary) << "also beside shards";
  EXPECT_EQ(outcome.summary.error().code, ErrorCode::kNotFound);
}

// Bytes of an index made by hand, behind a right checksum.
Bytes Closed(ByteSpan body) {
  ByteWriter writer;
  writer.Append(body);
  writer.Append(Bytes{0xC5, 0x77});
  writer.U32(Crc32(body));
  return writer.Release();
}

// Empty rows and labels, as many as asked.
Bytes HandMadeIndex(uint8_t version, size_t rows, size_t labels) {
  ByteWriter facts, body;
  facts.Append(Bytes{0x08, version});
  for (size_t i = 0; i < labels; ++i) facts.Append(Bytes{0x12, 0});
  for (size_t i = 0; i < rows; ++i) body.Append(Bytes{0x0A, 0});
  body.Append(Bytes{0xBA, 0x77});
  body.Varint(facts.size());
  body.Append(facts.bytes());
  return Closed(body.bytes());
}

TEST(Verifier, DamageOfEveryKindInTheIndexIsAFault) {
  TempDir dir;
  (void)testing::WriteSampleDataset(dir.path());
  const std::string path = dir / "PCR_index.pb";
  const auto faults = [&] {
    const Outcome outcome = Check(dir.path());
    EXPECT_TRUE(outcome.summary) << outcome.summary.error().message;
    return outcome.faults;
  };
  Flip(path, 3, 1);
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("checksum")));
  WriteFile(path, HandMadeIndex(2, 0, 0));
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("version 2")));
  WriteFile(path, HandMadeIndex(1, 2'000'000, 0));
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("1048576")));
  WriteFile(path, HandMadeIndex(1, 0, (size_t{1} << 20) + 1));
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("1048576")));
  fs::resize_file(path, 300 << 20);
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("limit")));
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("directory")));
  fs::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0644), 0);
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("not a regular file")));
}

TEST(Verifier, ARowWithASizeOverTheLimitsIsAFault) {
  TempDir dir;
  (void)testing::WriteSampleDataset(dir.path());
  wire::DatasetOffsetsIndex index;
  const Bytes whole = ReadFile(dir / "PCR_index.pb");
  ASSERT_TRUE(index.ParseFromArray(whole.data(), static_cast<int>(whole.size())));
  const auto faults_with = [&](const std::function<void(wire::ShardLocation&)>& change) {
    wire::DatasetOffsetsIndex changed = index;
    changed.clear_crc32();
    change(*changed.mutable_records(0)->mutable_location());
    const std::string body = changed.SerializeAsString();
    WriteFile(dir / "PCR_index.pb", Closed(AsBytes(body)));
    return Check(dir.path()).faults;
  };
  const auto over = ElementsAre(HasSubstr("over the limits"));
  EXPECT_THAT(faults_with([](auto& location) { location.set_index_length(uint64_t{1} << 40); }), over);
  EXPECT_THAT(faults_with([](auto& location) { location.set_file_size(uint64_t{1} << 50); }), over);
}

}  // namespace
}  // namespace pcrfs
