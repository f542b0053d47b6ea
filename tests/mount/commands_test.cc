// The subcommands that need no mount, run as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "format/image_encoder.h"
#include "tests/support/mount_fixture.h"
#include "tests/support/sanitizers.h"

namespace pcrfs {
namespace {

using testing::FilesBelow;
using ::testing::HasSubstr;
using testing::PackedPhotos;
using testing::ProgramResult;
using testing::ReadFile;
using testing::RunProgram;
using ::testing::StartsWith;

void ExpectFailure(const ProgramResult& result, const std::string& said, int status = 1) {
  EXPECT_EQ(result.status, status);
  EXPECT_THAT(result.err, StartsWith("pcrfs: "));
  EXPECT_THAT(result.err, HasSubstr(said));
}

class CommandsTest : public ::testing::Test {
 protected:
  PackedPhotos photos_{{}, SmallShards()};

  static PackOptions SmallShards() {
    PackOptions options;
    options.record_images = 5;
    return options;
  }
  [[nodiscard]] ProgramResult Pcrfs(std::vector<std::string> arguments) const { return photos_.Pcrfs(arguments); }
  // Bytes of a source file at level 10, as the encoder makes them.
  [[nodiscard]] Bytes Whole(const std::string& file) const {
    Bytes source = ReadFile(photos_.source() + "/" + file);
    const auto encoded = EncodeImage(source);
    if (!encoded) return source;
    Bytes bytes = encoded->bytes;
    bytes.insert(bytes.end(), {0xFF, 0xD9});
    bytes.insert(bytes.end(), encoded->tail.begin(), encoded->tail.end());
    return bytes;
  }
};

TEST_F(CommandsTest, PackIsTheSameAsTheLibrary) {
  const ProgramResult packed =
      Pcrfs({"pack", photos_.source(), photos_ / "again", "--jobs", "3", "--record-images", "5"});
  EXPECT_EQ(packed.status, 0) << packed.err;
  EXPECT_EQ(packed.err, "");
  EXPECT_EQ(RunProgram({"diff", "-r", photos_.dataset(), photos_ / "again"}).status, 0);
}

TEST_F(CommandsTest, PackCountsWhatItSkips) {
  ASSERT_EQ(mkfifo((photos_.source() + "/fifo").c_str(), 0600), 0);
  ASSERT_EQ(mkfifo((photos_.source() + "/n00/fifo").c_str(), 0600), 0);
  ASSERT_EQ(symlink("/proc/version", (photos_.source() + "/n00/version").c_str()), 0);
  const ProgramResult packed = Pcrfs({"pack", photos_.source(), photos_ / "again"});
  EXPECT_EQ(packed.status, 0);
  EXPECT_THAT(packed.err, HasSubstr("skipped 'n00/fifo': "));
  EXPECT_THAT(packed.err, HasSubstr("skipped: 'n00/version' holds more")) << "its name once";
  EXPECT_THAT(packed.err, HasSubstr("skipped 3 files and folders that"));
}

TEST_F(CommandsTest, TooFewDescriptorsEndAPackThatThenGoesOnAndAreNoReasonToSkipFiles) {
  PCRFS_NOT_UNDER_ADDRESS_SANITIZER();
  const ProgramResult result = photos_.RunAlone(R"(
    for limit in 7 8 9 10 12 14; do
      rm -rf "$scratch/d"
      if (ulimit -n $limit; exec "$pcrfs" pack "$dataset/../photos" "$scratch/d" --record-images 5 \
        --jobs 16) 2>"$scratch/err"; then continue; fi
      grep 'Too many open files' "$scratch/err"
      if grep skipped "$scratch/err"; then exit 1; fi
      "$pcrfs" pack "$dataset/../photos" "$scratch/d" --record-images 5
      diff -r "$dataset" "$scratch/d"
    done
  )");
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("Too many open files"));
}

TEST_F(CommandsTest, TooFewDescriptorsAreNoDamage) {
  PCRFS_NOT_UNDER_ADDRESS_SANITIZER();
  const ProgramResult result = photos_.RunAlone(R"(
    for limit in 6 7 8 9 10; do
      status=0
      (ulimit -n $limit; exec "$pcrfs" verify "$dataset" --jobs 8) 2>>"$scratch/err" || status=$?
      test $status != 3
      status=0
      (ulimit -n $limit; exec "$pcrfs" verify "$dataset" --jobs 8 --source "$dataset/../photos") 2>>"$scratch/err" ||
          status=$?
      test $status != 3
    done
    grep -c 'Too many open files' "$scratch/err"
  )");
  EXPECT_EQ(result.status, 0) << result.out << result.err;
}

TEST_F(CommandsTest, PackRefusesWhatItMust) {
  ExpectFailure(Pcrfs({"pack", photos_ / "none", photos_ / "again"}), "none");
  ExpectFailure(Pcrfs({"pack", photos_.source(), photos_.source() + "/inside"}), "inside");
  ExpectFailure(Pcrfs({"pack", photos_.source(), photos_.source()}), "photos");
  std::filesystem::create_directory(photos_ / "full");
  testing::WriteFile(photos_ / "full/file", std::string_view("x"));
  ExpectFailure(Pcrfs({"pack", photos_.source(), photos_ / "full"}), "full");
  ExpectFailure(Pcrfs({"pack", photos_.source()}), "DATASET is required", 2);
}

TEST_F(CommandsTest, InfoAddsUpToWhatLsShows) {
  const ProgramResult result = Pcrfs({"info", photos_.dataset(), "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto info = nlohmann::json::parse(result.out);
  std::set<std::string> keys;
  for (const auto& [key, value] : info.items()) keys.insert(key);
  EXPECT_THAT(keys, ::testing::IsSupersetOf({"format_version", "images", "opaque_files", "directories", "shards",
                                             "stored_bytes", "levels"}));
  const std::vector<std::string> files = FilesBelow(photos_.source());
  uint64_t images = 0, bytes = 0, image_bytes = 0;
  for (const std::string& file : files) {
    const bool image = file != "notes.txt";
    images += image ? 1 : 0;
    bytes += Whole(file).size();
    image_bytes += image ? Whole(file).size() : 0;
  }
  EXPECT_EQ(info["format_version"], 1);
  EXPECT_EQ(info["images"], images);
  EXPECT_EQ(info["opaque_files"], files.size() - images);
  EXPECT_EQ(info["directories"], 4);  // n00, n01, n02, empty
  const auto& kinds = info["kinds"];
  EXPECT_EQ(
      kinds["restorable"].get<uint64_t>() + kinds["not_restorable"].get<uint64_t>() + kinds["kept"].get<uint64_t>(),
      images);
  EXPECT_EQ(kinds["restorable"], images - 3);
  EXPECT_EQ(kinds["kept"], 3) << "2.jpg of each class";
  EXPECT_EQ(kinds["opaque_not_jpeg"], 1);
  EXPECT_EQ(kinds["opaque_jpeg"], 0);
  uint64_t stored = 0;
  int shards = 0;
  for (const auto& file : std::filesystem::directory_iterator(photos_.dataset())) {
    shards += file.path().extension() == ".pb" ? 0 : 1;
    stored += file.file_size();
  }
  EXPECT_EQ(info["shards"], shards);
  EXPECT_GT(shards, 3);
  EXPECT_EQ(info["stored_bytes"], stored);
  ASSERT_EQ(info["levels"].size(), 10u);
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(info["levels"][i]["level"], i + 1);
  EXPECT_EQ(info["levels"][9]["bytes"], bytes);
  EXPECT_EQ(info["levels"][9]["share"], 1.0);
  EXPECT_NEAR(info["levels"][9]["bytes_per_image"].get<double>(),
              static_cast<double>(image_bytes) / static_cast<double>(images), 0.01);
  EXPECT_NEAR(info["levels"][0]["share"].get<double>(),
              info["levels"][0]["bytes"].get<double>() / static_cast<double>(bytes), 1e-9);

  const ProgramResult table = Pcrfs({"info", photos_.dataset()});
  EXPECT_EQ(table.status, 0);
  EXPECT_THAT(table.out, HasSubstr(std::to_string(bytes)));
  EXPECT_THAT(table.out, HasSubstr("100.0 %"));
}

TEST_F(CommandsTest, LsListsFoldersAndFiles) {
  EXPECT_EQ(Pcrfs({"ls", photos_.dataset()}).out, "empty\nn00\nn01\nn02\nnotes.txt\n");
  EXPECT_EQ(Pcrfs({"ls", photos_.dataset(), "/n00/./"}).out, Pcrfs({"ls", photos_.dataset(), "n00"}).out);
  EXPECT_THAT(Pcrfs({"ls", photos_.dataset(), "n00"}).out, StartsWith("0.jpg\n1.jpg\n"));
  EXPECT_EQ(Pcrfs({"ls", photos_.dataset(), "empty"}).out, "");
  EXPECT_EQ(Pcrfs({"ls", photos_.dataset(), "n00/0.jpg"}).out, "n00/0.jpg\n");
  ExpectFailure(Pcrfs({"ls", photos_.dataset(), "n0"}), "there is no 'n0'");
  ExpectFailure(Pcrfs({"ls", photos_.dataset(), "n00/0.jpg/x"}), "there is no");
  ExpectFailure(Pcrfs({"ls", photos_.dataset(), "scan3/n00"}), "--level 3");
  ExpectFailure(Pcrfs({"ls", photos_.dataset(), "../x"}), "'..'");
  ExpectFailure(Pcrfs({"ls", photos_.dataset(), "--level", "11"}), "levels 1 to 10");
}

TEST_F(CommandsTest, LsWithAttributesShowsTheLevelsSizes) {
  const auto size_of = [&](const std::string& level) {
    const ProgramResult result = Pcrfs({"ls", "-l", photos_.dataset(), "n00/0.jpg", "--level", level});
    std::istringstream line(result.out);
    std::string mode, day, time, name;
    uint64_t size = 0;
    line >> mode >> size >> day >> time >> name;
    EXPECT_EQ(mode, "-rw-r--r--") << result.out;
    EXPECT_EQ(name, "n00/0.jpg");
    return size;
  };
  EXPECT_EQ(size_of("10"), Whole("n00/0.jpg").size());
  EXPECT_LT(size_of("1"), size_of("10"));
}

TEST_F(CommandsTest, CatWritesTheFileAtItsLevel) {
  for (const std::string& file : FilesBelow(photos_.source())) {
    const Bytes whole = Whole(file);
    EXPECT_EQ(Pcrfs({"cat", photos_.dataset(), file}).out, AsText(whole)) << file;
  }
  const Bytes whole = Whole("n00/0.jpg");
  const std::string low = Pcrfs({"cat", photos_.dataset(), "n00/0.jpg", "--level", "2"}).out;
  EXPECT_THAT(low, StartsWith("\xff\xd8"));
  EXPECT_EQ(low.substr(low.size() - 2), "\xff\xd9");
  EXPECT_EQ(low.substr(0, low.size() - 2), AsText(whole).substr(0, low.size() - 2));
  ExpectFailure(Pcrfs({"cat", photos_.dataset(), "n00"}), "is a folder");
  ExpectFailure(Pcrfs({"cat", photos_.dataset(), "nothing"}), "there is no 'nothing'");
}

TEST_F(CommandsTest, AFullDiskUnderStandardOutputIsNoticed) {
  for (const std::string command :
       {"cat \"$1\" n00/0.jpg", "ls \"$1\"", "info \"$1\"", "info --json \"$1\"", "--help", "verify \"$1\""}) {
    const ProgramResult result =
        RunProgram({"sh", "-c", "exec \"$0\" " + command + " > /dev/full", PCRFS_PROGRAM, photos_.dataset()});
    EXPECT_EQ(result.status, 1) << command;
    EXPECT_THAT(result.err, HasSubstr("cannot write to standard output")) << command;
  }
  const ProgramResult closed = RunProgram({"sh", "-c", "exec \"$0\" ls \"$1\" >&-", PCRFS_PROGRAM, photos_.dataset()});
  EXPECT_EQ(closed.status, 1);
}

TEST_F(CommandsTest, ExtractGivesBytesModesAndTimesBack) {
  const std::string out = photos_ / "out";
  std::filesystem::permissions(photos_.source() + "/n01", std::filesystem::perms(0500));
  std::filesystem::permissions(photos_.source() + "/n01/0.jpg", std::filesystem::perms(0640));
  ASSERT_EQ(Pcrfs({"pack", photos_.source(), photos_ / "again"}).status, 0);
  const ProgramResult extracted = Pcrfs({"extract", photos_ / "again", out});
  ASSERT_EQ(extracted.status, 0) << extracted.err;
  EXPECT_EQ(FilesBelow(out), FilesBelow(photos_.source()));
  for (const std::string& file : FilesBelow(out)) EXPECT_TRUE(ReadFile(out + "/" + file) == Whole(file)) << file;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(photos_.source())) {
    struct stat source {
    }, made{};
    ASSERT_EQ(lstat(entry.path().c_str(), &source), 0);
    const std::string path = out + entry.path().string().substr(photos_.source().size());
    ASSERT_EQ(lstat(path.c_str(), &made), 0) << path;
    EXPECT_EQ(made.st_mode, source.st_mode) << path;
    EXPECT_EQ(made.st_mtim.tv_sec, source.st_mtim.tv_sec) << path;
    EXPECT_EQ(made.st_mtim.tv_nsec, source.st_mtim.tv_nsec) << path;
  }
  ExpectFailure(Pcrfs({"extract", photos_.dataset(), out}), "is not empty");
}

TEST_F(CommandsTest, ExtractAtALevelIsWhatCatWrites) {
  const std::string out = photos_ / "out";
  std::filesystem::create_directory(out);  // an empty one may be there
  ASSERT_EQ(Pcrfs({"extract", photos_.dataset(), out, "--level", "1"}).status, 0);
  for (const std::string& file : FilesBelow(photos_.source())) {
    const Bytes bytes = ReadFile(out + "/" + file);
    EXPECT_EQ(Pcrfs({"cat", photos_.dataset(), file, "--level", "1"}).out, AsText(bytes));
  }
}

TEST_F(CommandsTest, ExtractStaysOutOfTheDataSet) {
  for (const std::string& inside : {std::string("/x"), std::string("/x/"), std::string("/../data set, packed/x")}) {
    ExpectFailure(Pcrfs({"extract", photos_.dataset(), photos_.dataset() + inside}), "must not contain one another");
    EXPECT_FALSE(std::filesystem::exists(photos_.dataset() + "/x"));
  }
  ExpectFailure(Pcrfs({"extract", photos_.dataset(), photos_.dataset()}), "must not contain one another");
  ExpectFailure(Pcrfs({"extract", photos_.dataset(), photos_ / ""}), "must not contain one another");
  EXPECT_EQ(Pcrfs({"extract", photos_.dataset(), photos_.dataset() + " beside"}).status, 0);
}

TEST_F(CommandsTest, AFileWithASlashBehindItsNameIsNoFolder) {
  for (const std::string command : {"ls", "cat"})
    for (const std::string path : {"notes.txt/", "n00/0.jpg/", "n00/0.jpg/."})
      ExpectFailure(Pcrfs({command, photos_.dataset(), path}), "is not a folder");
  EXPECT_EQ(Pcrfs({"ls", photos_.dataset(), "n00/"}).status, 0);
}

TEST_F(CommandsTest, DamageIsFoundByVerifyAndLeftOutByExtract) {
  const ProgramResult sound = Pcrfs({"verify", photos_.dataset()});
  EXPECT_EQ(sound.status, 0) << sound.out << sound.err;
  EXPECT_THAT(sound.out, HasSubstr("no fault"));

  const std::string shard = photos_.dataset() + "/PCR_0.pcr";
  const Bytes whole = Whole("n00/0.jpg");
  Bytes bytes = ReadFile(shard);
  // In the middle of n00/0.jpg's last fragment.
  const auto at = std::search(bytes.begin(), bytes.end(), whole.end() - 60, whole.end() - 2);
  ASSERT_NE(at, bytes.end());
  *at ^= 1;
  testing::WriteFile(shard, bytes);

  const ProgramResult faulty = Pcrfs({"verify", photos_.dataset()});
  EXPECT_EQ(faulty.status, 3);
  EXPECT_THAT(faulty.out, HasSubstr("PCR_0.pcr"));
  EXPECT_THAT(faulty.out, HasSubstr("1 fault"));

  ExpectFailure(Pcrfs({"cat", photos_.dataset(), "n00/0.jpg"}), "0.jpg");
  EXPECT_EQ(Pcrfs({"cat", photos_.dataset(), "n00/0.jpg", "--level", "9"}).status, 0);
  const ProgramResult extracted = Pcrfs({"extract", photos_.dataset(), photos_ / "out"});
  ExpectFailure(extracted, "left out 'n00/0.jpg': shard '");
  ExpectFailure(extracted, "left out 1 file that could not be read");
  std::vector<std::string> others = FilesBelow(photos_.source());
  std::erase(others, "n00/0.jpg");
  EXPECT_EQ(FilesBelow(photos_ / "out"), others);  // nothing half-written either
}

TEST_F(CommandsTest, VerifyTellsOfADamagedListAndOfShardsThatAreInNone) {
  std::filesystem::copy_file(photos_.dataset() + "/PCR_0.pcr", photos_.dataset() + "/PCR_7.pcr");
  const ProgramResult unlisted = Pcrfs({"verify", photos_.dataset()});
  EXPECT_EQ(unlisted.status, 0);
  EXPECT_THAT(unlisted.err, HasSubstr("'PCR_7.pcr' is not listed"));
  std::filesystem::resize_file(photos_.dataset() + "/PCR_index.pb", 20);
  const ProgramResult damaged = Pcrfs({"verify", photos_.dataset()});
  EXPECT_EQ(damaged.status, 3);
  EXPECT_THAT(damaged.out, StartsWith("fault: "));
}

TEST_F(CommandsTest, WhatIsNoDataSetIsRefusedByAll) {
  for (const std::string command : {"info", "ls", "verify"}) {
    ExpectFailure(Pcrfs({command, photos_ / "none"}), "none");
    ExpectFailure(Pcrfs({command, photos_.source()}), "PCR_index.pb");
  }
  ExpectFailure(Pcrfs({"cat", photos_ / "none", "x"}), "none");
  ExpectFailure(Pcrfs({"extract", photos_ / "none", photos_ / "out"}), "none");
  EXPECT_FALSE(std::filesystem::exists(photos_ / "out"));
}

}  // namespace
}  // namespace pcrfs
