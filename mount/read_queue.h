// Reads that have to wait for the store: how many do so at once, and what becomes of those that nobody waits for.
//
// A session has so many workers, and reads that hang in a slow store must not keep all of them, or nothing else would
// be answered. At most `at_once` reads run, each in the thread that submitted it; one beyond that is kept here, its
// thread goes back to the kernel, and whichever thread ends a read goes on with the next one.
//
// A process that is being killed waits for the answer to its read however long the store takes. The queue's own thread
// looks for such readers, at once when Look is called and otherwise a few times a second among the reads that have
// taken long, and cancels their reads. What runs goes on running; its answer is of no use any more.
//
// Ownership: shares the reads with whoever runs them; owns its thread, which sleeps while there is no read. Thread
// safety: all methods from any number of threads, but End.
#ifndef PCRFS_MOUNT_READ_QUEUE_H_
#define PCRFS_MOUNT_READ_QUEUE_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace pcrfs {

class ReadQueue {
 public:
  class Read {
   public:
    virtual ~Read() = default;
    // Reads and answers; nothing when it was cancelled. May take as long as it likes. Does not throw.
    virtual void Run() = 0;
    // Whoever asked is being killed. Called while it waits or runs, like Cancel.
    [[nodiscard]] virtual bool Abandoned() const = 0;
    // Answers with this errno value unless it is answered already. May be called more than once.
    virtual void Cancel(int number) = 0;
  };

  // Reads that have taken as long as this are looked at, this often.
  static constexpr std::chrono::milliseconds kPatience{250};

  explicit ReadQueue(size_t at_once = 1);
  ~ReadQueue();
  ReadQueue(const ReadQueue&) = delete;
  ReadQueue& operator=(const ReadQueue&) = delete;

  // Of `workers` threads, how many may run reads: some are kept free, at least one of two or more.
  [[nodiscard]] static size_t ReadsAtOnce(size_t workers);
  void Allow(size_t at_once);

  // Runs the read, and after it others that wait; or leaves it to another thread and returns.
  void Submit(std::shared_ptr<Read> read);
  // A reader was interrupted and may be being killed.
  void Look();

  // Cancels what waits, and what is submitted from now on, with EIO.
  void Refuse();
  // The same, and afterwards the queue calls no read any more. When the threads that submit have ended; only once.
  void End();

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::shared_ptr<Read> read;
    Clock::time_point since;
  };
  using Entries = std::list<Entry>;

  enum class Place { kRunning, kWaiting, kRefused };

  [[nodiscard]] Place Enter(Entries& one);
  [[nodiscard]] std::optional<Entries::iterator> Next(Entries::iterator done);
  void Watch();
  [[nodiscard]] std::vector<std::shared_ptr<Read>> Suspects(Clock::time_point since) const;
  void Forget(const std::vector<std::shared_ptr<Read>>& cancelled);

  std::mutex mutex_;
  std::condition_variable changed_;
  size_t at_once_;
  Entries running_, waiting_;
  bool refusing_ = false, asleep_ = false, look_ = false, stop_ = false;
  std::thread watcher_;  // last: it uses all of the above
};

}  // namespace pcrfs

#endif  // PCRFS_MOUNT_READ_QUEUE_H_
