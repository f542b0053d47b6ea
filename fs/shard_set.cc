#include "fs/shard_set.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "fs/memory_limit.h"
#include "fs/prefetcher.h"

namespace pcrfs {
namespace {

// Descriptors left for everything else: FUSE devices, logs, the catalog, shards that readers still hold.
constexpr rlim_t kReservedDescriptors = 256;

// Of the memory available, the share that prefixes may take.
constexpr uint64_t kShareOf4 = 3;

// How long a use waits for a descriptor, and between two looks at whether there is one.
constexpr std::chrono::seconds kWaitForDescriptor{2};
constexpr std::chrono::milliseconds kLookForDescriptor{5};

size_t DescriptorsForShards() {
  RaiseDescriptorLimit();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kReservedDescriptors;
  if (limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return static_cast<size_t>(
      std::max(limit.rlim_cur / 2, limit.rlim_cur - std::min(limit.rlim_cur, kReservedDescriptors)));
}

}  // namespace

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

struct ShardSet::Impl {
  struct Slot {
    std::shared_ptr<const ByteSource> source;
    int level = 0;      // that read-ahead was asked for and not refused; 0 = none since the shard was last idle
    bool used = false;  // since the search for one to close last came by
    Prefetcher::TimePoint last_used{};
    Prefetcher::TimePoint refused{};  // when there was last no memory for its read-ahead
    Prefetcher::TimePoint opened_again{};
    std::optional<Error> not_opened;  // why not, that time
  };

  Impl(size_t count, Opener shard_opener, const ShardSetOptions& options)
      : opener(std::move(shard_opener)),
        try_again(options.try_again),
        slots(count),
        max_open(std::max<size_t>(1, options.max_open == 0 ? DescriptorsForShards() / 2 : options.max_open)),
        prefetcher({options.memory_for_prefixes ? options.memory_for_prefixes
                                                : [] { return AvailableMemory() / 4 * kShareOf4; },
                    [this](size_t position) { return LastUsed(position); },
                    [this](const Prefetcher::Request& request) { Refused(request); }}) {}

  struct Touched {
    std::shared_ptr<const ByteSource> source;  // null: it is not open
    bool first;                                // at this level
    int level_before;                          // 0: none
  };

  Touched Touch(size_t position, std::optional<Level> level);
  Prefetcher::TimePoint LastUsed(size_t position);
  void Refused(const Prefetcher::Request& request);
  std::mutex& Mutex(size_t position) { return mutexes[position % mutexes.size()]; }
  std::shared_ptr<const ByteSource> Keep(size_t position, std::shared_ptr<const ByteSource> source);
  enum class Which : bool { kAny, kUnread };
  [[nodiscard]] std::shared_ptr<const ByteSource> CloseOne(Which which);
  bool CloseUnread();

  Opener opener;
  const std::chrono::milliseconds try_again;
  std::vector<Slot> slots;
  std::array<std::mutex, 64> mutexes;  // slot i is guarded by Mutex(i); taken after open_mutex, never before
  std::mutex open_mutex;
  size_t max_open;           // guarded by open_mutex, as are the next two
  std::vector<size_t> open;  // positions of slots with a source
  size_t hand = 0;           // in `open`: where the search for one to close goes on
  Prefetcher prefetcher;     // last: its thread looks at the slots
};

// Two threads may have opened the same shard; the first one's stays.
std::shared_ptr<const ByteSource> ShardSet::Impl::Keep(size_t position, std::shared_ptr<const ByteSource> source) {
  std::vector<std::shared_ptr<const ByteSource>> closed;  // after the locks: it may wait for the store
  const std::lock_guard lock(open_mutex);
  {
    const std::lock_guard slot_lock(Mutex(position));
    if (slots[position].source) return slots[position].source;
  }
  while (open.size() >= max_open) {
    auto unread = CloseOne(Which::kUnread);
    closed.push_back(unread ? std::move(unread) : CloseOne(Which::kAny));
  }
  const std::lock_guard slot_lock(Mutex(position));
  slots[position].source = source;
  slots[position].used = true;
  open.push_back(position);
  return source;
}

Prefetcher::TimePoint ShardSet::Impl::LastUsed(size_t position) {
  const std::lock_guard lock(Mutex(position));
  return slots[position].last_used;
}

void ShardSet::Impl::Refused(const Prefetcher::Request& request) {
  const std::lock_guard lock(Mutex(request.position));
  Slot& slot = slots[request.position];
  slot.level = std::min(slot.level, request.level_before);
  slot.refused = Prefetcher::Clock::now();
}

// The first that was not used since the search last came by: nearly the least recently used, without a list to keep.
// Null when the search came by twice without finding one.
std::shared_ptr<const ByteSource> ShardSet::Impl::CloseOne(Which which) {
  for (size_t looks = 2 * open.size(); looks > 0; --looks) {
    hand = hand < open.size() ? hand : 0;
    Slot& slot = slots[open[hand]];
    const std::lock_guard slot_lock(Mutex(open[hand]));
    if (std::exchange(slot.used, false) || (which == Which::kUnread && slot.source.use_count() > 1)) {
      ++hand;
      continue;
    }
    open[hand] = open.back();
    open.pop_back();
    return std::move(slot.source);
  }
  return nullptr;
}

bool ShardSet::Impl::CloseUnread() {
  std::shared_ptr<const ByteSource> closed;  // after the lock
  const std::lock_guard lock(open_mutex);
  closed = CloseOne(Which::kUnread);
  return closed != nullptr;
}

ShardSet::ShardSet(std::vector<ShardFacts> facts, Opener opener, ShardSetOptions options)
    : facts_(std::move(facts)),
      try_again_(options.try_again),
      impl_(std::make_unique<Impl>(facts_.size(), std::move(opener), options)) {}
ShardSet::~ShardSet() = default;

// What a use of a shard finds, and whether it is the first at that level.
ShardSet::Impl::Touched ShardSet::Impl::Touch(size_t position, std::optional<Level> level) {
  const Prefetcher::TimePoint now = Prefetcher::Clock::now();
  const std::lock_guard lock(Mutex(position));
  Slot& slot = slots[position];
  if (now - slot.last_used >= Prefetcher::kIdle) slot.level = 0;
  slot.last_used = now;
  slot.used = true;
  const bool asked_lately = now - slot.refused < try_again;
  const Touched touched{slot.source, level && level->number() > slot.level && !asked_lately, slot.level};
  if (touched.first && slot.source) slot.level = level->number();
  return touched;
}

std::shared_ptr<const ByteSource> ShardSet::UseOpen(size_t position, std::optional<Level> level) {
  if (position >= facts_.size()) return nullptr;
  Impl::Touched touched = impl_->Touch(position, level);
  if (touched.first && touched.source) ReadAhead(position, *level, touched.level_before, touched.source);
  return std::move(touched.source);
}

Result<std::shared_ptr<const ByteSource>> ShardSet::Use(size_t position, std::optional<Level> level) {
  if (position >= facts_.size()) return Fail(ErrorCode::kInvalidArgument, "no such shard");
  Impl::Touched touched = impl_->Touch(position, level);
  if (!touched.source) {
    auto opened = Open(position);
    if (!opened) return opened;
    touched.source = impl_->Keep(position, *std::move(opened));
    const std::lock_guard lock(impl_->Mutex(position));
    if (touched.first) impl_->slots[position].level = level->number();
  }
  if (touched.first) ReadAhead(position, *level, touched.level_before, touched.source);
  return std::move(touched.source);
}

void ShardSet::ReadAhead(size_t position, Level level, int level_before,
                         const std::shared_ptr<const ByteSource>& source) {
  const uint64_t begin = PrefixBegin(position), end = PrefixEnd(position, level);
  impl_->prefetcher.Ask({position, source, begin, end, level_before == 0, level_before});
}

uint64_t ShardSet::PrefixBegin(size_t position) const {
  const std::vector<uint64_t>& ends = facts_[position].section_ends;
  return ends.empty() ? 0 : ends.front();
}

// Level 31 stands for all groups.
uint64_t ShardSet::PrefixEnd(size_t position, Level level) const {
  const std::vector<uint64_t>& ends = facts_[position].section_ends;
  if (ends.empty()) return 0;
  return level.number() == Level::kMaximum ? ends.back() : ends[std::min(level.index() + 1, ends.size() - 1)];
}

Result<std::shared_ptr<const ByteSource>> ShardSet::Open(size_t position) {
  const auto deadline = std::chrono::steady_clock::now() + kWaitForDescriptor;
  for (;;) {
    auto opened = OpenOnce(position);
    if (opened || opened.error().code != ErrorCode::kShortage) return opened;
    if (impl_->CloseUnread()) continue;
    if (std::chrono::steady_clock::now() >= deadline) return opened;
    std::this_thread::sleep_for(kLookForDescriptor);
  }
}

Result<std::shared_ptr<const ByteSource>> ShardSet::OpenOnce(size_t position) const {
  auto opened = impl_->opener(position);
  if (!opened) return PassOn(std::move(opened));
  const ShardFacts& facts = facts_[position];
  if ((*opened)->size() != facts.file_size)
    return Fail(ErrorCode::kStale,
                "shard " + Quoted((*opened)->name()) + " is not the one that the catalog was built from: expected " +
                    std::to_string(facts.file_size) + " bytes, found " + std::to_string((*opened)->size()));
  return std::shared_ptr<const ByteSource>(*std::move(opened));
}

Result<std::shared_ptr<const ByteSource>> ShardSet::OpenAgain(size_t position,
                                                              const std::shared_ptr<const ByteSource>& failed) {
  const Prefetcher::TimePoint now = Prefetcher::Clock::now();
  {
    const std::lock_guard lock(impl_->Mutex(position));
    Impl::Slot& slot = impl_->slots[position];
    if (slot.source && slot.source != failed) return slot.source;
    if (now - slot.opened_again < try_again_) {
      if (slot.not_opened) return tl::unexpected<Error>(*slot.not_opened);
      return nullptr;
    }
    slot.opened_again = now;
  }
  auto opened = Open(position);
  const std::lock_guard lock(impl_->Mutex(position));
  impl_->slots[position].not_opened = opened ? std::nullopt : std::optional(opened.error());
  return opened;
}

void ShardSet::Replace(size_t position, const std::shared_ptr<const ByteSource>& failed,
                       const std::shared_ptr<const ByteSource>& fresh) {
  std::shared_ptr<const ByteSource> closed;  // after the lock
  const std::lock_guard lock(impl_->Mutex(position));
  Impl::Slot& slot = impl_->slots[position];
  if (slot.source != failed) return;
  closed = std::exchange(slot.source, fresh);
  slot.level = 0;  // of this one nothing was read ahead
}

void ShardSet::StepBack() {
  std::vector<std::shared_ptr<const ByteSource>> closed;  // after the lock: it may wait for the store
  const std::lock_guard lock(impl_->open_mutex);
  impl_->max_open = std::max<size_t>(1, impl_->max_open / 2);
  while (impl_->open.size() > impl_->max_open) closed.push_back(impl_->CloseOne(Impl::Which::kAny));
}

void ShardSet::WaitForReadAhead() { impl_->prefetcher.Drain(); }

}  // namespace pcrfs
