#include "format/pack_item.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "format/pack_pipeline.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_jpeg.h"

namespace pcrfs {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;
using testing::WriteFile;

class PackItemTest : public ::testing::Test {
 protected:
  // A plan of two folders, "a" and "b", for their labels.
  PackPlan MakePlan() {
    auto writer = PackPlanWriter::Create(scratch / "plan", {});
    for (const char* path : {"", "a", "b"}) EXPECT_TRUE(writer->Add({SourceKind::kFolder, path, 0, {}}));
    EXPECT_TRUE(writer->Commit());
    return *PackPlan::Open(scratch / "plan");
  }
  PackItem Make(const std::string& path) {
    return MakePackItem(source, {SourceKind::kFile, path, 1, {}}, {}, {}, memory);
  }

  TempDir dir, scratch;
  UniqueFd folder{open(dir.path().c_str(), O_RDONLY | O_DIRECTORY)};
  PackPlan plan = MakePlan();
  FolderSource source{folder.get(), dir.path(), plan, {}};
  MemoryGate memory{uint64_t{64} << 20};
};

TEST_F(PackItemTest, AnImageWithItsLabelAndWhatIsOnDiskNow) {
  const Bytes jpeg = testing::MakeJpeg({});
  WriteFile(dir / "b/c/x.jpg", jpeg);
  WriteFile(dir / "x.jpg", jpeg);
  ASSERT_EQ(chmod((dir / "b/c/x.jpg").c_str(), 0640), 0);
  const PackItem item = Make("b/c/x.jpg");
  const auto* image = std::get_if<ImageItem>(&item);
  ASSERT_NE(image, nullptr);
  EXPECT_EQ(image->file.directory, "b/c");
  EXPECT_EQ(image->file.name, "x.jpg");
  EXPECT_EQ(image->file.attributes.mode, 0640U);
  EXPECT_EQ(image->label, 1);
  EXPECT_EQ(image->source_size, jpeg.size()) << "not the plan's size";
  EXPECT_EQ(image->source_sha256, Sha256::Of(jpeg));
  const PackItem in_root = Make("x.jpg");
  EXPECT_EQ(std::get<ImageItem>(in_root).label, -1);
  EXPECT_EQ(std::get<ImageItem>(in_root).file.directory, "");
}

TEST_F(PackItemTest, SmallFilesAreHeldLargeOnesStreamed) {
  WriteFile(dir / "small", "text");
  const PackItem small = Make("small");
  ASSERT_TRUE(std::get<OpaqueItem>(small).content);
  EXPECT_EQ(AsText(*std::get<OpaqueItem>(small).content), "text");
  WriteFile(dir / "large", "text");
  ASSERT_EQ(truncate((dir / "large").c_str(), kStreamedBytes), 0);
  const PackItem large = Make("large");
  EXPECT_FALSE(std::get<OpaqueItem>(large).content);
  EXPECT_EQ(std::get<OpaqueItem>(large).source_size, kStreamedBytes);
  EXPECT_EQ(std::get<OpaqueItem>(large).why.reason, OpaqueReason::kNotJpeg);
}

TEST_F(PackItemTest, AFileOfAGibibyteIsNoImage) {
  WriteFile(dir / "huge.jpg", testing::MakeJpeg({}));
  ASSERT_EQ(truncate((dir / "huge.jpg").c_str(), kMaxImageSourceBytes), 0);  // sparse
  const PackItem item = Make("huge.jpg");
  EXPECT_FALSE(std::get<OpaqueItem>(item).content) << "it was read into memory";
  EXPECT_EQ(std::get<OpaqueItem>(item).why.reason, OpaqueReason::kTooLarge);
}

TEST_F(PackItemTest, AnImageWaitsForMemory) {
  WriteFile(dir / "x.jpg", testing::MakeJpeg({}));
  std::optional<MemoryGate::Claim> all = memory.Enter(uint64_t{64} << 20);
  std::atomic<bool> made = false;
  std::thread thread([&] {
    EXPECT_TRUE(std::holds_alternative<ImageItem>(Make("x.jpg")));
    made = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(made);
  all.reset();
  thread.join();
  EXPECT_EQ(memory.used(), 0u);
}

TEST_F(PackItemTest, AnEmptyFolderIsNothingAndAMissingFileAnError) {
  const PackItem folder_item = MakePackItem(source, {SourceKind::kEmptyFolder, "e", 0, {}}, {}, {}, memory);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(folder_item));
  const PackItem missing = Make("a/missing");
  ASSERT_TRUE(std::holds_alternative<Error>(missing));
  EXPECT_THAT(std::get<Error>(missing).message, HasSubstr("'a/missing'"));
}

}  // namespace
}  // namespace pcrfs
