// Data sets whose checksums are all right and whose names and structure are meant to do harm: every command that opens
// one refuses it in a sentence, and nothing is mounted, shown or written anywhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "mount/mount_point.h"
#include "tests/support/hostile_shard.h"
#include "tests/support/mount_fixture.h"

namespace pcrfs {
namespace {

using ::testing::HasSubstr;
using testing::HostileEntry;
using testing::HostileShard;
using testing::ProgramResult;

Bytes Text(std::string_view text) { return {text.begin(), text.end()}; }

HostileEntry Image(uint64_t directory, const std::string& name) {
  std::vector<Bytes> fragments(kShardLevels);
  fragments[0] = {0xFF, 0xD8, 1, 2, 3};
  return {directory, name, fragments};
}
HostileEntry File(uint64_t directory, const std::string& name) { return {directory, name, {Text("some text\n")}}; }

// One shard with a file or an image of that name in the root or in "a".
std::vector<HostileShard> Named(const std::string& name, bool image, uint64_t directory = 0) {
  HostileShard shard{0, {"a"}, {Image(1, "good")}, {File(0, "fine")}, {}};
  if (image)
    shard.images.push_back(Image(directory, name));
  else
    shard.opaque.push_back(File(directory, name));
  return {shard};
}

std::vector<HostileShard> WithDirectories(const std::vector<std::string>& directories) {
  return {{0, directories, {Image(1, "good")}, {}, {}}};
}

struct Case {
  std::string what;
  std::vector<HostileShard> shards;
  // What the mount's sentence and verify's report are to say, among other things.
  std::string mount_says, verify_says;
};

void PrintTo(const Case& given, std::ostream* out) { *out << given.what; }

const std::string& LongName() {
  static const std::string name(256, 'n');
  return name;
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string what, std::vector<HostileShard> shards, std::string says) {
    cases.push_back({std::move(what), std::move(shards), says, says});
  };
  for (const bool image : {false, true}) {
    const std::string kind = image ? "Image" : "File";
    add(kind + "CalledDotDot", Named("..", image), "'..'");
    add(kind + "CalledDotDotBelow", Named("..", image, 1), "'..'");
    add(kind + "CalledDot", Named(".", image), "'.'");
    add(kind + "WithoutAName", Named("", image), "''");
    add(kind + "WithASlash", Named("a/b", image), "'a/b'");
    add(kind + "WithAnAbsolutePath", Named("/tmp/pcrfs-escaped", image), "'/tmp/pcrfs-escaped'");
    add(kind + "ThatClimbs", Named("../../escaped", image), "'../../escaped'");
    add(kind + "WithALongName", Named(LongName(), image), "nnn");
    add(kind + "InADirectoryThatIsNot", Named("x", image, 2), "directory 2 of 1");
    add(kind + "CalledAsADirectory", Named("a", image), "'a'");
    add(kind + "TwiceInItsShard", Named(image ? "good" : "fine", image, image ? 1 : 0), image ? "'a/good'" : "'fine'");
  }
  add("FileWithANul", Named(std::string("a\0b", 3), false), "'a\\x00b'");
  add("DirectoryThatClimbs", WithDirectories({"..", "../x"}), "'..'");
  add("DirectoryFromTheRoot", WithDirectories({"/a"}), "'/a'");
  add("DirectoryThatEndsInASlash", WithDirectories({"a", "a/"}), "'a/'");
  add("DirectoryWithADot", WithDirectories({"a", "a/."}), "'a/.'");
  add("DirectoryTwice", WithDirectories({"a", "a"}), "'a'");
  add("DirectoriesOutOfOrder", WithDirectories({"b", "a"}), "'a'");
  add("DirectoryWithoutItsParent", WithDirectories({"a/b"}), "'a/b'");
  const HostileShard first{0, {"a"}, {Image(1, "same")}, {}, {}};
  cases.push_back({"ImageInTwoShards",
                   {first, {1, {"a"}, {Image(1, "same")}, {}, {}}},
                   "'a/same' is held by two shards, 'PCR_0.pcr' and 'PCR_1.pcr'",
                   "'a/same' is in two shards, PCR_0.pcr and PCR_1.pcr"});
  cases.push_back({"ImageAndFileOfOneName",
                   {first, {1, {"a"}, {}, {File(1, "same")}, {}}},
                   "'a/same' is held by two shards, 'PCR_0.pcr' and 'PCR_1.files'",
                   "'a/same' is in two shards, PCR_0.pcr and PCR_1.files"});
  cases.push_back({"FileThatIsAFolderElsewhere",
                   {first, {1, {"a", "a/same"}, {Image(2, "x")}, {}, {}}},
                   "'a/same' is a directory in shard 'PCR_1.pcr' and a file in shard 'PCR_0.pcr'",
                   "'a/same' is a file in PCR_0.pcr and a folder in PCR_1.pcr"});
  cases.push_back({"FolderThatIsAFileElsewhere",
                   {first, {1, {}, {}, {File(0, "a")}, {}}},
                   "'a' is a directory in shard 'PCR_0.pcr' and a file in shard 'PCR_1.files'",
                   "'a' is a file in PCR_1.files and a folder in PCR_0.pcr"});
  return cases;
}

class HostileDatasetTest : public ::testing::TestWithParam<Case> {
 protected:
  HostileDatasetTest() {
    for (const std::string& path : {dataset_, mount_point_}) std::filesystem::create_directory(path);
    testing::WriteHostileDataset(dataset_, GetParam().shards);
  }
  ~HostileDatasetTest() override {
    if (FindMount(mount_point_)) (void)testing::RunProgram({PCRFS_PROGRAM, "umount", mount_point_});
  }

  ProgramResult Pcrfs(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"env", "PCRFS_CACHE_DIR=" + cache_, PCRFS_PROGRAM});
    return testing::RunProgram(arguments);
  }
  static void ExpectOneSentence(const ProgramResult& result, const std::string& says) {
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr(says));
    EXPECT_EQ(result.out, "");
  }

  testing::TempDir folder_;
  const std::string dataset_ = folder_ / "set", mount_point_ = folder_ / "mnt", cache_ = folder_ / "cache";
};
INSTANTIATE_TEST_SUITE_P(Cases, HostileDatasetTest, ::testing::ValuesIn(Cases()),
                         [](const auto& given) { return given.param.what; });

TEST_P(HostileDatasetTest, IsRefusedByEveryCommandAndEscapesNowhere) {
  const Case& given = GetParam();
  ExpectOneSentence(Pcrfs({"mount", dataset_, mount_point_}), given.mount_says);
  EXPECT_FALSE(FindMount(mount_point_));
  EXPECT_TRUE(testing::Eventually([&] { return testing::ProcessesOf(mount_point_).empty(); }));

  const ProgramResult verified = Pcrfs({"verify", dataset_});
  EXPECT_EQ(verified.status, 3);
  EXPECT_THAT(verified.out + verified.err, HasSubstr(given.verify_says));

  ExpectOneSentence(Pcrfs({"info", dataset_}), given.verify_says);
  ExpectOneSentence(Pcrfs({"ls", dataset_}), given.verify_says);
  ExpectOneSentence(Pcrfs({"ls", dataset_, "a"}), given.verify_says);
  for (const char* path : {"a/same", "a/good", "fine", "a"})
    ExpectOneSentence(Pcrfs({"cat", dataset_, path}), given.verify_says);

  const std::string destination = folder_ / "out";
  EXPECT_EQ(Pcrfs({"extract", dataset_, destination}).status, 1);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    names.push_back(entry.path().filename());
  EXPECT_THAT(names, ::testing::IsSubsetOf({"set", "mnt", "cache", "out"}));
  EXPECT_NE(access("/tmp/pcrfs-escaped", F_OK), 0);
}

// So that the cases above are refused for what is wrong with them.
TEST(HostileShardTest, WithNothingWrongIsGood) {
  const testing::PackedPhotos photos;
  const std::string dataset = photos / "set";
  std::filesystem::create_directory(dataset);
  testing::WriteHostileDataset(dataset, {{0, {"a", "a/b"}, {Image(1, "good"), Image(2, "x")}, {File(0, "fine")}, {}},
                                         {1, {"a"}, {}, {File(1, "scan1")}, {}}});
  EXPECT_EQ(photos.Pcrfs({"verify", dataset}).status, 0);
  ASSERT_EQ(photos.Pcrfs({"mount", dataset, photos.mount_point()}).status, 0);
  EXPECT_THAT(testing::FilesBelow(photos.mount_point() + "/scan3"),
              ::testing::ElementsAre("a/b/x", "a/good", "a/scan1", "fine"));
  EXPECT_EQ(testing::ReadFile(photos.mount_point() + "/scan3/fine"), Text("some text\n"));
  EXPECT_EQ(photos.Pcrfs({"umount", photos.mount_point()}).status, 0);
}

}  // namespace
}  // namespace pcrfs
