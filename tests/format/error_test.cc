#include "format/error.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace pcrfs {
namespace {

TEST(QuotedTest, NoNameCanForgeALogLine) {
  EXPECT_EQ(Quoted("plain name.jpg"), "'plain name.jpg'");
  EXPECT_EQ(Quoted("a\nb\x1b[2J"), "'a\\x0ab\\x1b[2J'");
  EXPECT_EQ(Quoted("it's \\"), "'it\\x27s \\x5c'");
  EXPECT_EQ(Quoted("\xff\xfe"), "'\\xff\\xfe'") << "not UTF-8";
  EXPECT_EQ(Quoted("Käse 🐈"), "'Käse 🐈'");
  EXPECT_EQ(Quoted("\xc2\x9b"), "'\\xc2\\x9b'") << "C1 control character";
  EXPECT_EQ(Quoted("\xe2\x80\xae"), "'\\xe2\\x80\\xae'") << "right-to-left override";
  EXPECT_EQ(Quoted("\xe2\x82"), "'\\xe2\\x82'") << "cut sequence";
  EXPECT_EQ(Quoted("\xc0\xaf"), "'\\xc0\\xaf'") << "overlong";
}

TEST(ErrorTest, SystemErrorsKeepTheirMeaning) {
  const Result<int> result = SystemFail("open 'x'", ENOENT);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(result.error().message, "open 'x': No such file or directory");
  const Result<int> outer = WithContext("shard PCR_0.pcr", result.error());
  EXPECT_EQ(outer.error().message, "shard PCR_0.pcr: open 'x': No such file or directory");
  EXPECT_EQ(outer.error().code, ErrorCode::kNotFound);
}

TEST(ErrorTest, WantOfDescriptorsSaysWhichLimit) {
  const Error own = SystemFail("open 'x'", EMFILE).value(), all = SystemFail("open 'x'", ENFILE).value();
  EXPECT_EQ(own.code, ErrorCode::kShortage);
  EXPECT_NE(own.message.find("'ulimit -n' is the limit"), std::string::npos) << own.message;
  EXPECT_EQ(all.code, ErrorCode::kShortage);
  EXPECT_NE(all.message.find("fs.file-max"), std::string::npos) << all.message;
}

}  // namespace
}  // namespace pcrfs
