#include "format/shard_names.h"

#include <gtest/gtest.h>

namespace pcrfs {
namespace {

Entry In(uint32_t directory, const std::string& name) {
  Entry entry;
  entry.directory = directory;
  entry.name = name;
  return entry;
}

TEST(ShardNamesTest, NamesAreWhatAFileSystemTakes) {
  for (const char* name : {"a", "...", ".hidden", "\xff\xfe", "new\nline", " "}) EXPECT_TRUE(IsValidName(name)) << name;
  EXPECT_TRUE(IsValidName(std::string(255, 'x')));
  for (const char* name : {"", ".", "..", "a/b", "/", "a/"}) EXPECT_FALSE(IsValidName(name)) << name;
  EXPECT_FALSE(IsValidName(std::string_view("a\0b", 3)));
  EXPECT_FALSE(IsValidName(std::string(256, 'x')));
}

TEST(ShardNamesTest, DirectoriesFormATree) {
  EXPECT_TRUE(CheckDirectories({}).has_value());
  EXPECT_TRUE(CheckDirectories({"a", "a b", "a-b", "a/b", "a/b/c", "\xff"}).has_value());
  const std::vector<std::string> refused[] = {{"b", "a"},
                                              {"a", "a"},
                                              {"a/b"},
                                              {"a", "a/b/c"},
                                              {""},
                                              {"/a"},
                                              {"a", "a/"},
                                              {"a", "a//b"},
                                              {"."},
                                              {"a", "a/.."},
                                              {"a", "a/../b"},
                                              {std::string(256, 'x')},
                                              {std::string("a\0b", 3)}};
  for (const auto& directories : refused) {
    const auto checked = CheckDirectories(directories);
    ASSERT_FALSE(checked.has_value()) << directories.back();
    EXPECT_EQ(checked.error().code, ErrorCode::kDamaged);
  }
}

TEST(ShardNamesTest, PathsHaveALimit) {
  std::vector<std::string> directories = {std::string(255, 'd')};
  while (directories.back().size() < 3839) directories.push_back(directories.back() + "/" + std::string(255, 'd'));
  ASSERT_EQ(directories.back().size(), 255u + 14 * 256);
  EXPECT_TRUE(CheckDirectories(directories).has_value());
  const auto last = static_cast<uint32_t>(directories.size());
  EXPECT_TRUE(CheckEntryNames(directories, {In(last, std::string(255, 'n'))}).has_value()) << "4,095 bytes";
  directories.push_back(directories.back() + "/" + std::string(255, 'd'));
  EXPECT_TRUE(CheckDirectories(directories).has_value()) << "4,095 bytes";
  EXPECT_EQ(CheckEntryNames(directories, {In(last + 1, "n")}).error().code, ErrorCode::kLimit);
  directories.push_back(directories.back() + "/d");
  EXPECT_EQ(CheckDirectories(directories).error().code, ErrorCode::kLimit);
}

TEST(ShardNamesTest, NoTwoThingsHaveOnePath) {
  const std::vector<std::string> directories = {"a", "a/b", "c"};
  EXPECT_TRUE(CheckEntryNames(directories, {In(0, "b"), In(1, "c"), In(2, "b"), In(3, "b")}).has_value());
  EXPECT_FALSE(CheckEntryNames(directories, {In(1, "x"), In(1, "x")}).has_value());
  EXPECT_FALSE(CheckEntryNames(directories, {In(0, "c")}).has_value());
  const auto below = CheckEntryNames(directories, {In(1, "b")});
  ASSERT_FALSE(below.has_value());
  EXPECT_NE(below.error().message.find("'a/b'"), std::string::npos);
  EXPECT_FALSE(CheckEntryNames(directories, {In(4, "x")}).has_value()) << "no such directory";
  EXPECT_FALSE(CheckEntryNames(directories, {In(0, "..")}).has_value());
}

}  // namespace
}  // namespace pcrfs
