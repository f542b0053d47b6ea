// Nanoseconds since 1970, as attributes hold them, into what system calls take. Pure.
#ifndef PCRFS_MOUNT_TIMESPEC_H_
#define PCRFS_MOUNT_TIMESPEC_H_

#include <cstdint>
#include <ctime>

namespace pcrfs {

// Also right before 1970: tv_nsec is never negative.
[[nodiscard]] constexpr timespec ToTimespec(int64_t nanoseconds) {
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t rest = nanoseconds % kSecond;
  const int64_t seconds = nanoseconds / kSecond - (rest < 0 ? 1 : 0);
  return {static_cast<time_t>(seconds), static_cast<long>(rest < 0 ? rest + kSecond : rest)};
}

static_assert(ToTimespec(-1).tv_sec == -1 && ToTimespec(-1).tv_nsec == 999'999'999);
static_assert(ToTimespec(-1'000'000'000).tv_sec == -1 && ToTimespec(-1'000'000'000).tv_nsec == 0);
static_assert(ToTimespec(1'500'000'000).tv_sec == 1 && ToTimespec(1'500'000'000).tv_nsec == 500'000'000);

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_TIMESPEC_H_
