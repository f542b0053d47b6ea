#include "fs/store_reader.h"

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace pcrfs {
namespace {

// A shard that is read in a way of its own.
class ShardView : public ByteSource {
 public:
  explicit ShardView(const ByteSource& shard) : shard_(shard) {}
  [[nodiscard]] const std::string& name() const final { return shard_.name(); }
  [[nodiscard]] uint64_t size() const final { return shard_.size(); }
  [[nodiscard]] Result<void> ReadAt(uint64_t offset, MutableByteSpan out) const final {
    return ReadParts(offset, std::span<const MutableByteSpan>(&out, 1));
  }

 protected:
  const ByteSource& shard_;
};

// What of it can be read without waiting.
class AtHandOnly final : public ShardView {
 public:
  using ShardView::ShardView;
  [[nodiscard]] Result<void> ReadParts(uint64_t offset, std::span<const MutableByteSpan> parts) const override {
    if (shard_.ReadPartsAtHand(offset, parts)) return {};
    return Fail(ErrorCode::kBusy, std::string());
  }
};

// Of one where some places are known to be bad: they are not asked of it again, and what it reads is remembered.
class WithBadPlaces final : public ShardView {
 public:
  WithBadPlaces(const ByteSource& shard, uint64_t position, const FaultMemory& memory)
      : ShardView(shard), position_(position), memory_(memory) {}
  [[nodiscard]] Result<void> ReadParts(uint64_t offset, std::span<const MutableByteSpan> parts) const override {
    ShardPlace place{position_, offset, offset};
    for (const MutableByteSpan part : parts) place.end += part.size();
    auto error = memory_.Find(place);
    known_ = error.has_value();
    if (known_) return tl::unexpected<Error>(*std::move(error));
    places_.push_back(place);
    return shard_.ReadParts(offset, parts);
  }

  [[nodiscard]] const std::vector<ShardPlace>& places() const { return places_; }
  [[nodiscard]] bool known() const { return known_; }

 private:
  const uint64_t position_;
  const FaultMemory& memory_;
  mutable std::vector<ShardPlace> places_;  // that were asked for
  mutable bool known_ = false;              // the last read was not
};

std::optional<Level> LevelToReadAhead(const StoreReader::Part& part) {
  return part.layout.kind == EntryKind::kImage ? std::optional(part.level) : std::nullopt;
}

StoreReader::Attempt AttemptAt(const StoreReader::Part& part, MutableByteSpan& out) {
  return [&part, &out](const ByteSource& shard) {
    return ReadAtLevel(part.layout, part.level, part.highest, part.crcs, shard, part.offset, out);
  };
}

}  // namespace

bool StoreReader::ReadAtHand(const Part& part, MutableByteSpan out) {
  const Shard shard = shards_->UseOpen(part.shard, LevelToReadAhead(part));
  return shard && Try(part.shard, AtHandOnly(*shard), AttemptAt(part, out));
}

tl::expected<void, StoreFault> StoreReader::Read(const Part& part, MutableByteSpan out) {
  return Read(part.shard, LevelToReadAhead(part), AttemptAt(part, out));
}

tl::expected<void, StoreFault> StoreReader::Read(uint32_t position, std::optional<Level> level,
                                                 const Attempt& attempt) {
  const ShardPlace whole = ShardPlace::Whole(position);
  if (auto known = memory_.Find(whole)) return tl::unexpected<StoreFault>({*std::move(known), false, true});
  const auto shard = shards_->Use(position, level);
  if (!shard) return tl::unexpected<StoreFault>({shard.error(), memory_.Remember(whole, shard.error()), true});
  memory_.Forget(whole);
  auto read = Try(position, **shard, attempt);
  if (!read && !read.error().known) read = TryAgain(position, *shard, read.error().fault, attempt);
  if (read) return {};
  auto& [fault, known] = read.error();
  const ShardPlace place{position, fault.offset, fault.offset + fault.size};
  const bool is_new = !known && memory_.Remember(place, fault.error);
  const bool of_shard = IsFaultOfShard(place, fault.error.code);
  return tl::unexpected<StoreFault>({std::move(fault.error), is_new, of_shard});
}

tl::expected<void, StoreReader::Failure> StoreReader::Try(uint32_t position, const ByteSource& shard,
                                                          const Attempt& attempt) {
  if (memory_.empty()) {
    if (auto done = attempt(shard); !done) return tl::unexpected<Failure>({std::move(done).error(), false});
    return {};
  }
  const WithBadPlaces source(shard, position, memory_);
  if (auto done = attempt(source); !done) return tl::unexpected<Failure>({std::move(done).error(), source.known()});
  for (const ShardPlace& place : source.places()) memory_.Forget(place);
  return {};
}

// Not from what is cached of it, and from the shard that lies in the data set now, if that can be had.
tl::expected<void, StoreReader::Failure> StoreReader::TryAgain(uint32_t position, const Shard& shard,
                                                               const BlockFault& fault, const Attempt& attempt) {
  shard->Refresh(fault.offset, fault.size);
  const auto fresh = shards_->OpenAgain(position, shard);
  const Shard& source = fresh && *fresh ? *fresh : shard;
  auto read = Try(position, *source, attempt);
  if (read && source != shard) shards_->Replace(position, shard, source);
  if (read || fresh || fresh.error().code != ErrorCode::kStale) return read;
  Error& error = read.error().fault.error;
  error = {ErrorCode::kStale, error.message + "; " + fresh.error().message};
  return read;
}

}  // namespace pcrfs
