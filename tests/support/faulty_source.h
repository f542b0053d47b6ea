// A source with faults made on purpose: flipped bytes, failing places, a hook at every read; and it remembers what it
// was asked for, so that tests can say what was read and what was not.
//
// Thread safety: all methods from any number of threads, faults to be set before.
#ifndef PCRFS_TESTS_SUPPORT_FAULTY_SOURCE_H_
#define PCRFS_TESTS_SUPPORT_FAULTY_SOURCE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "format/bytes.h"
#include "format/error.h"
#include "format/file.h"

namespace pcrfs::testing {

struct ReadRequest {
  uint64_t offset = 0;
  uint64_t size = 0;

  friend bool operator==(const ReadRequest&, const ReadRequest&) = default;
};

class FaultySource final : public ByteSource {
 public:
  FaultySource(std::string name, Bytes bytes) : name_(std::move(name)), bytes_(std::move(bytes)) {}

  void Flip(uint64_t offset) { bytes_[static_cast<size_t>(offset)] ^= 0x01; }
  // Reads that touch `offset` fail with this.
  void FailAt(uint64_t offset, Error error) { failures_[offset] = std::move(error); }
  // Called before each read, by the thread that reads; may sleep.
  void OnRead(std::function<void(const ReadRequest&)> hook) { hook_ = std::move(hook); }

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] uint64_t size() const override { return bytes_.size(); }
  [[nodiscard]] Result<void> ReadAt(uint64_t offset, MutableByteSpan out) const override;
  // Remembered as one request.
  [[nodiscard]] Result<void> ReadParts(uint64_t offset, std::span<const MutableByteSpan> parts) const override;
  void WillNeed(uint64_t offset, uint64_t size) const override;

  [[nodiscard]] std::vector<ReadRequest> reads() const;
  [[nodiscard]] std::vector<ReadRequest> advices() const;

 private:
  std::string name_;
  Bytes bytes_;
  std::map<uint64_t, Error> failures_;
  std::function<void(const ReadRequest&)> hook_;
  mutable std::mutex mutex_;
  mutable std::vector<ReadRequest> reads_, advices_;
};

}  // namespace pcrfs::testing

#endif  // PCRFS_TESTS_SUPPORT_FAULTY_SOURCE_H_
