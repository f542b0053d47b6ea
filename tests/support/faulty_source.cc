#include "tests/support/faulty_source.h"

#include <algorithm>

namespace pcrfs::testing {

Result<void> FaultySource::ReadAt(uint64_t offset, MutableByteSpan out) const {
  return ReadParts(offset, std::span<const MutableByteSpan>(&out, 1));
}

Result<void> FaultySource::ReadParts(uint64_t offset, std::span<const MutableByteSpan> parts) const {
  ReadRequest request{offset, 0};
  for (const MutableByteSpan part : parts) request.size += part.size();
  if (hook_) hook_(request);
  {
    const std::lock_guard lock(mutex_);
    reads_.push_back(request);
  }
  if (offset > bytes_.size() || request.size > bytes_.size() - offset)
    return Fail(ErrorCode::kInvalidArgument, "a read beyond the end of " + Quoted(name_));
  if (const auto failure = failures_.lower_bound(offset);
      failure != failures_.end() && failure->first < offset + request.size)
    return tl::unexpected<Error>(failure->second);
  for (const MutableByteSpan part : parts) {
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), part.size(), part.begin());
    offset += part.size();
  }
  return {};
}

void FaultySource::WillNeed(uint64_t offset, uint64_t size) const {
  const std::lock_guard lock(mutex_);
  advices_.push_back({offset, size});
}

std::vector<ReadRequest> FaultySource::reads() const {
  const std::lock_guard lock(mutex_);
  return reads_;
}

std::vector<ReadRequest> FaultySource::advices() const {
  const std::lock_guard lock(mutex_);
  return advices_;
}

}  // namespace pcrfs::testing
