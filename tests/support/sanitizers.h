// Which sanitizer a test runs under, for the few whose purpose is what that sanitizer is there to end.
#ifndef PCRFS_TESTS_SUPPORT_SANITIZERS_H_
#define PCRFS_TESTS_SUPPORT_SANITIZERS_H_

namespace pcrfs::testing {

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

#ifdef __SANITIZE_THREAD__
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

}  // namespace pcrfs::testing

// First in a test in which LMDB reads pages gone bad: it goes wherever they point to, and leaves what it held when it
// is given up (cache/mapping_guard.h). Both are meant, and the address sanitizer ends the process for both. And first
// in a test that takes all descriptors away: the undefined behaviour sanitizer, which runs with it, needs one to see
// whether an object can be read, and calls it none without.
#define PCRFS_NOT_UNDER_ADDRESS_SANITIZER()                                                   \
  do {                                                                                        \
    if (pcrfs::testing::kAddressSanitizer) GTEST_SKIP() << "not under the address sanitizer"; \
  } while (false)

// First in a test whose limits (of the stack, of what may be written) the thread sanitizer's own start does not
// survive.
#define PCRFS_NOT_UNDER_THREAD_SANITIZER()                                                  \
  do {                                                                                      \
    if (pcrfs::testing::kThreadSanitizer) GTEST_SKIP() << "not under the thread sanitizer"; \
  } while (false)

#endif  // PCRFS_TESTS_SUPPORT_SANITIZERS_H_
