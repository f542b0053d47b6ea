#include "format/jpeg_restorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "format/image_encoder.h"
#include "format/jpeg_geometry.h"
#include "format/jpeg_tables.h"
#include "format/restore_record.h"
#include "tests/support/jpeg_surgery.h"
#include "tests/support/test_jpeg.h"

namespace pcrfs {
namespace {

using testing::Append;
using testing::FrameOffset;
using ::testing::HasSubstr;
using testing::InsertAt;
using testing::kOneScanEach;
using testing::MakeJpeg;
using testing::ScanBytes;
using testing::Segment;
using testing::SegmentOffset;
using testing::StructureOf;
using testing::TestJpeg;
using testing::TestScan;
using testing::TinyGray;
using testing::WithFrameSize;
using Colour = TestJpeg::Colour;
using Kind = RestoreRecord;

// What a shard holds of a source.
struct Stored {
  Bytes image;  // at the highest level
  Bytes record;
  std::string not_restorable;
};

Stored Store(const Bytes& source) {
  auto encoded = EncodeImage(source);
  EXPECT_TRUE(encoded) << encoded.error().detail;
  if (!encoded) return {};
  Append(encoded->bytes, Bytes{0xFF, jpeg_marker::kEoi});
  Append(encoded->bytes, encoded->tail);
  return {std::move(encoded->bytes), std::move(encoded->restore), std::move(encoded->not_restorable)};
}

SourceIdentity IdentityOf(const Bytes& source) { return {source.size(), Sha256::Of(source)}; }

// Expects that `source` is restorable and comes back. The record, for a closer look.
RestoreRecord ExpectRestored(const Bytes& source) {
  const Stored stored = Store(source);
  EXPECT_EQ(stored.not_restorable, "");
  const auto restored = RestoreJpeg(stored.image, stored.record, IdentityOf(source));
  EXPECT_TRUE(restored) << restored.error().message;
  EXPECT_TRUE(restored && *restored == source);
  return DecodeRestoreRecord(stored.record).value_or(RestoreRecord{});
}

// Expects that `source` is converted without a record, for that reason; and opaque where all must come back.
void ExpectNotRestorable(const Bytes& source, const char* reason) {
  const Stored stored = Store(source);
  EXPECT_TRUE(stored.record.empty());
  EXPECT_THAT(stored.not_restorable, HasSubstr(reason));
  const auto exact = EncodeImage(source, {.exact = true});
  ASSERT_FALSE(exact);
  EXPECT_EQ(exact.error().reason, OpaqueReason::kNotRestorable);
  EXPECT_THAT(exact.error().detail, HasSubstr(reason));
}

size_t LiteralBytes(const RestoreRecord& record) {
  size_t bytes = 0;
  for (const auto& segment : record.segments)
    if (const auto* literal = std::get_if<Kind::Literal>(&segment)) bytes += literal->bytes.size();
  return bytes;
}

size_t CountStandardTables(const RestoreRecord& record) {
  return static_cast<size_t>(std::ranges::count_if(
      record.segments, [](const auto& segment) { return std::holds_alternative<Kind::StandardTables>(segment); }));
}

// ---- how a source was written

TEST(JpegRestorerTest, ARecordOfStandardTablesHoldsLittleMoreThanFrameAndScanHeader) {
  const Bytes source = MakeJpeg({});
  const RestoreRecord record = ExpectRestored(source);
  EXPECT_LT(Store(source).record.size(), 80u);
  EXPECT_EQ(LiteralBytes(record), 19u + 14u);
  EXPECT_EQ(CountStandardTables(record), 4u);
  EXPECT_TRUE(record.padding_bit);
  EXPECT_TRUE(record.patches.empty());
}

TEST(JpegRestorerTest, AllStandardTablesInOneSegment) {
  Bytes source = MakeJpeg({});
  const size_t dht = SegmentOffset(source, jpeg_marker::kDht), sos = SegmentOffset(source, jpeg_marker::kSos);
  source.erase(source.begin() + static_cast<std::ptrdiff_t>(dht), source.begin() + static_cast<std::ptrdiff_t>(sos));
  const ByteSpan tables = StandardTableSegment(4);
  InsertAt(source, dht, {tables.begin(), tables.end()});
  EXPECT_EQ(CountStandardTables(ExpectRestored(source)), 1u);
}

TEST(JpegRestorerTest, NoTablesAtAllAsInMotionJpeg) {
  Bytes source = MakeJpeg({});
  const size_t dht = SegmentOffset(source, jpeg_marker::kDht), sos = SegmentOffset(source, jpeg_marker::kSos);
  source.erase(source.begin() + static_cast<std::ptrdiff_t>(dht), source.begin() + static_cast<std::ptrdiff_t>(sos));
  EXPECT_EQ(CountStandardTables(ExpectRestored(source)), 0u);
}

TEST(JpegRestorerTest, TablesInOtherSlotsAndAnExtendedFrame) {
  Bytes source = MakeJpeg({.optimize = true});
  source[FrameOffset(source) + 1] = jpeg_marker::kSof1;
  for (size_t n = 0; n < 4; ++n) source[SegmentOffset(source, jpeg_marker::kDht, n) + 4] += 2;
  const size_t sos = SegmentOffset(source, jpeg_marker::kSos);
  for (size_t i = 0; i < 3; ++i) source[sos + 6 + 2 * i] += 0x22;
  EXPECT_EQ(CountStandardTables(ExpectRestored(source)), 0u);
}

TEST(JpegRestorerTest, TablesDefinedAnewForEachScan) {
  const Bytes source = MakeJpeg({.script = kOneScanEach, .optimize = true});
  ASSERT_GT(SegmentOffset(source, jpeg_marker::kDht, 4), StructureOf(source).scans[1].begin);
  EXPECT_EQ(ExpectRestored(source).restart_intervals.size(), 3u);
}

TEST(JpegRestorerTest, TheRestartIntervalChangesFromScanToScan) {
  const Bytes every_3 = MakeJpeg({.script = kOneScanEach, .restart_interval = 3});
  const Bytes none = MakeJpeg({.script = kOneScanEach});
  Bytes source(every_3.begin(), every_3.begin() + static_cast<std::ptrdiff_t>(StructureOf(every_3).scans[1].end));
  Append(source, Segment(jpeg_marker::kDri, Bytes{0, 0}));
  Append(source, ScanBytes(none, 2));
  Append(source, Bytes{0xFF, jpeg_marker::kEoi});
  EXPECT_EQ(ExpectRestored(source).restart_intervals, (std::vector<uint32_t>{3, 3, 0}));
}

TEST(JpegRestorerTest, ScansOfTwoComponentsAndOne) {
  ExpectRestored(MakeJpeg({.script = {{{0, 1}}, {{2}}}}));
  ExpectRestored(MakeJpeg({.width = 83, .height = 17, .script = {{{1, 2}}, {{0}}}, .restart_interval = 5}));
  ExpectRestored(MakeJpeg({.width = 83, .height = 17, .sampling = {{2, 1}, {1, 2}, {2, 2}}}));
}

TEST(JpegRestorerTest, ArithmeticCodingWithConditioningOfItsOwn) {
  const TestJpeg interleaved = {.arithmetic = true, .arithmetic_ac = 9, .restart_interval = 7};
  TestJpeg plain = interleaved;
  plain.arithmetic_ac = 5;
  ASSERT_NE(MakeJpeg(interleaved).size(), MakeJpeg(plain).size());
  ExpectRestored(MakeJpeg(interleaved));
  ExpectRestored(MakeJpeg({.script = kOneScanEach, .arithmetic = true, .arithmetic_ac = 9}));
}

// ---- bits and bytes between and behind

// Two blocks beside each other, each a restart interval, padded as given. DC 0 and end of block are the bits 001.
Bytes TwoPaddedBlocks(uint8_t first, uint8_t second) {
  Bytes source = WithFrameSize(TinyGray(0x01, {first, 0xFF, jpeg_marker::kRst0, second}), 16, 8);
  InsertAt(source, SegmentOffset(source, jpeg_marker::kSos), Segment(jpeg_marker::kDri, Bytes{0, 1}));
  return source;
}

TEST(JpegRestorerTest, PaddingOfZerosOrOnes) {
  EXPECT_TRUE(ExpectRestored(TwoPaddedBlocks(0x3F, 0x3F)).padding_bit);
  const RestoreRecord zeros = ExpectRestored(TwoPaddedBlocks(0x20, 0x20));
  EXPECT_FALSE(zeros.padding_bit);
  EXPECT_TRUE(zeros.patches.empty());
}

TEST(JpegRestorerTest, PaddingThatChangesIsPatched) {
  const RestoreRecord record = ExpectRestored(TwoPaddedBlocks(0x3F, 0x20));
  ASSERT_EQ(record.patches.size(), 1u);
  EXPECT_EQ(record.patches[0].bytes.size(), 1u);
}

// A row of blocks, each a restart interval, padded by ones and zeros in turn.
Bytes PaddedInTurn(unsigned blocks) {
  Bytes data;
  for (unsigned i = 0; i < blocks; ++i) {
    data.push_back(i % 2 == 0 ? 0x3F : 0x20);
    if (i + 1 < blocks) Append(data, Bytes{0xFF, static_cast<uint8_t>(jpeg_marker::kRst0 + i % 8)});
  }
  Bytes source = WithFrameSize(TinyGray(0x01, data), 8 * blocks, 8);
  InsertAt(source, SegmentOffset(source, jpeg_marker::kSos), Segment(jpeg_marker::kDri, Bytes{0, 1}));
  return source;
}

TEST(JpegRestorerTest, AsManyPatchesAsARecordHoldsAndNoMore) {
  EXPECT_EQ(ExpectRestored(PaddedInTurn(129)).patches.size(), 64u);
  ExpectNotRestorable(PaddedInTurn(131), "scan 1 was not coded as most encoders do");
}

TEST(JpegRestorerTest, FillRestartMarkersAndTablesBehindTheLastScan) {
  Bytes source = MakeJpeg({});
  InsertAt(source, source.size() - 2, {0xFF, 0xFF});
  InsertAt(source, source.size() - 2, Segment(jpeg_marker::kDht, StandardTableSegment(0).subspan(4)));
  InsertAt(source, StructureOf(source).scans[0].end, {0xFF, jpeg_marker::kRst0});
  InsertAt(source, FrameOffset(source), {0xFF, 0xFF, 0xFF});
  EXPECT_EQ(CountStandardTables(ExpectRestored(source)), 5u);
}

TEST(JpegRestorerTest, ATailAndSegmentsThatOccurTwice) {
  Bytes source =
      MakeJpeg({.markers = {{jpeg_marker::kCom, {1, 2}}, {jpeg_marker::kApp0 + 1, {3}}, {jpeg_marker::kCom, {1, 2}}}});
  Append(source, MakeJpeg({.seed = 2}));
  ExpectRestored(source);
}

// ---- what cannot be had again

TEST(JpegRestorerTest, DataInBlocksThatOnlyFillUpMcus) {
  // The picture is 16 high, the frame says 8: half of the luma blocks are filling then.
  ExpectNotRestorable(WithFrameSize(MakeJpeg({.width = 80, .height = 16}), 80, 8), "blocks that only fill up MCUs");
}

TEST(JpegRestorerTest, RunsOfZerosBeforeTheEndOfABlock) {
  // Of each block: DC 0, a run of 16 zeros (the symbol F0, coded 00), end of block. The bits 00001.
  Bytes data;
  for (int i = 0; i < 40; ++i) Append(data, Bytes{0b00001000, 0b01000010, 0b00010000, 0b10000100, 0b00100001});
  ExpectNotRestorable(WithFrameSize(TinyGray(0xF0, data), 8 * 320, 8), "not coded as most encoders do");
}

TEST(JpegRestorerTest, ALongFillIsTooMuchForARecord) {
  Bytes source = MakeJpeg({.width = 16, .height = 16});
  InsertAt(source, 2, Bytes(kMaxRestoreBytes - 40, 0xFF));
  ExpectNotRestorable(source, "more than the limit of 1048576");
  InsertAt(source, 2, Bytes(200, 0xFF));
  ExpectNotRestorable(source, "more than a record holds");
}

TEST(JpegRestorerTest, TooManySegments) {
  Bytes source = MakeJpeg({.width = 16, .height = 16}), comments;
  for (size_t i = 0; i < kMaxRestoreSegments; ++i) Append(comments, Segment(jpeg_marker::kCom, ""));
  InsertAt(source, 2, comments);
  ExpectNotRestorable(source, "too many marker segments");
}

TEST(JpegRestorerTest, TooManyCoefficients) {
  // DC 0 and end of block, 001, for each block.
  constexpr unsigned kSide = 8200;
  constexpr size_t kBlocks = size_t{kSide} / 8 * (kSide / 8);
  static_assert(kBlocks * 64 > kMaxRestoreCoefficients && kBlocks * 3 % 8 == 3);
  Bytes data;
  for (size_t i = 0; i < kBlocks * 3 / 24; ++i) Append(data, Bytes{0b00100100, 0b10010010, 0b01001001});
  data.push_back(0b00111111);
  ExpectNotRestorable(WithFrameSize(TinyGray(0x01, data), kSide, kSide), "67240000 coefficients");
}

// ---- progressive sources

TEST(JpegRestorerTest, RescanConvertsWhatIsNotInDefaultScansYet) {
  const std::vector<TestScan> no_refinement = {{{0, 1, 2}, 0, 0}, {{0}, 1, 63}, {{1}, 1, 63}, {{2}, 1, 63}};
  const Bytes source = MakeJpeg({.script = no_refinement});
  const auto image = EncodeImage(source, {.rescan = true});
  ASSERT_TRUE(image);
  EXPECT_FALSE(image->kept);
  EXPECT_TRUE(image->restore.empty());
  EXPECT_THAT(image->not_restorable, HasSubstr("progressive"));
  EXPECT_TRUE(std::ranges::none_of(image->fragment_sizes, [](uint32_t size) { return size == 0; }));
  Bytes converted = image->bytes;
  Append(converted, Bytes{0xFF, jpeg_marker::kEoi});
  EXPECT_EQ(ReadJpegContent(converted).value(), ReadJpegContent(source).value());

  EXPECT_TRUE(EncodeImage(source, {.exact = true, .rescan = true})->kept);
  EXPECT_TRUE(EncodeImage(MakeJpeg({.progressive = true}), {.rescan = true})->kept);
  Bytes with_profile = source;
  InsertAt(with_profile, StructureOf(source).scans[1].begin, Segment(jpeg_marker::kApp0 + 2, "ICC_PROFILE"));
  EXPECT_TRUE(EncodeImage(with_profile, {.rescan = true})->kept) << "moving it would change what readers see";
}

// ---- records and images that are wrong

class DamagedRestoreTest : public ::testing::Test {
 protected:
  Result<Bytes> Restore(const std::function<void(RestoreRecord&)>& change) {
    RestoreRecord record = record_;
    change(record);
    return RestoreJpeg(stored_.image, EncodeRestoreRecord(record).value(), IdentityOf(source_));
  }

  void ExpectRefused(const std::function<void(RestoreRecord&)>& change, const char* what) {
    const Result<Bytes> restored = Restore(change);
    ASSERT_FALSE(restored) << what;
    EXPECT_EQ(restored.error().code, ErrorCode::kDamaged);
    EXPECT_THAT(restored.error().message, HasSubstr(what));
  }

  // The one literal that begins with that marker.
  static Bytes& LiteralOf(RestoreRecord& record, uint8_t marker) {
    for (auto& segment : record.segments)
      if (auto* literal = std::get_if<Kind::Literal>(&segment); literal != nullptr && literal->bytes[1] == marker)
        return literal->bytes;
    std::abort();
  }

  const Bytes source_ = MakeJpeg({.width = 40, .height = 24});
  const Stored stored_ = Store(source_);
  const RestoreRecord record_ = DecodeRestoreRecord(stored_.record).value();
};

TEST_F(DamagedRestoreTest, ARightRecordRestores) {
  EXPECT_EQ(Restore([](RestoreRecord&) {}).value(), source_);
}

TEST_F(DamagedRestoreTest, RecordsThatDoNotFitTheImage) {
  ExpectRefused([](RestoreRecord& record) { record.segments[0] = Kind::MarkerSegment{65535}; },
                "no marker segment 65535");
  ExpectRefused([](RestoreRecord& record) { LiteralOf(record, jpeg_marker::kSof0)[6] += 1; }, "frame is not that");
  ExpectRefused([](RestoreRecord& record) { LiteralOf(record, jpeg_marker::kSof0)[11] = 0x12; }, "frame is not that");
  ExpectRefused([](RestoreRecord& record) { LiteralOf(record, jpeg_marker::kSof0)[1] = jpeg_marker::kSof2; },
                "progressive");
  ExpectRefused([](RestoreRecord& record) { LiteralOf(record, jpeg_marker::kSos)[6] = 0x33; }, "not defined");
  ExpectRefused([](RestoreRecord& record) { LiteralOf(record, jpeg_marker::kSos)[5] = 99; }, "none such");
  ExpectRefused([](RestoreRecord& record) { LiteralOf(record, jpeg_marker::kSos)[7] = 1; }, "coded twice");
  ExpectRefused([](RestoreRecord& record) { LiteralOf(record, jpeg_marker::kSos).pop_back(); }, "out of range");
  ExpectRefused([](RestoreRecord& record) { LiteralOf(record, jpeg_marker::kSos).push_back(0); }, "no scan header");
  ExpectRefused([](RestoreRecord& record) { std::swap(record.segments.front(), record.segments.back()); },
                "before any scan");
  ExpectRefused([](RestoreRecord& record) { record.restart_intervals[0] = 1; }, "longer than the source");
  ExpectRefused([](RestoreRecord& record) { record.patches.push_back({100000, {1}}); }, "beyond the end");
  ExpectRefused([](RestoreRecord& record) { record.patches.push_back({700, {1, 2, 3}}); }, "SHA-256");
}

TEST_F(DamagedRestoreTest, ScansWithoutEnd) {
  ExpectRefused(
      [](RestoreRecord& record) {
        record.segments.emplace_back(Kind::EntropyData{});
        record.restart_intervals.push_back(0);
      },
      "no scan header");
  ExpectRefused(
      [](RestoreRecord& record) {
        record.segments.emplace_back(Kind::Literal{LiteralOf(record, jpeg_marker::kSos)});
        record.segments.emplace_back(Kind::EntropyData{});
        record.restart_intervals.push_back(0);
      },
      "longer than the source");
  ExpectRefused(
      [](RestoreRecord& record) {
        record.segments.insert(record.segments.begin(), 60000, Kind::StandardTables::kAllFour);
      },
      "longer than the source");
}

TEST_F(DamagedRestoreTest, TablesThatLackASymbol) {
  Bytes table(18, 0);
  table[1] = 1;  // one code, for symbol 0
  for (const uint8_t selector : Bytes{0x00, 0x10, 0x01, 0x11}) {
    table[0] = selector;
    ExpectRefused(
        [&](RestoreRecord& record) {
          Bytes& sos = LiteralOf(record, jpeg_marker::kSos);
          const Bytes dht = Segment(jpeg_marker::kDht, table);
          sos.insert(sos.begin(), dht.begin(), dht.end());
          (void)selector;
        },
        "lack a code");
  }
}

TEST_F(DamagedRestoreTest, AnotherSourceThanTheRecordGives) {
  SourceIdentity identity = IdentityOf(source_);
  identity.sha256[0] ^= 1;
  EXPECT_THAT(RestoreJpeg(stored_.image, stored_.record, identity).error().message, HasSubstr("SHA-256"));
  for (const uint64_t size : {uint64_t{0}, uint64_t{1}, uint64_t{source_.size() - 1}, uint64_t{source_.size() + 1}}) {
    identity = IdentityOf(source_);
    identity.size = size;
    EXPECT_EQ(RestoreJpeg(stored_.image, stored_.record, identity).error().code, ErrorCode::kDamaged) << size;
  }
  identity.size = (uint64_t{1} << 30) + 1;
  EXPECT_EQ(RestoreJpeg(stored_.image, stored_.record, identity).error().code, ErrorCode::kLimit);
}

TEST_F(DamagedRestoreTest, AnyFlippedByteIsAnErrorOrChangesNothing) {
  const auto check = [&](const Bytes& image, const Bytes& record, size_t at) {
    const auto restored = RestoreJpeg(image, record, IdentityOf(source_));
    if (restored) {
      EXPECT_EQ(*restored, source_) << at;
    } else {
      EXPECT_FALSE(restored.error().message.empty()) << at;
    }
  };
  for (size_t i = 0; i < stored_.record.size(); ++i)
    for (const uint8_t bits : Bytes{0x01, 0x08, 0x80, 0xFF}) {
      Bytes record = stored_.record;
      record[i] ^= bits;
      check(stored_.image, record, i);
    }
  for (size_t i = 0; i < stored_.image.size(); ++i) {
    Bytes image = stored_.image;
    image[i] ^= 0x21;
    check(image, stored_.record, i);
  }
}

TEST_F(DamagedRestoreTest, AnyTruncationIsAnError) {
  for (size_t size = 0; size < stored_.record.size(); ++size)
    EXPECT_FALSE(RestoreJpeg(stored_.image, ByteSpan(stored_.record).first(size), IdentityOf(source_))) << size;
  for (size_t size = 0; size < stored_.image.size(); ++size)
    EXPECT_FALSE(RestoreJpeg(ByteSpan(stored_.image).first(size), stored_.record, IdentityOf(source_))) << size;
}

// ---- memory

TEST(JpegRestorerTest, MemoryIsKnownFromTheFrameHeader) {
  const Bytes photo = WithFrameSize(MakeJpeg({.h_sampling = 1, .v_sampling = 1, .progressive = true}), 4000, 3000);
  const ByteSpan head = ByteSpan(photo).first(SegmentOffset(photo, jpeg_marker::kSos));
  const Result<uint64_t> memory = RestoreMemory(head, 5'000'000);
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_GT(*memory, 72'000'000u + 5'000'000u);
  EXPECT_LT(*memory, 95'000'000u);
  EXPECT_FALSE(RestoreMemory(ByteSpan(photo).first(FrameOffset(photo) + 5), 5'000'000));
  EXPECT_EQ(RestoreMemory(WithFrameSize(photo, 8000, 8000), 1).error().code, ErrorCode::kLimit);
  EXPECT_EQ(RestoreMemory(head, uint64_t{1} << 31).error().code, ErrorCode::kLimit);
}

}  // namespace
}  // namespace pcrfs
