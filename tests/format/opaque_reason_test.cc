#include "format/opaque_reason.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "format/checksum.h"
#include "tests/support/jpeg_surgery.h"
#include "tests/support/test_jpeg.h"

namespace pcrfs {
namespace {

using testing::MakeJpeg;

Bytes Cut() {
  Bytes jpeg = MakeJpeg({});
  jpeg.resize(jpeg.size() / 2);
  return jpeg;
}

// Its markers are sound, so only decoding tells that it is damaged.
Bytes Scratched() {
  Bytes jpeg = MakeJpeg({});
  const auto at = jpeg.begin() + static_cast<std::ptrdiff_t>(testing::StructureOf(jpeg).scans[0].entropy + 20);
  jpeg.erase(at, at + 90);
  return jpeg;
}

struct OpaqueFile {
  explicit OpaqueFile(const Bytes& bytes) : shard("PCR_0.files", bytes) {
    entry.name = "x.jpg";
    entry.source_size = bytes.size();
    entry.source_sha256 = Sha256::Of(bytes);
    entry.layout.extents = {{0, bytes.size(), 0}};
  }
  Result<std::optional<Opaque>> Why(ReasonBudget& budget, const EncodeOptions& options = {}) {
    return WhyOpaque(shard, entry, options, memory, budget);
  }
  Result<std::optional<Opaque>> Why(const EncodeOptions& options = {}) {
    ReasonBudget unlimited;
    return Why(unlimited, options);
  }

  MemorySource shard;
  Entry entry;
  MemoryGate memory{0};
};

OpaqueReason ReasonOf(const Bytes& bytes, const EncodeOptions& options = {}) {
  const auto why = OpaqueFile(bytes).Why(options);
  if (!why || !*why) ADD_FAILURE() << (why ? "it would be converted" : why.error().message);
  return why && *why ? (*why)->reason : OpaqueReason::kProofFailed;
}

TEST(OpaqueReason, IsWhatEncodingTheFileGives) {
  EXPECT_EQ(ReasonOf({}), OpaqueReason::kNotJpeg);
  EXPECT_EQ(ReasonOf({'t', 'e', 'x', 't'}), OpaqueReason::kNotJpeg);
  EXPECT_EQ(ReasonOf(Cut()), OpaqueReason::kDamaged);
  EXPECT_EQ(ReasonOf(Scratched()), OpaqueReason::kDamaged);
  EXPECT_EQ(ReasonOf(testing::WithoutScan(MakeJpeg({.progressive = true}), 9)), OpaqueReason::kIncomplete);
}

TEST(OpaqueReason, DependsOnTheOptionsOfThePack) {
  Bytes jpeg = MakeJpeg({});  // converted, but a record does not hold so much fill
  testing::InsertAt(jpeg, testing::FrameOffset(jpeg), Bytes(2 << 20, 0xFF));
  EXPECT_EQ(ReasonOf(jpeg, {.exact = true}), OpaqueReason::kNotRestorable);
  const auto why = OpaqueFile(jpeg).Why();
  ASSERT_TRUE(why);
  EXPECT_FALSE(*why) << "this release would convert it";
}

TEST(OpaqueReason, IsNotLookedForBeyondTheBudget) {
  OpaqueFile cut(Cut()), scratched(Scratched()), text({'t', 'e', 'x', 't'});
  ReasonBudget budget{.bytes = cut.entry.source_size + scratched.entry.source_size, .work = 0};
  EXPECT_TRUE(cut.Why(budget)) << "what its markers tell is no work";
  EXPECT_EQ(budget.bytes, scratched.entry.source_size);
  const auto too_much_work = scratched.Why(budget);
  ASSERT_FALSE(too_much_work);
  EXPECT_EQ(too_much_work.error().code, ErrorCode::kLimit);
  EXPECT_EQ(budget.bytes, 0u);
  const auto too_many_bytes = cut.Why(budget);
  ASSERT_FALSE(too_many_bytes);
  EXPECT_EQ(too_many_bytes.error().code, ErrorCode::kLimit);
  EXPECT_TRUE(text.Why(budget));
}

TEST(OpaqueReason, OfBytesThatAreNotThoseThatWerePackedIsNotGuessed) {
  OpaqueFile file(Cut());
  file.entry.source_sha256[3] ^= 1;
  const auto why = file.Why();
  ASSERT_FALSE(why);
  EXPECT_EQ(why.error().code, ErrorCode::kDamaged);
}

}  // namespace
}  // namespace pcrfs
