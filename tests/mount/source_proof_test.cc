// That a data set holds what its source folder holds: verify --source and manifest, as their owner runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/jpeg_surgery.h"
#include "tests/support/mount_fixture.h"
#include "tests/support/sample_dataset.h"
#include "tests/support/test_jpeg.h"

namespace pcrfs {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::MakeJpeg;
using ::testing::Not;
using testing::PackedPhotos;
using testing::ProgramResult;
using testing::ReadFile;
using testing::RunProgram;
using testing::WriteFile;

class SourceProof : public ::testing::Test {
 protected:
  static PackOptions Options() {
    PackOptions options;
    options.record_images = 5;
    options.encode.exact = true;
    return options;
  }
  static void AddOddFiles(const std::string& source) {
    for (const char* name :
         {"line\nfeed.txt", "back\\slash\\n.txt", "\xff\xfe.txt", "return\r", "-", "--help", " lead", "n01/*star"})
      WriteFile(source + "/" + name, AsBytes(std::string("text of ") + name));
    WriteFile(source + "/nothing", AsBytes(""));
    WriteFile(source + "/n01/cmyk.jpg", MakeJpeg({.colour = testing::TestJpeg::Colour::kCmyk}));
    WriteFile(source + "/n01/two.jpg", MakeJpeg({.colour = testing::TestJpeg::Colour::kTwo}));
    WriteFile(source + "/n01/fractional.jpg", MakeJpeg({.sampling = {{3, 1}, {2, 1}, {1, 1}}}));
    WriteFile(source + "/n01/arithmetic.jpg", MakeJpeg({.arithmetic = true}));
    EXPECT_EQ(symlink("0.jpg", (source + "/n01/link.jpg").c_str()), 0);
    EXPECT_EQ(symlink("n01", (source + "/linked folder").c_str()), 0);
  }

  [[nodiscard]] ProgramResult Verify() const {
    return photos_.Pcrfs({"verify", photos_.dataset(), "--source", photos_.source(), "--jobs", "3"});
  }
  void ExpectDifference(const std::string& sentence) const {
    const ProgramResult result = Verify();
    EXPECT_EQ(result.status, 3) << result.err;
    EXPECT_THAT(result.out, HasSubstr("difference: " + sentence));
    EXPECT_THAT(result.out, HasSubstr(": 1 difference\n"));
  }
  [[nodiscard]] std::string operator/(const std::string& name) const { return photos_.source() + "/" + name; }

  PackedPhotos photos_{{}, Options(), AddOddFiles};
};

TEST_F(SourceProof, ASourceThatIsAsItWasHasNoDifference) {
  const ProgramResult result = Verify();
  EXPECT_EQ(result.status, 0) << result.err << result.out;
  EXPECT_THAT(result.out, HasSubstr(" with the source, "));
  EXPECT_THAT(result.out, HasSubstr(": no difference\n"));
}

TEST_F(SourceProof, WhatNoPackHoldsIsNoDifference) {
  ASSERT_EQ(mkfifo((*this / "fifo").c_str(), 0600), 0);
  ASSERT_EQ(symlink("nowhere", (*this / "dangling").c_str()), 0);
  ASSERT_EQ(symlink("..", (*this / "n00/up").c_str()), 0);
  const ProgramResult result = Verify();
  EXPECT_EQ(result.status, 0) << result.out;
  EXPECT_THAT(result.out, HasSubstr("left aside in the source, since no pack holds it"));
  EXPECT_THAT(result.out, HasSubstr(": 3\n"));
}

TEST_F(SourceProof, WhatWasExcludedIsNoDifference) {
  const testing::TempDir folder;
  const ProgramResult packed = photos_.Pcrfs(
      {"pack", photos_.source(), folder / "set", "--exclude", "*.jpg", "--exclude", "/return\r", "--exclude", "a%\n*"});
  ASSERT_EQ(packed.status, 0) << packed.err;
  EXPECT_THAT(packed.out, HasSubstr("  excluded"));
  const ProgramResult result = photos_.Pcrfs({"verify", folder / "set", "--source", photos_.source()});
  EXPECT_EQ(result.status, 0) << result.out;
  const ProgramResult listed = photos_.Pcrfs({"ls", folder / "set"});
  EXPECT_THAT(listed.out, Not(HasSubstr("return")));
  EXPECT_THAT(listed.out, HasSubstr("nothing"));
}

// The kernel goes on answering for what it remembers: names and attributes, and no bytes.
TEST_F(SourceProof, ASourceWhoseFileSystemDiedIsNeitherPackedAsNothingNorDifferent) {
  const ProgramResult result = photos_.RunAlone(R"(
    "$pcrfs" mount "$dataset" "$mount" -f 2>"$scratch/log" & daemon=$!
    while ! test -d "$mount/scan10"; do sleep 0.02; done
    for i in 1 2; do ls -lR "$mount/scan10" >/dev/null; done
    kill -KILL $daemon; wait $daemon || :
    packed=0 verified=0
    "$pcrfs" pack "$mount/scan10" "$scratch/d" || packed=$?
    "$pcrfs" verify "$dataset" --source "$mount/scan10" || verified=$?
    umount -l "$mount"
    test $packed = 1
    test ! -e "$scratch/d/PCR_index.pb"
    test $verified = 1
  )");
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("Transport endpoint is not connected"));
}

TEST_F(SourceProof, AFileThatTheDataSetLacksIsADifference) {
  WriteFile(*this / "n00/new \xff.jpg", MakeJpeg({}));
  ExpectDifference("'n00/new \\xff.jpg' is in the source, but not in the data set");
}

TEST_F(SourceProof, AFileThatTheSourceLacksIsADifference) {
  fs::remove(*this / "line\nfeed.txt");
  ExpectDifference("'line\\x0afeed.txt' is in the data set, but not in the source");
}

TEST_F(SourceProof, AnEmptyFolderMissingOnEitherSideIsADifference) {
  fs::rename(*this / "empty", *this / "void");
  const ProgramResult result = Verify();
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.out, HasSubstr("the folder 'empty' is in the data set, but cannot be found in the source"));
  EXPECT_THAT(result.out, HasSubstr("the folder 'void' is in the source, but not in the data set"));
  EXPECT_THAT(result.out, HasSubstr(": 2 differences\n"));
}

TEST_F(SourceProof, OneChangedByteOfAnyKindOfFileIsADifference) {
  for (const char* name : {"n00/0.jpg", "n00/2.jpg", "n00/3.jpg", "notes.txt"}) {
    const Bytes whole = ReadFile(*this / name);
    Bytes changed = whole;
    changed.back() ^= 1;
    WriteFile(*this / name, changed);
    ExpectDifference("'" + std::string(name) + "' has other bytes in the source than when it was packed");
    WriteFile(*this / name, whole);
  }
}

TEST_F(SourceProof, AnotherSizeIsADifference) {
  fs::resize_file(*this / "notes.txt", 3);
  ExpectDifference("'notes.txt' has 3 bytes in the source, but ");
}

TEST_F(SourceProof, AFileThatCannotBeComparedIsADifference) {
  fs::remove(*this / "notes.txt");
  fs::create_directory(*this / "notes.txt");
  const ProgramResult result = Verify();
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.out, HasSubstr("difference: 'notes.txt' cannot be read in the source: "));
}

TEST_F(SourceProof, ManyDifferencesAreCountedAndNotAllShown) {
  for (int i = 0; i < 130; ++i) WriteFile(*this / ("new/" + std::to_string(i)), AsBytes("x"));
  const ProgramResult result = Verify();
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.out, HasSubstr("and 30 more differences\n"));
  EXPECT_THAT(result.out, HasSubstr(": 130 differences\n"));
}

TEST_F(SourceProof, ASourceThatIsNoFolderIsKnownAtOnce) {
  const ProgramResult none = photos_.Pcrfs({"verify", photos_.dataset(), "--source", photos_ / "none"});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("none"));
  EXPECT_EQ(none.out, "") << "it was checked first";
  EXPECT_EQ(photos_.Pcrfs({"verify", photos_.dataset(), "--source", *this / "notes.txt"}).status, 1);
}

TEST_F(SourceProof, AShardThatIsGoneIsNoReasonToListAllItsFilesAsMissing) {
  fs::remove(photos_.dataset() + "/PCR_1.pcr");
  const ProgramResult result = Verify();
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.out, HasSubstr("difference: shard 'PCR_1.pcr' cannot be read"));
  EXPECT_THAT(result.out, Not(HasSubstr("not in the data set")));
}

// A shard whose checksums, size and SHA-256 are all right, and whose picture is another one: only decoding tells.
TEST_F(SourceProof, AnotherPictureUnderTheRightChecksumsIsADifference) {
  const std::string source = photos_ / "one", dataset = photos_ / "wrong set";
  const Bytes jpeg = MakeJpeg({.seed = 1});
  WriteFile(source + "/a.jpg", jpeg);
  fs::create_directory(dataset);
  ImageItem item{.file = {"", "a.jpg", {0644, 1}},
                 .label = -1,
                 .source_size = jpeg.size(),
                 .source_sha256 = Sha256::Of(jpeg),
                 .image = testing::CutProgressive(MakeJpeg({.progressive = true, .seed = 2}))};
  item.image.kept = false;
  DatasetIndex index;
  index.rows.push_back(testing::WriteShard({dataset, 0, {0755, 1}, {}}, {item}, {}));
  index.pack_options = "order=path\n";
  const auto encoded = EncodeDatasetIndex(index);
  ASSERT_TRUE(encoded);
  WriteFile(dataset + "/PCR_index.pb", *encoded);
  const ProgramResult result = photos_.Pcrfs({"verify", dataset, "--source", source});
  EXPECT_EQ(result.status, 3) << result.err;
  EXPECT_THAT(result.out, HasSubstr(": no fault\n"));
  EXPECT_THAT(result.out, HasSubstr("difference: 'a.jpg' decodes to another picture at the highest level"));
}

TEST_F(SourceProof, Sha256sumTakesTheManifestInTheSourceAndInOriginal) {
  const ProgramResult in_source = photos_.RunAlone(
      "cd '" + photos_.source() + R"(' && "$pcrfs" manifest "$dataset" | sha256sum --check --quiet --strict)");
  EXPECT_EQ(in_source.status, 0) << in_source.err << in_source.out;
  const ProgramResult in_mount = photos_.RunAlone(R"(
    "$pcrfs" mount "$dataset" "$mount"
    cd "$mount/original" && "$pcrfs" manifest "$dataset" | sha256sum --check --quiet --strict
    cd / && "$pcrfs" umount "$mount")");
  EXPECT_EQ(in_mount.status, 0) << in_mount.err << in_mount.out;
}

TEST_F(SourceProof, TheManifestHasALineForEachFile) {
  const std::string manifest = photos_.Pcrfs({"manifest", photos_.dataset()}).out;
  size_t files = 0;
  for (const auto& entry :
       fs::recursive_directory_iterator(photos_.source(), fs::directory_options::follow_directory_symlink))
    files += entry.is_regular_file() ? 1U : 0U;
  EXPECT_EQ(static_cast<size_t>(std::count(manifest.begin(), manifest.end(), '\n')), files);
  EXPECT_THAT(manifest, HasSubstr("  line\\nfeed.txt\n"));
  EXPECT_THAT(manifest, HasSubstr("  back\\\\slash\\\\n.txt\n"));
  EXPECT_THAT(manifest, HasSubstr("  ./-\n"));
  EXPECT_THAT(manifest, HasSubstr("  \xff\xfe.txt\n"));
}

TEST_F(SourceProof, TheManifestOfChangedFilesDoesNotPass) {
  WriteFile(*this / "back\\slash\\n.txt", AsBytes("other"));
  const ProgramResult result =
      photos_.RunAlone("cd '" + photos_.source() + R"(' && "$pcrfs" manifest "$dataset" | sha256sum --check --quiet)");
  EXPECT_NE(result.status, 0);
}

}  // namespace
}  // namespace pcrfs
