#include "mount/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pcrfs {
namespace {

using ::testing::HasSubstr;

tl::expected<Command, EarlyExit> Parse(std::vector<std::string> words, const std::string& program = "pcrfs") {
  words.insert(words.begin(), program);
  return ParseCommandLine(words);
}

template <typename T>
T MustParse(const std::vector<std::string>& words, const std::string& program = "pcrfs") {
  auto command = Parse(words, program);
  if (!command) {
    ADD_FAILURE() << command.error().text;
    return {};
  }
  if (!std::holds_alternative<T>(*command)) {
    ADD_FAILURE() << "another command: " << command->index();
    return {};
  }
  return std::get<T>(*command);
}

void ExpectUsageError(const std::vector<std::string>& words, const std::string& said) {
  const auto command = Parse(words);
  ASSERT_FALSE(command);
  EXPECT_EQ(command.error().status, kExitUsage);
  EXPECT_THAT(command.error().text, HasSubstr(said));
  EXPECT_THAT(command.error().text, ::testing::StartsWith("pcrfs: "));
}

TEST(ParseSize, TakesPlainBytesAndTheSixUnits) {
  EXPECT_EQ(ParseSize("0"), 0u);
  EXPECT_EQ(ParseSize("65536"), 65536u);
  EXPECT_EQ(ParseSize("1KiB"), 1024u);
  EXPECT_EQ(ParseSize("64MiB"), 67108864u);
  EXPECT_EQ(ParseSize("3GiB"), 3221225472u);
  EXPECT_EQ(ParseSize("1kB"), 1000u);
  EXPECT_EQ(ParseSize("10MB"), 10000000u);
  EXPECT_EQ(ParseSize("2GB"), 2000000000u);
  EXPECT_EQ(ParseSize("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(ParseSize("17179869183GiB"), 17179869183ull << 30);
}

TEST(ParseSize, RefusesEverythingElse) {
  for (const char* text : {"", "MiB", "-1", "+1", " 1", "1 MiB", "1.5GiB", "64M", "64mib", "1KB", "0x10", "1MiBx",
                           "18446744073709551616", "17179869184GiB", "18446744073709551615kB"})
    EXPECT_EQ(ParseSize(text), std::nullopt) << text;
}

TEST(ParseCommandLine, PackWithAllItsOptions) {
  const auto plain = MustParse<PackCommand>({"pack", "src", "dst"});
  EXPECT_EQ(plain.source, "src");
  EXPECT_EQ(plain.dataset, "dst");
  EXPECT_EQ(plain.options.jobs, 0u);
  EXPECT_EQ(plain.options.record_images, 256u);
  EXPECT_EQ(plain.options.record_bytes, 64u << 20);
  EXPECT_FALSE(plain.options.order.shuffle);

  EXPECT_FALSE(plain.options.encode.exact || plain.options.encode.rescan || plain.strict);
  EXPECT_EQ(plain.report, "");

  const auto flags = MustParse<PackCommand>({"pack", "src", "dst", "--exact", "--rescan", "--strict", "--report", "r"});
  EXPECT_TRUE(flags.options.encode.exact && flags.options.encode.rescan && flags.strict);
  EXPECT_EQ(flags.report, "r");

  const auto excluding = MustParse<PackCommand>({"pack", "--exclude", "*.tmp", "--exclude=/val/", "src", "dst"});
  EXPECT_THAT(excluding.options.exclude.globs(), ::testing::ElementsAre("*.tmp", "/val/"));
  EXPECT_EQ(excluding.source, "src");

  const auto full = MustParse<PackCommand>(
      {"pack", "src", "dst", "--jobs", "4", "--record-images", "1024", "--record-bytes=10MB", "--order", "shuffle:7"});
  EXPECT_EQ(full.options.jobs, 4u);
  EXPECT_EQ(full.options.record_images, 1024u);
  EXPECT_EQ(full.options.record_bytes, 10000000u);
  EXPECT_TRUE(full.options.order.shuffle);
  EXPECT_EQ(full.options.order.seed, 7u);
}

TEST(ParseCommandLine, PackRefusesValuesOutOfRange) {
  ExpectUsageError({"pack", "src"}, "DATASET is required");
  ExpectUsageError({"pack", "src", "dst", "--record-images", "0"}, "--record-images");
  ExpectUsageError({"pack", "src", "dst", "--record-images", "65537"}, "--record-images");
  ExpectUsageError({"pack", "src", "dst", "--record-bytes", "64M"}, "such as 64MiB");
  for (const char* size : {"0", "99999999GiB", "1073741825", ""})
    ExpectUsageError({"pack", "src", "dst", "--record-bytes", size}, "--record-bytes");
  ExpectUsageError({"pack", "src", "dst", "--record-bytes", "2GiB"}, "from 1 byte to 1GiB");
  ExpectUsageError({"pack", "src", "dst", "--order", "size"}, "path, shuffle or shuffle:SEED");
  ExpectUsageError({"pack", "src", "dst", "--exclude", "a//b"}, "'a//b' excludes nothing");
  ExpectUsageError({"pack", "src", "dst", "--jobs", "0"}, "--jobs");
  ExpectUsageError({"pack", "src", "dst", "--jobs", "many"}, "--jobs");
  ExpectUsageError({"pack", "src", "dst", "third"}, "third");
}

TEST(ParseCommandLine, NumbersAreDecimalOnly) {
  const auto pack = MustParse<PackCommand>({"pack", "s", "d", "--record-images", "010", "--jobs", "08"});
  EXPECT_EQ(pack.options.record_images, 10u);
  EXPECT_EQ(pack.options.jobs, 8u);
  for (const char* number : {"0x10", "1e2", "+5", " 5", "5.0"}) {
    ExpectUsageError({"pack", "s", "d", "--record-images", number}, "from 1 to 65536");
    ExpectUsageError({"pack", "s", "d", "-j", number}, "--jobs: expected a number of threads from 1 to 1024");
    ExpectUsageError({"ls", "d", "--level", number}, "a level from 1 to 31");
  }
}

TEST(ParseCommandLine, EmptyArgumentsAreUsageErrors) {
  ExpectUsageError({""}, "the first argument is empty");
  ExpectUsageError({"mount", "", "mnt"}, "behind 'mount' is empty");
  ExpectUsageError({"ls", "ds", ""}, "behind 'ds' is empty");
  ExpectUsageError({"mount", "ds", "mnt", "--cache-dir", ""}, "behind '--cache-dir' is empty");
  ExpectUsageError({"mount", "--cache-dir=", "ds", "mnt"}, "--cache-dir needs a value");
}

TEST(ParseCommandLine, ComplaintsAreInOurWordsAndNameTheRightHelp) {
  ExpectUsageError({"info", "a", "b", "c"}, "unexpected argument 'b'\nTry 'pcrfs info --help'");
  ExpectUsageError({"info", "a", "--yaml", "--xml"}, "unknown option '--yaml'\nTry 'pcrfs info --help'");
  ExpectUsageError({"pakc", "a", "b"}, "'pakc' is no command of pcrfs, and without one");
  ExpectUsageError({"pakc", "a", "b"}, "Try 'pcrfs --help'");
  ExpectUsageError({"ds", "mnt", "--yaml"}, "unknown option '--yaml'\nTry 'pcrfs mount --help'");
  ExpectUsageError({"pack", "a", "b", "--jobs"}, "--jobs needs a value");
  ExpectUsageError({"mount", "a", "b", "-o"}, "-o needs a value");
  EXPECT_EQ(MustParse<PackCommand>({"pack", "a", "b", "--jobs", "1", "--jobs", "2"}).options.jobs, 2u);
  for (const char* command :
       {"pack", "mount", "umount", "list", "log-level", "info", "ls", "cat", "extract", "verify"}) {
    const std::string help = Parse({command, "--help"}).error().text;
    for (const char* raw : {" in [", ":INT", ":TEXT", ":UINT", "REQUIRED"})
      EXPECT_EQ(help.find(raw), std::string::npos) << command << " " << raw << "\n" << help;
  }
}

TEST(ParseCommandLine, ListAndLogLevel) {
  EXPECT_FALSE(MustParse<ListCommand>({"list"}).json);
  EXPECT_TRUE(MustParse<ListCommand>({"list", "--json"}).json);
  ExpectUsageError({"list", "mnt"}, "unexpected argument 'mnt'");
  EXPECT_FALSE(MustParse<LogLevelCommand>({"log-level", "mnt"}).level);
  EXPECT_EQ(MustParse<LogLevelCommand>({"log-level", "mnt"}).mount_point, "mnt");
  for (const LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn, LogLevel::kError})
    EXPECT_EQ(MustParse<LogLevelCommand>({"log-level", "mnt", std::string(LogLevelName(level))}).level, level);
  ExpectUsageError({"log-level"}, "MOUNTPOINT is required");
  ExpectUsageError({"log-level", "mnt", "loud"}, "expected debug, info, warn or error, not 'loud'");
}

TEST(ParseCommandLine, MountOptionsMayStandAnywhereAndRepeat) {
  const auto command = MustParse<MountCommand>({"mount", "-o", "ro,level=3", "ds", "-f", "mnt", "-o", "uid=7,gid=8",
                                                "--cache-dir", "c", "-o", "umask=027,allow_other"});
  EXPECT_EQ(command.dataset, "ds");
  EXPECT_EQ(command.mount_point, "mnt");
  EXPECT_TRUE(command.catalog_reuse);
  EXPECT_FALSE(command.quiet);
  EXPECT_FALSE(MustParse<MountCommand>({"mount", "ds", "mnt", "--no-catalog-reuse"}).catalog_reuse);
  EXPECT_TRUE(command.foreground);
  EXPECT_EQ(command.tree, Tree(Level::Of<3>()));
  EXPECT_EQ(command.uid, 7u);
  EXPECT_EQ(command.gid, 8u);
  EXPECT_EQ(command.umask, 027u);
  EXPECT_TRUE(command.allow_other);
  EXPECT_EQ(command.cache_dir, "c");
}

TEST(ParseCommandLine, MountDefaults) {
  const auto command = MustParse<MountCommand>({"mount", "ds", "mnt"});
  EXPECT_FALSE(command.foreground);
  EXPECT_FALSE(command.tree);
  EXPECT_EQ(command.restore_memory, uint64_t{256} << 20);
  EXPECT_FALSE(command.uid);
  EXPECT_FALSE(command.allow_other);
  EXPECT_FALSE(command.nonempty);
  EXPECT_EQ(command.umask, 0u);
  EXPECT_EQ(command.max_threads, 256u);
  EXPECT_EQ(command.log_level, LogLevel::kInfo);
}

TEST(ParseCommandLine, WithoutASubcommandItMounts) {
  EXPECT_EQ(MustParse<MountCommand>({"/data/ds", "/mnt", "-o", "ro,dev,suid"}).mount_point, "/mnt");
  EXPECT_EQ(MustParse<MountCommand>({"-o", "ro", "/data/ds", "/mnt"}).dataset, "/data/ds");
  EXPECT_EQ(MustParse<MountCommand>({"-f", "/data/ds", "/mnt"}).foreground, true);
  EXPECT_EQ(MustParse<MountCommand>({"ds", "mnt", "-s", "-n", "-v", "-N", "/ns", "-t", "pcrfs"}).mount_point, "mnt");
  EXPECT_EQ(MustParse<MountCommand>({"ds", "mnt", "-snv", "-o", "ro"}).mount_point, "mnt");
  ExpectUsageError({"mount", "ds", "mnt", "-n"}, "-n");  // means nothing to people
  ExpectUsageError({"pakc"}, "pakc");
  ExpectUsageError({}, "a command is required");
}

TEST(ParseCommandLine, AsMountHelperMinusFMeansPretend) {
  for (const char* program : {"/sbin/mount.pcrfs", "mount.fuse.pcrfs"}) {
    const auto command = MustParse<MountCommand>({"ds", "mnt", "-s", "-n", "-v", "-f", "-t", "fuse.pcrfs"}, program);
    EXPECT_TRUE(command.fake);
    EXPECT_FALSE(command.foreground);
    EXPECT_FALSE(command.quiet);  // because of -v
    EXPECT_TRUE(MustParse<MountCommand>({"ds", "mnt"}, program).quiet);
  }
  // A data set of a command's name is no command here.
  EXPECT_EQ(MustParse<MountCommand>({"pack", "mnt"}, "/sbin/mount.pcrfs").dataset, "pack");
}

TEST(ParseCommandLine, TheOtherCommands) {
  EXPECT_EQ(MustParse<UmountCommand>({"umount", "mnt"}).mount_point, "mnt");
  EXPECT_TRUE(MustParse<InfoCommand>({"info", "--json", "ds"}).json);
  EXPECT_EQ(MustParse<LsCommand>({"ls", "ds"}).path, "");
  const auto ls = MustParse<LsCommand>({"ls", "ds", "a/b", "--level", "2", "-l"});
  EXPECT_EQ(ls.path, "a/b");
  EXPECT_EQ(ls.tree, Tree(Level::Of<2>()));
  EXPECT_TRUE(ls.with_attributes);
  EXPECT_EQ(MustParse<CatCommand>({"cat", "ds", "a.jpg"}).path, "a.jpg");
  EXPECT_EQ(MustParse<ExtractCommand>({"extract", "ds", "out", "--level=5"}).tree, Tree(Level::Of<5>()));
  EXPECT_EQ(MustParse<CatCommand>({"cat", "ds", "a.jpg", "--original"}).tree, Tree::Original());
  EXPECT_FALSE(MustParse<CatCommand>({"cat", "ds", "a.jpg"}).tree);
  ExpectUsageError({"cat", "ds", "a.jpg", "--original", "--level", "3"}, "--original");
  EXPECT_EQ(MustParse<VerifyCommand>({"verify", "ds"}).dataset, "ds");
  EXPECT_FALSE(MustParse<VerifyCommand>({"verify", "ds"}).options.restore);
  EXPECT_TRUE(MustParse<VerifyCommand>({"verify", "ds", "--restore"}).options.restore);
  // A path that looks like an option can be given behind --.
  EXPECT_EQ(MustParse<CatCommand>({"cat", "ds", "--", "-x"}).path, "-x");

  ExpectUsageError({"ls", "ds", "a", "--level", "0"}, "a level from 1 to 31");
  ExpectUsageError({"ls", "ds", "a", "--level", "32"}, "a level from 1 to 31");
  ExpectUsageError({"cat", "ds"}, "PATH is required");
  ExpectUsageError({"info", "ds", "--yaml"}, "--yaml");
}

TEST(ParseCommandLine, HelpAndVersionEndWellOnStdout) {
  for (const char* command :
       {"pack", "mount", "umount", "list", "log-level", "info", "ls", "cat", "extract", "verify"}) {
    const auto help = Parse({command, "--help"});
    ASSERT_FALSE(help);
    EXPECT_EQ(help.error().status, kExitDone);
    EXPECT_THAT(help.error().text, HasSubstr(std::string("pcrfs ") + command)) << help.error().text;
    const auto program = Parse({"--help"});
    EXPECT_THAT(program.error().text, HasSubstr(command));
  }
  EXPECT_EQ(Parse({"--help"}).error().status, kExitDone);
  EXPECT_THAT(Parse({"mount", "--help"}).error().text, HasSubstr("allow_other"));
  const auto version = Parse({"--version"});
  EXPECT_EQ(version.error().status, kExitDone);
  EXPECT_THAT(version.error().text, ::testing::MatchesRegex("pcrfs [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  // Wherever people try it.
  const std::vector<std::vector<std::string>> lines = {{"pcrfs", "-V"},
                                                       {"pcrfs", "mount", "--version"},
                                                       {"pcrfs", "pack", "--version"},
                                                       {"/sbin/mount.pcrfs", "--version"},
                                                       {"/sbin/mount.fuse.pcrfs", "-V"}};
  for (const auto& line : lines) {
    const auto there = ParseCommandLine(line);
    ASSERT_FALSE(there) << line.back();
    EXPECT_EQ(there.error().status, kExitDone) << line.back();
    EXPECT_EQ(there.error().text, version.error().text) << line.back();
  }
  const auto help = ParseCommandLine({"mount.pcrfs", "--help"});
  EXPECT_EQ(help.error().status, kExitDone);
  EXPECT_THAT(help.error().text, HasSubstr("MOUNTPOINT"));
}

TEST(ApplyMountOptions, IgnoresWhatMountAndFstabAdd) {
  MountCommand command;
  const auto applied = ApplyMountOptions(
      "rw,ro,defaults,dev,suid,nodev,nosuid,exec,auto,noauto,user,user=joe,_netdev,nofail,noatime,relatime,"
      "x-systemd.automount,x-anything=1,X-mount.mkdir,comment=hello,,",
      command);
  EXPECT_TRUE(applied) << applied.error().message;
}

TEST(ApplyMountOptions, TakesAtARemountWhatMountFoundInTheTableOfMounts) {
  MountCommand command;
  ASSERT_TRUE(
      ApplyMountOptions("rw,ro,nosuid,nodev,relatime,remount,user_id=0,group_id=0,default_permissions", command));
  EXPECT_TRUE(command.remount);
  EXPECT_FALSE(command.uid || command.gid);
}

TEST(ApplyMountOptions, OfTwoThatContradictOneAnotherTheLastCounts) {
  MountCommand command;
  ASSERT_TRUE(ApplyMountOptions("level=1,umask=77,level=2,umask=7", command));
  EXPECT_EQ(command.tree, Tree::FromNumber(2));
  EXPECT_EQ(command.umask, 7u);
}

TEST(ApplyMountOptions, RefusesUnknownOnesWithASentence) {
  for (const char* list : {"ro,frobnicate", "level", "Level=3", "xattr", "allow_others", "ro=1", "big_writes"}) {
    MountCommand command;
    const auto applied = ApplyMountOptions(list, command);
    ASSERT_FALSE(applied) << list;
    EXPECT_THAT(applied.error().message, HasSubstr("unknown mount option")) << list;
  }
  MountCommand command;
  EXPECT_THAT(ApplyMountOptions("allow_root", command).error().message, HasSubstr("allow_other"));
  EXPECT_THAT(ApplyMountOptions("rw,remount", command).error().message, HasSubstr("cannot be changed"));
  EXPECT_THAT(ApplyMountOptions("user_id=0", command).error().message, HasSubstr("unknown mount option"));
  ExpectUsageError({"mount", "ds", "mnt", "-o", "ro", "-o", "frob"}, "'frob'");
}

TEST(ApplyMountOptions, RefusesValuesOutOfRange) {
  for (const char* item : {"level=0", "level=32", "level=", "level=3x", "uid=", "uid=-1", "uid=4294967295", "uid=root",
                           "gid=x", "umask=8", "umask=1000", "umask=", "restore_memory=0", "restore_memory=much",
                           "max_threads=0", "max_threads=5000", "cache_dir=", "log_file=", "log_level=loud"}) {
    MountCommand command;
    const auto applied = ApplyMountOptions(item, command);
    ASSERT_FALSE(applied) << item;
    EXPECT_THAT(applied.error().message, HasSubstr("expected")) << item;
  }
}

TEST(ApplyMountOptions, TheSourcesOwnBytesAreATreeToo) {
  MountCommand command;
  ASSERT_TRUE(ApplyMountOptions("level=original,restore_memory=1GiB", command));
  EXPECT_EQ(command.tree, Tree::Original());
  EXPECT_EQ(command.restore_memory, uint64_t{1} << 30);
}

TEST(ApplyMountOptions, AValueMayHoldAnEscapedComma) {
  MountCommand command;
  ASSERT_TRUE(ApplyMountOptions("cache_dir=/a\\,b\\\\c,log_file=/x,log_level=debug,noexec", command));
  EXPECT_EQ(command.cache_dir, "/a,b\\c");
  EXPECT_EQ(command.log_file, "/x");
  EXPECT_EQ(command.log_level, LogLevel::kDebug);
  EXPECT_TRUE(command.noexec);
}

}  // namespace
}  // namespace pcrfs
