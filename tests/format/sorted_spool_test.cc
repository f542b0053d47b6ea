#include "format/sorted_spool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temp_dir.h"

namespace pcrfs {
namespace {

using Records = std::vector<std::pair<std::string, std::string>>;

Records Drained(SortedSpool& spool) {
  Records records;
  const auto drained = spool.Drain([&](ByteSpan key, ByteSpan value) -> Result<void> {
    records.emplace_back(AsText(key), AsText(value));
    return {};
  });
  EXPECT_TRUE(drained) << drained.error().message;
  return records;
}

Records RandomRecords(size_t count) {
  std::mt19937 random(7);
  Records records;
  for (size_t i = 0; i < count; ++i)
    records.emplace_back(std::to_string(random() % 1000), std::string(random() % 300, 'v') + std::to_string(i));
  return records;
}

TEST(SortedSpoolTest, GivesRecordsSortedAndEqualKeysInOrder) {
  const testing::TempDir folder;
  Records records = RandomRecords(5000);
  for (const size_t memory : {size_t{64} << 20, size_t{100'000}, size_t{1}}) {
    SortedSpool spool(folder / "spool", memory);
    for (const auto& [key, value] : records) ASSERT_TRUE(spool.Add(AsBytes(key), AsBytes(value)));
    Records expected = records;
    std::ranges::stable_sort(expected, {}, &Records::value_type::first);
    EXPECT_EQ(Drained(spool), expected) << "memory for " << memory << " bytes";
  }
}

TEST(SortedSpoolTest, HoldsRecordsLargerThanItsMemoryAndItsReads) {
  const testing::TempDir folder;
  SortedSpool spool(folder / "spool", 1000);
  const std::string large(1'000'000, 'x');
  ASSERT_TRUE(spool.Add(AsBytes("b"), AsBytes(large)));
  ASSERT_TRUE(spool.Add(AsBytes("a"), AsBytes("")));
  ASSERT_TRUE(spool.Add(AsBytes("c"), AsBytes(large)));
  EXPECT_EQ(Drained(spool), (Records{{"a", ""}, {"b", large}, {"c", large}}));
}

TEST(SortedSpoolTest, GivesNothingWhenNothingCame) {
  SortedSpool spool("/nowhere/spool");
  EXPECT_TRUE(Drained(spool).empty());
}

TEST(SortedSpoolTest, StopsAtTheVisitorsError) {
  const testing::TempDir folder;
  for (const size_t memory : {size_t{1} << 20, size_t{1}}) {
    SortedSpool spool(folder / "spool", memory);
    for (const char* key : {"1", "2", "3"}) ASSERT_TRUE(spool.Add(AsBytes(key), {}));
    int visited = 0;
    const auto drained = spool.Drain([&](ByteSpan, ByteSpan) -> Result<void> {
      if (++visited == 2) return Fail(ErrorCode::kBusy, "enough");
      return {};
    });
    ASSERT_FALSE(drained);
    EXPECT_EQ(drained.error().message, "enough");
    EXPECT_EQ(visited, 2);
  }
}

TEST(SortedSpoolTest, SaysWhereItCouldNotWrite) {
  SortedSpool spool("/nowhere/spool", 1);
  ASSERT_TRUE(spool.Add(AsBytes("1"), {}));
  const auto added = spool.Add(AsBytes("2"), {});
  ASSERT_FALSE(added);
  EXPECT_NE(added.error().message.find("/nowhere/spool"), std::string::npos) << added.error().message;
}

}  // namespace
}  // namespace pcrfs
