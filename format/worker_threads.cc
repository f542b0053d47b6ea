#include "format/worker_threads.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace pcrfs {

void RunOnThreads(unsigned count, const std::function<void()>& work) {
  if (count == 0) count = std::max(1U, std::thread::hardware_concurrency());
  std::mutex mutex;
  std::exception_ptr first;
  const auto guarded = [&] {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(count);
  try {
    while (threads.size() + 1 < count) threads.emplace_back(guarded);
  } catch (const std::system_error&) {
    // No more threads to be had: those that there are do the work, if only this one.
  }
  guarded();
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace pcrfs
