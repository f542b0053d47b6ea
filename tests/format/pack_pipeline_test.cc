#include "format/pack_pipeline.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "format/pack_listing.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_dataset.h"
#include "tests/support/test_jpeg.h"

namespace pcrfs {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::TempDir;
using testing::WriteFile;

class Observer : public PackObserver {
 public:
  void OnProgress(const PackProgress&) override {
    if (on_progress) on_progress();
  }
  void OnSkipped(const std::string& path, const Skipped& why) override { skipped[path] = why.detail; }
  void OnOpaque(const std::string& path, const Opaque& why) override { opaque[path] = why.reason; }

  std::function<void()> on_progress;
  std::map<std::string, std::string> skipped;
  std::map<std::string, OpaqueReason> opaque;
};

class PackPipelineTest : public ::testing::Test {
 protected:
  // Lists `source` and packs what was found, with `job` changed by `adjust`.
  Result<std::vector<ShardRow>> Run(const std::function<void(PackJob&)>& adjust) {
    EXPECT_TRUE(fs::create_directories(out / "set"));
    auto writer = PackPlanWriter::Create(out / "plan", {});
    EXPECT_TRUE(ListInPackOrder(source.path(), {}, {}, nullptr,
                                [&](const SourceRecord& record) { return writer->Add(record); }));
    EXPECT_TRUE(writer->Commit());
    auto plan = PackPlan::Open(out / "plan");
    EXPECT_TRUE(plan);
    const UniqueFd folder(open(source.path().c_str(), O_RDONLY | O_DIRECTORY));
    FolderSource files(folder.get(), source.path(), *plan, {.items = 4});
    PackJob job;
    job.source = &files;
    job.dataset = out / "set";
    job.jobs = 2;
    adjust(job);
    return PackShards(job, report);
  }

  TempDir source, out;
  Observer observer;
  PackReport report{observer};
};

TEST_F(PackPipelineTest, RowsComeInOrderOfTheShardsWhateverTheThreads) {
  testing::MakePhotoFolder(source.path());
  auto rows = Run([](PackJob& job) { job.jobs = 5; });
  ASSERT_TRUE(rows) << rows.error().message;
  ASSERT_EQ(rows->size(), 5U);
  for (size_t i = 0; i < rows->size(); ++i) {
    EXPECT_EQ(ParseShardFileName((*rows)[i].name)->number, i);
    EXPECT_EQ((*rows)[i].file_size, fs::file_size(out / ("set/" + (*rows)[i].name)));
  }
}

TEST_F(PackPipelineTest, ImagesPastTheLimitOfThePublishedPartAreOpaque) {
  testing::MakePhotoFolder(source.path(), {.classes = 1, .images_per_class = 4, .extras = false});
  // Room for the first image, which is the largest part of what the limit counts beside the metadata, and no more.
  const uint64_t first = fs::file_size(source / "n00/0.jpg");
  auto rows = Run([&](PackJob& job) { job.published_limit = kMaxMetadataBytes + first + 1000; });
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_EQ(report.summary().images, 1U);
  EXPECT_EQ(report.summary().opaque_files, 3U);
  EXPECT_EQ(observer.opaque.at("n00/3.jpg"), OpaqueReason::kTooLarge);
  EXPECT_THAT(observer.skipped, IsEmpty());
}

TEST_F(PackPipelineTest, AShardThatCannotBeWrittenEndsItAll) {
  testing::MakePhotoFolder(source.path());
  auto rows = Run([&](PackJob& job) { job.dataset = out / "missing"; });
  ASSERT_FALSE(rows);
  EXPECT_EQ(rows.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(rows.error().message, HasSubstr("missing/PCR_"));
}

TEST_F(PackPipelineTest, ASourceThatIsGoneEndsItAll) {
  testing::MakePhotoFolder(source.path());
  const std::string moved = source.path() + ".moved";
  observer.on_progress = [&] {
    if (fs::exists(source.path())) fs::rename(source.path(), moved);
    if (fs::exists(moved + "/n01/4.jpg")) fs::remove(moved + "/n01/4.jpg");
  };
  auto rows = Run([](PackJob& job) { job.jobs = 1; });
  fs::rename(moved, source.path());
  ASSERT_FALSE(rows) << "a file is missing, and then the folder is";
  EXPECT_THAT(rows.error().message, HasSubstr("source folder"));
  EXPECT_THAT(observer.skipped, IsEmpty());
}

TEST_F(PackPipelineTest, ALargeFileThatKeepsChangingIsReportedAndTheShardGoesOn) {
  WriteFile(source / "growing", "");
  fs::resize_file(source / "growing",
                  8 * kStreamedBytes);  // so large that the writer gets its turn during each reading
  WriteFile(source / "still", "1");
  std::atomic<bool> stop = false;
  std::atomic<bool> begun = false;
  std::thread writer([&] {
    std::ofstream file(source / "growing", std::ios::app);
    for (; !stop; begun = true, begun.notify_all()) file << "more" << std::flush;
  });
  begun.wait(false);
  auto rows = Run([](PackJob&) {});
  stop = true;
  writer.join();
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_THAT(observer.skipped, ElementsAre(Pair("growing", HasSubstr("changed while it was read"))));
  EXPECT_EQ(report.summary().opaque_files, 1U);
  EXPECT_EQ(report.summary().source_bytes, 1U);
}

}  // namespace
}  // namespace pcrfs
