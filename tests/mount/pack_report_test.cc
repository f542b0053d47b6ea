// What pack says of the files that are no ordinary conversions: its report, its summary and --strict.
#include "mount/pack_report_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "format/restore_record.h"
#include "tests/support/jpeg_surgery.h"
#include "tests/support/mount_fixture.h"
#include "tests/support/test_jpeg.h"

namespace pcrfs {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::MakeJpeg;
using ::testing::Not;
using testing::ProgramResult;
using testing::ReadFile;
using testing::RunProgram;
using testing::TempDir;
using testing::WriteFile;

// "kind reason" by path; the lines must be in the order of paths.
std::map<std::string, std::string> Findings(const std::string& report) {
  std::map<std::string, std::string> findings;
  std::istringstream lines(std::string(AsText(ReadFile(report))));
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    std::string path = json["path"];
    if (json.contains("path_hex")) {
      path.clear();
      const std::string hex = json["path_hex"];
      for (size_t i = 0; i < hex.size(); i += 2) path += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    }
    EXPECT_LT(last, path) << "not in the order of paths";
    EXPECT_NE(json["detail"], "");
    last = path;
    findings[path] = std::string(json["kind"]) + " " + std::string(json["reason"]);
  }
  return findings;
}

// A sound image whose bytes no record gives back: it has more fill than a record holds.
Bytes NotRestorable() {
  Bytes jpeg = MakeJpeg({});
  testing::InsertAt(jpeg, testing::FrameOffset(jpeg), Bytes(kMaxRestoreBytes, 0xFF));
  return jpeg;
}

Bytes Truncated() {
  Bytes jpeg = MakeJpeg({});
  jpeg.resize(jpeg.size() / 2);
  return jpeg;
}

class PackReport : public ::testing::Test {
 protected:
  PackReport() { fs::create_directory(source()); }

  [[nodiscard]] std::string source() const { return folder_ / "source"; }
  [[nodiscard]] std::string dataset() const { return folder_ / "set"; }
  [[nodiscard]] std::string report() const { return folder_ / "report.jsonl"; }
  void Add(const std::string& name, ByteSpan bytes) const { WriteFile(source() + "/" + name, bytes); }
  void AddEveryKind() const {
    Add("a/ordinary.jpg", MakeJpeg({}));
    Add("a/kept.jpg", MakeJpeg({.progressive = true}));
    Add("b/fill.jpg", NotRestorable());
    Add("b/half.jpg", Truncated());
    Add("b/two.jpg", MakeJpeg({.arithmetic = true}));
    const Bytes progressive = MakeJpeg({.progressive = true});
    Add("c/lacks a scan.jpg", testing::WithoutScan(progressive, 9));
    Add("c/notes.txt", AsBytes("no image"));
    ASSERT_EQ(mkfifo((source() + "/d fifo").c_str(), 0600), 0);
    ASSERT_EQ(symlink("nothing", (source() + "/e link").c_str()), 0);
  }
  static std::map<std::string, std::string> EveryFinding() {
    return {{"a/kept.jpg", "kept progressive"}, {"b/fill.jpg", "converted not_restorable"},
            {"b/half.jpg", "opaque damaged"},   {"c/lacks a scan.jpg", "opaque incomplete"},
            {"c/notes.txt", "opaque not_jpeg"}, {"d fifo", "skipped special_file"},
            {"e link", "skipped broken_link"}};
  }
  [[nodiscard]] ProgramResult Pack(const std::vector<std::string>& options = {}) const {
    std::vector<std::string> words = {PCRFS_PROGRAM, "pack", source(), dataset(), "--record-images", "2"};
    words.insert(words.end(), options.begin(), options.end());
    return RunProgram(words);
  }
  [[nodiscard]] ProgramResult PackWithReport() const { return Pack({"--report", report()}); }

  TempDir folder_;
};

TEST_F(PackReport, OneLineForEachFileThatIsNoOrdinaryConversion) {
  AddEveryKind();
  const ProgramResult packed = PackWithReport();
  EXPECT_EQ(packed.status, 0) << packed.err;
  EXPECT_EQ(Findings(report()), EveryFinding());
  EXPECT_FALSE(fs::exists(report() + ".tmp"));
  EXPECT_FALSE(fs::exists(report() + ".sort"));
}

TEST_F(PackReport, TheSummaryCountsEachFileOnceAndGivesBytesBeforeAndAfter) {
  AddEveryKind();
  const std::string summary = Pack().out;
  EXPECT_THAT(summary, HasSubstr(" 2  converted, and can be restored"));
  for (const char* line :
       {"converted, and cannot be restored", "progressive, kept as it was", "kept whole at every level: damaged",
        "kept whole at every level: incomplete", "kept whole at every level: not JPEG", "skipped: a socket, FIFO or",
        "skipped: a symbolic link"})
    EXPECT_THAT(summary, HasSubstr(std::string(" 1  ") + line));
  uint64_t before = 0, after = 0;
  for (const std::string& file : testing::FilesBelow(source()))
    if (file != "e link") before += fs::file_size(source() + "/" + file);
  for (const auto& file : fs::directory_iterator(dataset())) after += file.file_size();
  EXPECT_THAT(summary, HasSubstr(" " + std::to_string(before) + "  bytes before\n"));
  EXPECT_THAT(summary, HasSubstr(" " + std::to_string(after) + "  bytes after, in 4 shards"));
}

std::vector<nlohmann::json> JsonLines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST_F(PackReport, ProgressForMachinesIsJsonAndNothingElse) {
  AddEveryKind();
  const ProgramResult packed = Pack({"--json-progress", "--exclude", "n*"});
  EXPECT_EQ(packed.status, 0) << packed.err;
  const std::vector<nlohmann::json> lines = JsonLines(packed.out);
  ASSERT_GE(lines.size(), 4U);
  EXPECT_EQ(lines.front().at("phase"), "listing");
  const nlohmann::json& last_progress = lines.at(lines.size() - 2);
  EXPECT_EQ(last_progress.at("phase"), "packing");
  EXPECT_EQ(last_progress.at("files_done"), 6);
  EXPECT_EQ(last_progress.at("files_total"), 6);
  EXPECT_EQ(last_progress.at("bytes_done"), last_progress.at("bytes_total"));
  const nlohmann::json& done = lines.back();
  EXPECT_EQ(done.at("phase"), "done");
  EXPECT_EQ(done.at("converted"), 3);
  EXPECT_EQ(done.at("kept"), 1);
  EXPECT_EQ(done.at("opaque").at("damaged"), 1);
  EXPECT_EQ(done.at("skipped").at("broken_link"), 1);
  EXPECT_EQ(done.at("excluded"), 1);
}

TEST_F(PackReport, WhenTheReaderOfItsProgressGoesThePackGoesOn) {
  AddEveryKind();
  const ProgramResult packed =
      RunProgram({"bash", "-c", R"("$0" pack "$1" "$2" --json-progress | true; exit "${PIPESTATUS[0]}")", PCRFS_PROGRAM,
                  source(), dataset()});
  // 0 where it was done before the reader went, which only a busy machine shows.
  EXPECT_TRUE(packed.status == 0 || (packed.status == 1 && packed.err.find("standard output") != std::string::npos))
      << packed.status << packed.err;
  EXPECT_EQ(RunProgram({PCRFS_PROGRAM, "verify", dataset()}).status, 0);
}

TEST_F(PackReport, ADryRunCountsAndEstimatesAndWritesNothing) {
  AddEveryKind();
  const ProgramResult human = Pack({"--dry-run"});
  EXPECT_EQ(human.status, 0) << human.err;
  EXPECT_THAT(human.out, HasSubstr(" 7  files would be packed, in 3 folders"));
  EXPECT_THAT(human.out, HasSubstr(" 1  kept whole at every level: damaged"));
  EXPECT_THAT(human.out, HasSubstr("Nothing was written"));
  EXPECT_THAT(human.err, HasSubstr("e link"));
  EXPECT_FALSE(fs::exists(dataset()));

  const ProgramResult machine = Pack({"--dry-run", "--json-progress"});
  const nlohmann::json estimate = JsonLines(machine.out).back();
  EXPECT_EQ(estimate.at("phase"), "estimate");
  EXPECT_EQ(estimate.at("files"), 7);
  const nlohmann::json packed = JsonLines(Pack({"--json-progress"}).out).back();
  EXPECT_EQ(estimate.at("shards"), packed.at("shards"));
  EXPECT_EQ(estimate.at("bytes"), packed.at("source_bytes"));
  for (const char* kind : {"converted", "kept", "not_restorable", "opaque"})
    EXPECT_EQ(estimate.at("tried").at(kind), packed.at(kind)) << kind;
  EXPECT_EQ(estimate.at("skipped"), packed.at("skipped"));
}

TEST_F(PackReport, ADryRunRefusesWhatThePackWould) {
  EXPECT_EQ(RunProgram({PCRFS_PROGRAM, "pack", "--dry-run", source() + "/none", dataset()}).status, 1);
  EXPECT_EQ(RunProgram({PCRFS_PROGRAM, "pack", "--dry-run", source(), source() + "/set"}).status, 1);
}

// Lines of "count  words".
std::set<std::string> KindLinesOf(const std::string& text) {
  std::set<std::string> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);)
    for (const char* kind : {"converted, ", "progressive, ", "kept whole"})
      if (line.find(std::string("  ") + kind) != std::string::npos) lines.insert(line);
  return lines;
}

TEST_F(PackReport, InfoCountsTheSameKindsAndReasonsInTheSameWords) {
  AddEveryKind();
  Add("b/big.jpg", testing::WithFrameSize(MakeJpeg({}), 65501, 120));
  for (const std::vector<std::string>& options : {std::vector<std::string>{}, {"--exact"}, {"--rescan"}}) {
    fs::remove_all(dataset());
    const ProgramResult packed = Pack(options);
    const ProgramResult info = RunProgram({PCRFS_PROGRAM, "info", dataset()});
    const ProgramResult json = RunProgram({PCRFS_PROGRAM, "info", dataset(), "--json"});
    ASSERT_EQ(packed.status + info.status + json.status, 0) << packed.err << info.err << json.err;
    EXPECT_GE(KindLinesOf(packed.out).size(), 6u);
    EXPECT_EQ(KindLinesOf(info.out), KindLinesOf(packed.out));
    const auto reasons = nlohmann::json::parse(json.out)["opaque_reasons"];
    const bool exact = !options.empty() && options[0] == "--exact";
    EXPECT_EQ(reasons, nlohmann::json({{"not_jpeg", 1},
                                       {"unsupported", 0},
                                       {"damaged", 1},
                                       {"incomplete", 1},
                                       {"markers_between", 0},
                                       {"too_large", 1},
                                       {"proof_failed", 0},
                                       {"not_restorable", exact ? 1 : 0},
                                       {"unknown", 0}}));
  }
}

TEST_F(PackReport, NamesWithLineFeedsBackslashesAndBytesThatAreNoUtf8ComeBack) {
  const std::map<std::string, std::string> names = {{"line\nfeed", "opaque not_jpeg"},
                                                    {"back\\slash\\n", "opaque not_jpeg"},
                                                    {"\xff\xfe latin \xe9", "opaque not_jpeg"},
                                                    {"quote\"\x01\x7f", "opaque not_jpeg"},
                                                    {"\xef\xbf\xbd is valid", "opaque not_jpeg"}};
  for (const auto& [name, kind] : names) Add(name, AsBytes("text"));
  ASSERT_EQ(PackWithReport().status, 0);
  EXPECT_EQ(Findings(report()), names);
}

// A pack that ended, as one that is killed does, when shards were in place and the data set was not.
class InterruptedObserver : public PackObserver {
 public:
  Result<void> OnShardsComplete() override { return Fail(ErrorCode::kNoSpace, "as if"); }
};

TEST_F(PackReport, OfAContinuedPackSpeaksOfTheFilesPackedBefore) {
  AddEveryKind();
  ASSERT_EQ(PackWithReport().status, 0);
  const Bytes whole = ReadFile(report());
  fs::remove_all(dataset());
  fs::remove(report());
  PackOptions options;
  options.record_images = 2;
  InterruptedObserver interrupted;
  ASSERT_FALSE(pcrfs::Pack(source(), dataset(), options, interrupted));
  ASSERT_TRUE(fs::exists(dataset() + "/PCR_1.pcr"));
  struct stat before {
  }, after{};
  ASSERT_EQ(stat((dataset() + "/PCR_1.pcr").c_str(), &before), 0);
  const ProgramResult continued = Pack({"--report", report(), "--strict"});
  EXPECT_EQ(continued.status, 3) << "damage packed before the interruption counts, too: " << continued.err;
  ASSERT_EQ(stat((dataset() + "/PCR_1.pcr").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino) << "the shard was made anew, so nothing was tried";
  EXPECT_EQ(AsText(ReadFile(report())), AsText(whole));
  EXPECT_THAT(continued.out, HasSubstr(" 1  kept whole at every level: damaged"));
}

TEST_F(PackReport, WhatLeftTheSourceAfterAnInterruptionIsStillReported) {
  AddEveryKind();
  PackOptions options;
  options.record_images = 2;
  InterruptedObserver interrupted;
  ASSERT_FALSE(pcrfs::Pack(source(), dataset(), options, interrupted));
  for (const char* name : {"/b/fill.jpg", "/b/half.jpg"}) fs::remove(source() + name);
  ASSERT_EQ(PackWithReport().status, 0);
  EXPECT_EQ(Findings(report()), EveryFinding());
  EXPECT_THAT(AsText(ReadFile(report())), HasSubstr("no longer known why"));
}

TEST_F(PackReport, ThatCannotBeWrittenKeepsTheDataSetFromAppearing) {
  AddEveryKind();
  const ProgramResult nowhere = Pack({"--report", folder_ / "no/such/folder/report"});
  EXPECT_EQ(nowhere.status, 1);
  EXPECT_THAT(nowhere.err, HasSubstr("no/such/folder/report"));
  EXPECT_FALSE(fs::exists(dataset())) << "known before the pack";
  fs::create_directory(dataset());
  for (const std::string& inside : {source() + "/report", dataset() + "/report", folder_ / "source/../source/a/r"}) {
    const ProgramResult refused = Pack({"--report", inside});
    EXPECT_EQ(refused.status, 1);
    EXPECT_THAT(refused.err, HasSubstr("must not lie in"));
  }
  EXPECT_THAT(Pack({"--report", "/dev/null"}).err, HasSubstr("no regular file"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_TRUE(fs::is_empty(dataset()));
}

TEST_F(PackReport, AFailedPackLeavesTheOldReportAlone) {
  WriteFile(report(), AsBytes("old"));
  fs::remove_all(source());
  EXPECT_EQ(PackWithReport().status, 1);
  EXPECT_EQ(AsText(ReadFile(report())), "old");
  EXPECT_FALSE(fs::exists(report() + ".tmp"));
}

TEST_F(PackReport, StrictMindsDamageAndSkippedFilesAndNothingElse) {
  Add("ordinary.jpg", MakeJpeg({}));
  Add("kept.jpg", MakeJpeg({.progressive = true}));
  Add("fill.jpg", NotRestorable());
  Add("notes.txt", AsBytes("no image"));
  EXPECT_EQ(Pack({"--strict"}).status, 0);
  fs::remove_all(dataset());
  Add("half.jpg", Truncated());
  EXPECT_EQ(Pack().status, 0);
  fs::remove_all(dataset());
  EXPECT_EQ(Pack({"--strict"}).status, 3);
  EXPECT_EQ(RunProgram({PCRFS_PROGRAM, "verify", dataset()}).status, 0) << "the data set is complete all the same";
  fs::remove_all(dataset());
  fs::remove(source() + "/half.jpg");
  ASSERT_EQ(mkfifo((source() + "/fifo").c_str(), 0600), 0);
  EXPECT_EQ(Pack({"--strict"}).status, 3);
}

TEST_F(PackReport, ExactKeepsWholeWhatCannotBeRestored) {
  AddEveryKind();
  ASSERT_EQ(Pack({"--exact", "--report", report()}).status, 0);
  auto expected = EveryFinding();
  expected["b/fill.jpg"] = "opaque not_restorable";
  EXPECT_EQ(Findings(report()), expected);
  const Bytes fill = NotRestorable();
  EXPECT_TRUE(RunProgram({PCRFS_PROGRAM, "cat", dataset(), "b/fill.jpg", "--level", "1"}).out == AsText(fill));
}

TEST_F(PackReport, RescanConvertsAProgressiveFileWithScansOfItsOwn) {
  const std::vector<testing::TestScan> script = {
      {{0, 1, 2}, 0, 0, 0, 0}, {{0}, 1, 63, 0, 0}, {{1}, 1, 63, 0, 0}, {{2}, 1, 63, 0, 0}};
  Add("own.jpg", MakeJpeg({.progressive = true, .script = script}));
  ASSERT_EQ(PackWithReport().status, 0);
  EXPECT_EQ(Findings(report())["own.jpg"], "kept progressive");
  fs::remove_all(dataset());
  ASSERT_EQ(Pack({"--rescan", "--report", report()}).status, 0);
  EXPECT_EQ(Findings(report())["own.jpg"], "converted not_restorable");
}

}  // namespace
}  // namespace pcrfs
