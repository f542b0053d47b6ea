#include "format/source_tree.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "tests/support/temp_dir.h"

namespace pcrfs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::TempDir;
using ::testing::UnorderedElementsAre;
using testing::WriteFile;

struct Listing {
  std::vector<SourceRecord> records;
  std::map<std::string, std::string> skipped;

  // "F path", "E path" (empty folder), "D path" (other folder).
  [[nodiscard]] std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    for (const SourceRecord& record : records)
      lines.push_back(std::string(1, "DEF"[static_cast<int>(record.kind)]) + ' ' + record.path);
    return lines;
  }
};

Listing List(const std::string& source, const ListingOptions& options = {}) {
  Listing listing;
  auto tree = SourceTree::Open(source, options, [&](const std::string& path, const Skipped& why) {
    EXPECT_TRUE(listing.skipped.emplace(path, why.detail).second) << path << " reported twice";
  });
  EXPECT_TRUE(tree) << tree.error().message;
  if (!tree) return listing;
  while (true) {
    auto record = tree->Next();
    EXPECT_TRUE(record) << record.error().message;
    if (!record || !*record) break;
    listing.records.push_back(**record);
  }
  EXPECT_FALSE(tree->Next().value());
  return listing;
}

void MakeFolder(const std::string& path) { ASSERT_EQ(mkdir(path.c_str(), 0755), 0) << path; }
void MakeLink(const std::string& target, const std::string& path) {
  ASSERT_EQ(symlink(target.c_str(), path.c_str()), 0) << path;
}

TEST(SourceTree, ListsInByteOrderOfFullPaths) {
  TempDir dir;
  for (const char* path : {"a.b", "a/x", "a/b/c", "a0", "b/-", "B", "\xff", "a/b-c", "a b/x"})
    WriteFile(dir / path, "1");
  const Listing listing = List(dir.path());
  EXPECT_THAT(listing.Lines(), ElementsAre("D ", "F B", "D a b", "F a b/x", "F a.b", "D a", "F a/b-c", "D a/b",
                                           "F a/b/c", "F a/x", "F a0", "D b", "F b/-", "F \xff"));
  EXPECT_THAT(listing.skipped, IsEmpty());
}

TEST(SourceTree, ItemsAreSortedAsTheirPathsAreWhateverTheNames) {
  TempDir dir;
  // Every tree of depth two over bytes around '/' that a name may hold.
  const std::vector<std::string> bytes = {"\x01", "-", ".x", "0", "\x7f", "\x80", "\xff"};
  for (const std::string& a : bytes) {
    WriteFile(dir / (a + "f"), "");
    for (const std::string& b : bytes) WriteFile(dir / (a + "/" + b), ""), WriteFile(dir / (a + b + "/g"), "");
  }
  std::vector<std::string> items;
  for (const SourceRecord& record : List(dir.path()).records)
    if (record.is_item()) items.push_back(record.path);
  EXPECT_EQ(items.size(), bytes.size() * (1 + 2 * bytes.size()));
  EXPECT_TRUE(std::is_sorted(items.begin(), items.end()));
}

TEST(SourceTree, KeepsRawNamesAndAttributes) {
  TempDir dir;
  const std::vector<std::string> names = {"new\nline", "\xff\xfe not utf-8", std::string(255, 'n'), " ", "\\", "*"};
  for (const std::string& name : names) WriteFile(dir / name, name);
  ASSERT_EQ(chmod((dir / names[0]).c_str(), 06751), 0);
  const timespec times[2] = {{0, 0}, {-5, 250'000'000}};
  ASSERT_EQ(utimensat(AT_FDCWD, (dir / names[0]).c_str(), times, 0), 0);
  ASSERT_EQ(chmod(dir.path().c_str(), 01750), 0);

  const Listing listing = List(dir.path());
  ASSERT_EQ(listing.records.size(), names.size() + 1);
  EXPECT_EQ(listing.records[0].attributes.mode, 01750U);
  for (const std::string& name : names) {
    const auto record = std::find_if(listing.records.begin(), listing.records.end(),
                                     [&](const SourceRecord& r) { return r.path == name; });
    ASSERT_NE(record, listing.records.end()) << name;
    EXPECT_EQ(record->size, name.size());
    if (name != names[0]) continue;
    EXPECT_EQ(record->attributes.mode, 06751U);
    EXPECT_EQ(record->attributes.mtime_ns, -5'000'000'000 + 250'000'000);
  }
}

TEST(SourceTree, TimesBeyondSixtyFourBitsOfNanosecondsAreClamped) {
  struct stat status = {};
  status.st_mtim.tv_sec = std::numeric_limits<time_t>::max();
  EXPECT_GT(AttributesOf(status).mtime_ns, int64_t{9'000'000'000} * 1'000'000'000);
  status.st_mtim.tv_sec = std::numeric_limits<time_t>::min();
  EXPECT_LT(AttributesOf(status).mtime_ns, int64_t{-9'000'000'000} * 1'000'000'000);
}

TEST(SourceTree, EmptyFoldersAreItemsAndTheirFoldersAreNot) {
  TempDir dir;
  MakeFolder(dir / "a"), MakeFolder(dir / "a/b"), MakeFolder(dir / "a/b/c"), MakeFolder(dir / "d");
  EXPECT_THAT(List(dir.path()).Lines(), ElementsAre("D ", "D a", "D a/b", "E a/b/c", "E d"));
}

TEST(SourceTree, AnEmptySourceHasOnlyItself) {
  TempDir dir;
  EXPECT_THAT(List(dir.path()).Lines(), ElementsAre("D "));
}

TEST(SourceTree, FolderWithNothingThatCanBePackedIsEmpty) {
  TempDir dir;
  MakeFolder(dir / "a"), MakeFolder(dir / "a/b");
  ASSERT_EQ(mkfifo((dir / "a/b/fifo").c_str(), 0644), 0);
  MakeLink("..", dir / "a/b/up");
  const Listing listing = List(dir.path());
  EXPECT_THAT(listing.Lines(), ElementsAre("D ", "D a", "E a/b"));
  EXPECT_THAT(listing.skipped, UnorderedElementsAre(Pair("a/b/fifo", HasSubstr("FIFO")),
                                                    Pair("a/b/up", HasSubstr("leads back to 'a'"))));
}

TEST(SourceTree, FollowsLinksToFilesAndFoldersOnceEach) {
  TempDir dir, other;
  WriteFile(dir / "a/file", "123");
  WriteFile(other / "x/y", "12345");
  MakeLink("file", dir / "a/link");
  MakeLink(other / "x", dir / "b");
  MakeLink("a", dir / "c");
  ASSERT_EQ(link((dir / "a/file").c_str(), (dir / "a/hard").c_str()), 0);
  const Listing listing = List(dir.path());
  EXPECT_THAT(listing.Lines(), ElementsAre("D ", "D a", "F a/file", "F a/hard", "F a/link", "D b", "F b/y", "D c",
                                           "F c/file", "F c/hard", "F c/link"));
  EXPECT_EQ(listing.records[4].size, 3U);
  EXPECT_EQ(listing.records[6].size, 5U);
  EXPECT_THAT(listing.skipped, IsEmpty());
}

TEST(SourceTree, ReportsLoopsAndDanglingLinks) {
  TempDir dir;
  WriteFile(dir / "a/b/file", "1");
  MakeLink("../..", dir / "a/b/top");
  MakeLink("../b", dir / "a/b/self");
  MakeLink("self-link", dir / "self-link");
  MakeLink("nowhere", dir / "dangling");
  MakeFolder(dir / "x"), MakeFolder(dir / "y");  // two folders that hold each other
  MakeLink("../y", dir / "x/y"), MakeLink("../x", dir / "y/x");
  const Listing listing = List(dir.path());
  EXPECT_THAT(listing.Lines(), ElementsAre("D ", "D a", "D a/b", "F a/b/file", "D x", "E x/y", "D y", "E y/x"));
  EXPECT_THAT(listing.skipped, UnorderedElementsAre(Pair("a/b/top", HasSubstr("leads back to the source folder")),
                                                    Pair("a/b/self", HasSubstr("leads back to 'a/b'")),
                                                    Pair("self-link", HasSubstr("leads in a circle")),
                                                    Pair("dangling", HasSubstr("does not exist")),
                                                    Pair("x/y/x", HasSubstr("leads back to 'x'")),
                                                    Pair("y/x/y", HasSubstr("leads back to 'y'"))));
}

TEST(SourceTree, ReportsSocketsAndDevices) {
  TempDir dir;
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = dir / "socket";
  ASSERT_LT(path.size(), sizeof address.sun_path);
  std::memcpy(address.sun_path, path.c_str(), path.size());
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  close(fd);
  MakeLink("/dev/null", dir / "null");
  const Listing listing = List(dir.path());
  EXPECT_THAT(listing.Lines(), ElementsAre("D "));
  EXPECT_THAT(listing.skipped,
              UnorderedElementsAre(Pair("socket", HasSubstr("socket")), Pair("null", HasSubstr("device"))));
}

TEST(SourceTree, ReportsFoldersThatCannotBeListedAndLeavesFilesToTheirReader) {
  TempDir dir;
  WriteFile(dir / "closed/file", "1");
  WriteFile(dir / "open/secret", "12");
  ASSERT_EQ(chmod((dir / "closed").c_str(), 0311), 0);
  ASSERT_EQ(chmod((dir / "open/secret").c_str(), 0), 0);
  ASSERT_EQ(chmod(dir.path().c_str(), 0755), 0);
  // Root may read everything, so become someone else meanwhile.
  const bool root = geteuid() == 0;
  ASSERT_TRUE(!root || seteuid(65534) == 0);
  const Listing listing = List(dir.path());
  ASSERT_TRUE(!root || seteuid(0) == 0);
  EXPECT_THAT(listing.Lines(), ElementsAre("D ", "D open", "F open/secret"));
  EXPECT_THAT(listing.skipped, ElementsAre(Pair("closed", HasSubstr("Permission denied"))));
}

TEST(SourceTree, SkipsTheExcludedFolderWhereverALinkFindsIt) {
  TempDir dir, other;
  WriteFile(other / "data/file", "1");
  MakeLink(other.path(), dir / "a");
  WriteFile(dir / "b", "1");
  struct stat status;
  ASSERT_EQ(stat((other / "data").c_str(), &status), 0);
  const Listing listing = List(dir.path(), {.leave_out = FileIdentity{status.st_dev, status.st_ino}});
  EXPECT_THAT(listing.Lines(), ElementsAre("D ", "E a", "F b"));
  EXPECT_THAT(listing.skipped, ElementsAre(Pair("a/data", HasSubstr("data set that is being written"))));
}

TEST(SourceTree, ReportsPathsOverTheLimitAndListsThoseAtIt) {
  TempDir dir;
  // 15 folders of 255 bytes make 3,839 bytes with their slashes, so a name of 255 makes 4,095 exactly.
  std::string folder;
  ASSERT_EQ(chdir(dir.path().c_str()), 0);
  for (int i = 0; i < 15; ++i) {
    const std::string name(255, static_cast<char>('a' + i));
    MakeFolder(name);
    ASSERT_EQ(chdir(name.c_str()), 0);
    folder += name + '/';
  }
  ASSERT_EQ(folder.size(), 3840U);
  WriteFile(std::string(255, 'f'), "1");
  MakeFolder(std::string(254, 'g'));
  WriteFile(std::string(254, 'g') + "/h", "1");
  MakeFolder(std::string(255, 'i'));
  WriteFile(std::string(255, 'i') + "/j", "1");
  ASSERT_EQ(chdir("/"), 0);
  Listing listing = List(dir.path());
  const size_t count = listing.records.size();
  ASSERT_EQ(count, 1U + 15 + 3);
  EXPECT_EQ(listing.records[count - 3].path, folder + std::string(255, 'f'));
  // The only file of each of these two has a path that is too long.
  EXPECT_EQ(listing.Lines()[count - 2], "E " + folder + std::string(254, 'g'));
  EXPECT_EQ(listing.Lines()[count - 1], "E " + folder + std::string(255, 'i'));
  EXPECT_EQ(listing.skipped.size(), 2U);
  EXPECT_THAT(listing.skipped[folder + std::string(254, 'g') + "/h"], HasSubstr("4,095"));
}

TEST(SourceTree, FoldersThatDoNotFitInMemoryAreListedInTheSameOrder) {
  TempDir dir;
  for (int i = 0; i < 3000; ++i) WriteFile(dir / ("wide/" + std::to_string(i * 7919 % 3000)), "1");
  for (int i = 0; i < 300; ++i) WriteFile(dir / ("folders/" + std::to_string(i) + "/x"), "1");
  const Listing in_memory = List(dir.path());
  EXPECT_EQ(in_memory.records.size(), 3603U);
  EXPECT_EQ(List(dir.path(), {.spool = dir / "spool", .memory = 1000}).records, in_memory.records);
}

TEST(SourceTree, SaysWhenThereIsNoPlaceForALongList) {
  TempDir dir;
  for (int i = 0; i < 100; ++i) WriteFile(dir / std::to_string(i), "1");
  auto tree = SourceTree::Open(dir.path(), {.spool = dir / "no/where/spool", .memory = 1000}, nullptr);
  ASSERT_FALSE(tree);
  EXPECT_THAT(tree.error().message, HasSubstr("no/where"));
}

TEST(SourceTree, LeavesOutWhatIsExcludedAndWhatIsBelow) {
  TempDir dir;
  for (const char* path : {"a/keep", "a/.hidden", "a/deep/x.tmp", "b/x.tmp/file", "only/one.tmp", "c/b/file"})
    WriteFile(dir / path, "1");
  MakeLink("nowhere", dir / "dangling.tmp");
  const ListingOptions options{.exclude = ExcludeList::Of({"*.tmp", ".*", "/c/b/"}).value()};
  const Listing listing = List(dir.path(), options);
  EXPECT_THAT(listing.Lines(), ElementsAre("D ", "D a", "E a/deep", "F a/keep", "E b", "E c", "E only"));
  EXPECT_THAT(listing.skipped, IsEmpty());
}

TEST(SourceTree, RefusesASourceThatIsNoFolder) {
  TempDir dir;
  WriteFile(dir / "file", "1");
  auto missing = SourceTree::Open(dir / "missing", {}, nullptr);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("missing"));
  auto file = SourceTree::Open(dir / "file", {}, nullptr);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kNotDirectory);
}

}  // namespace
}  // namespace pcrfs
