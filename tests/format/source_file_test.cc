#include "format/source_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/temp_dir.h"

namespace pcrfs {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;
using testing::WriteFile;

class SourceFileTest : public ::testing::Test {
 protected:
  SourceFileTest() : folder(open(dir.path().c_str(), O_RDONLY | O_DIRECTORY)) {}
  Result<std::unique_ptr<SourceFile>> Open(const std::string& path) { return SourceFile::Open(folder.get(), path); }

  TempDir dir;
  UniqueFd folder;
};

TEST_F(SourceFileTest, ReadsAFileWithItsAttributes) {
  WriteFile(dir / "a/b", "0123456789");
  ASSERT_EQ(chmod((dir / "a/b").c_str(), 04640), 0);
  auto file = Open("a/b");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ((*file)->attributes().mode, 04640U);
  EXPECT_EQ(AsText(*(*file)->ReadWhole()), "0123456789");
  Bytes part(4);
  ASSERT_TRUE((*file)->ReadAt(6, part));
  EXPECT_EQ(AsText(part), "6789");
  EXPECT_FALSE((*file)->ReadAt(7, part));
}

TEST_F(SourceFileTest, TellsAJpegByItsFirstBytes) {
  using std::string_literals::operator""s;
  for (const auto& [content, like_jpeg] : {std::pair("\xFF\xD8"s, true),
                                           {"\xFF\xD8\xFF"s, true},
                                           {"\xFF"s, false},
                                           {""s, false},
                                           {"\xFF\xD9\xFF"s, false}}) {
    WriteFile(dir / "file", content);
    EXPECT_EQ(*(*Open("file"))->StartsLikeJpeg(), like_jpeg) << Quoted(content);
  }
}

TEST_F(SourceFileTest, AFileThatGrowsShrinksOrIsWrittenToIsNotBelieved) {
  const auto changed_by = [&](const std::function<void()>& change) {
    WriteFile(dir / "file", std::string(1000, 'a'));
    const timespec old[2] = {{1000, 0}, {1000, 0}};
    EXPECT_EQ(utimensat(AT_FDCWD, (dir / "file").c_str(), old, 0), 0);
    auto file = Open("file");
    Bytes first(500);
    EXPECT_TRUE((*file)->ReadAt(0, first));
    change();
    Bytes second(500);
    auto read = (*file)->ReadAt(500, second);
    EXPECT_FALSE(read);
    if (!read) {
      EXPECT_EQ(read.error().code, ErrorCode::kStale);
      EXPECT_THAT(read.error().message, HasSubstr("'file'"));
    }
    EXPECT_FALSE((*file)->ReadWhole());
  };
  changed_by([&] { EXPECT_EQ(truncate((dir / "file").c_str(), 1001), 0); });
  changed_by([&] { EXPECT_EQ(truncate((dir / "file").c_str(), 999), 0); });
  changed_by([&] {
    const UniqueFd file(open((dir / "file").c_str(), O_WRONLY));
    EXPECT_EQ(pwrite(file.get(), "b", 1, 0), 1);
  });
}

// The kernel's own files say 0 bytes whatever they hold.
TEST_F(SourceFileTest, AFileWhoseSizeIsNotWhatItHoldsIsNoEmptyFile) {
  ASSERT_EQ(symlink("/proc/version", (dir / "version").c_str()), 0);
  auto version = Open("version");
  ASSERT_TRUE(version) << version.error().message;
  ASSERT_EQ((*version)->size(), 0U);
  const auto read = (*version)->ReadWhole();
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kStale);
  EXPECT_THAT(read.error().message, HasSubstr("more than its size says"));
  ASSERT_EQ(symlink("/proc/self/mem", (dir / "mem").c_str()), 0);  // nothing is mapped at address 0
  auto memory = Open("mem");
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_EQ((*memory)->ReadWhole().error().code, ErrorCode::kIo);
  WriteFile(dir / "empty", "");
  EXPECT_TRUE((*Open("empty"))->ReadWhole());
}

TEST_F(SourceFileTest, AFileThatIsReplacedIsReadAsItWas) {
  WriteFile(dir / "file", "old");
  auto file = Open("file");
  WriteFile(dir / "new", "new content");
  ASSERT_EQ(rename((dir / "new").c_str(), (dir / "file").c_str()), 0);
  EXPECT_EQ(AsText(*(*file)->ReadWhole()), "old");
}

TEST_F(SourceFileTest, RefusesWhatIsNoFileOrTooLarge) {
  EXPECT_EQ(Open("missing").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Open(".").error().code, ErrorCode::kIsDirectory);
  ASSERT_EQ(mkfifo((dir / "fifo").c_str(), 0644), 0);
  EXPECT_EQ(Open("fifo").error().code, ErrorCode::kInvalidArgument);
  WriteFile(dir / "sparse", "");
  // Not every file system takes a file of that size.
  const bool made = truncate((dir / "sparse").c_str(), int64_t{1} << 42) == 0;
  EXPECT_TRUE(!made || Open("sparse").error().code == ErrorCode::kLimit);
}

}  // namespace
}  // namespace pcrfs
