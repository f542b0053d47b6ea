// fork(2) for tests. A failed one ends the test program: its -1 given to kill(2) would signal every process there is.
#ifndef PCRFS_TESTS_SUPPORT_FORK_H_
#define PCRFS_TESTS_SUPPORT_FORK_H_

#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace pcrfs::testing {

[[nodiscard]] inline pid_t Fork() {
  const pid_t child = fork();
  if (child >= 0) return child;
  std::perror("test support: fork");
  std::abort();
}

}  // namespace pcrfs::testing

#endif  // PCRFS_TESTS_SUPPORT_FORK_H_
