#include "format/exclude_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pcrfs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

bool Excludes(const std::string& glob, std::string_view path, bool is_folder = false) {
  const auto list = ExcludeList::Of({glob});
  EXPECT_TRUE(list) << list.error().message;
  return list && list->Excludes(path, is_folder);
}

TEST(ExcludeList, AGlobWithoutASlashIsForNamesAtAnyDepth) {
  EXPECT_TRUE(Excludes("*.txt", "note.txt"));
  EXPECT_TRUE(Excludes("*.txt", "a/b/note.txt"));
  EXPECT_TRUE(Excludes("*.txt", "a/.txt"));
  EXPECT_FALSE(Excludes("*.txt", "a.txt/b"));
  EXPECT_FALSE(Excludes("*.txt", "note.TXT"));
  EXPECT_TRUE(Excludes("n0144[0-5]*", "n01443537", true));
  EXPECT_TRUE(Excludes("\\*", "a/*"));
  EXPECT_FALSE(Excludes("\\*", "a/b"));
  EXPECT_TRUE(Excludes("\xff?", "\xff\xfe"));
}

TEST(ExcludeList, AGlobWithASlashIsForPathsFromTheSource) {
  EXPECT_TRUE(Excludes("/a", "a"));
  EXPECT_FALSE(Excludes("/a", "b/a"));
  EXPECT_TRUE(Excludes("a/*.jpg", "a/1.jpg"));
  EXPECT_FALSE(Excludes("a/*.jpg", "a/b/1.jpg"));
  EXPECT_FALSE(Excludes("a/*.jpg", "x/a/1.jpg"));
}

TEST(ExcludeList, TwoStarsStandForAnyNumberOfFolders) {
  EXPECT_TRUE(Excludes("**/a", "a"));
  EXPECT_TRUE(Excludes("**/a", "x/y/a"));
  EXPECT_TRUE(Excludes("a/**/b", "a/b"));
  EXPECT_TRUE(Excludes("a/**/b", "a/x/y/b"));
  EXPECT_FALSE(Excludes("a/**/b", "a/x/y/c"));
  EXPECT_FALSE(Excludes("a/**/b", "z/a/b"));
}

TEST(ExcludeList, ManyStarsTakeNoLongTime) {
  std::string glob, path;
  for (int i = 0; i < 500; ++i) {
    glob += "**/a/";
    path += "a/";
  }
  EXPECT_FALSE(Excludes(glob + "b", path + "c"));
}

TEST(ExcludeList, ASlashAtTheEndIsForFoldersOnly) {
  EXPECT_TRUE(Excludes("tmp/", "a/tmp", true));
  EXPECT_FALSE(Excludes("tmp/", "a/tmp", false));
  EXPECT_FALSE(Excludes("/tmp/", "a/tmp", true));
}

TEST(ExcludeList, WithinAnExcludedFolderAllIsExcluded) {
  const ExcludeList list = ExcludeList::Of({"tmp/"}).value();
  EXPECT_TRUE(list.ExcludesWithin("a/tmp/b/c", false));
  EXPECT_FALSE(list.Excludes("a/tmp/b/c", false));
  EXPECT_FALSE(list.ExcludesWithin("a/b/tmp", false));
}

TEST(ExcludeList, OrderAndRepetitionsDoNotMatter) {
  EXPECT_EQ(ExcludeList::Of({"b", "a", "b"}).value(), ExcludeList::Of({"a", "b"}).value());
  EXPECT_THAT(ExcludeList::Of({"b", "a", "b"})->globs(), ElementsAre("a", "b"));
}

TEST(ExcludeList, RefusesGlobsThatCanMatchNothing) {
  for (const std::string& glob : {std::string(), std::string("/"), std::string("a//b"), std::string("./a"),
                                  std::string("../a"), std::string("a\0b", 3)}) {
    const auto list = ExcludeList::Of({glob});
    ASSERT_FALSE(list) << glob;
    EXPECT_THAT(list.error().message, HasSubstr("excludes nothing"));
  }
}

}  // namespace
}  // namespace pcrfs
