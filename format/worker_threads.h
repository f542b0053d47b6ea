// A job on several threads: what pack and verify share.
#ifndef PCRFS_FORMAT_WORKER_THREADS_H_
#define PCRFS_FORMAT_WORKER_THREADS_H_

#include <functional>

namespace pcrfs {

// Runs `work` on `count` threads (0 = one a processor), the calling one among them, and returns when each has returned
// from it. Where the system gives fewer threads, those that there are run it. The first exception that leaves `work`
// is thrown on to the caller after the others have ended; `work` sees to it that they do.
void RunOnThreads(unsigned count, const std::function<void()>& work);

}  // namespace pcrfs

#endif  // PCRFS_FORMAT_WORKER_THREADS_H_
