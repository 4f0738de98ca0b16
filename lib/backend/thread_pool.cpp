#include "backend/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"

namespace caption {
namespace {

// A thread takes a quarter of what is left of a share, so that few calls cover it and its end is
// taken in small pieces: a thread that is done early takes some of them.
constexpr std::int64_t kTakenPart = 4;

// Units per share at most: they bound how far apart the threads end.
constexpr std::int64_t kUnitsPerShare = 32;

// How often a thread looks for work before it sleeps. The gaps between the kernels of a step are a
// few microseconds, a sleep and its wake-up cost tens of them; each turn yields, so a core that
// another process needs becomes free.
constexpr int kSpinTurns = 100;

// The units of a share that are not taken: [first, end).
struct Units {
  std::int64_t first = 0;
  std::int64_t end = 0;

  std::int64_t count() const { return end - first; }
};

// Units that belong to one thread, which takes them in ascending order, so that it reads memory in
// the order of addresses. Other threads take units at the end. Units are numbers below 2^32.
class alignas(64) Share {
 public:
  void set(Units units) { units_.store(pack(units), std::memory_order_release); }

  // Returns no units when none are left.
  Units take(bool at_end) {
    std::uint64_t word = units_.load(std::memory_order_relaxed);
    for (;;) {
      const Units left{.first = static_cast<std::int64_t>(word & kLowHalf),
                       .end = static_cast<std::int64_t>(word >> 32U)};
      if (left.count() == 0) return {};
      const std::int64_t count = (left.count() + kTakenPart - 1) / kTakenPart;
      const std::int64_t middle = at_end ? left.end - count : left.first + count;
      const Units before{left.first, middle};
      const Units after{middle, left.end};
      if (units_.compare_exchange_weak(word, pack(at_end ? before : after),
                                       std::memory_order_acquire, std::memory_order_relaxed)) {
        return at_end ? after : before;
      }
    }
  }

 private:
  static constexpr std::uint64_t kLowHalf = 0xFFFFFFFF;

  static std::uint64_t pack(Units units) {
    return static_cast<std::uint64_t>(units.end) << 32U | static_cast<std::uint64_t>(units.first);
  }

  std::atomic<std::uint64_t> units_{0};
};

}  // namespace

// The pool has at most one job. Taking units from a share keeps the job alive until the taker adds
// them to `finished`, so a thread may read the other job fields only in between. `untaken` is at
// least the number of units in the shares, and 0 when a job is finished.
struct ThreadPool::State {
  std::vector<std::thread> threads;
  std::atomic<bool> in_use{false};

  // The job; written by the caller only while no unit is untaken or unfinished.
  const std::function<void(std::int64_t, std::int64_t)>* body = nullptr;
  std::int64_t count = 0;
  std::int64_t unit_size = 0;
  std::int64_t num_units = 0;
  std::vector<Share> shares;  // one of each thread; the caller's is the first
  std::atomic<std::int64_t> untaken{0};
  std::atomic<std::int64_t> finished{0};
  std::atomic<bool> failed{false};

  std::mutex mutex;  // guards first_error and the waits on the condition variables
  std::condition_variable work_came;
  std::condition_variable work_done;
  std::atomic<int> num_sleeping{0};
  std::atomic<bool> caller_sleeps{false};
  std::atomic<bool> stopping{false};
  std::exception_ptr first_error;

  void publish();
  Units take_units(std::size_t thread);
  void run(Units units);
  bool run_all(std::size_t thread);
  void work_until_stopped(std::size_t thread);
  void wake_workers();
  void wait_until_finished();
  void stop_and_join();
};

void ThreadPool::State::publish() {
  untaken.store(num_units);
  const auto num_shares = std::ssize(shares);
  for (std::int64_t i = 0; i < num_shares; ++i) {
    shares[static_cast<std::size_t>(i)].set(
        {num_units * i / num_shares, num_units * (i + 1) / num_shares});
  }
  wake_workers();
}

// Returns units of the thread's share, or of others when it is empty; no units when all are taken.
Units ThreadPool::State::take_units(std::size_t thread) {
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (untaken.load(std::memory_order_relaxed) == 0) return {};
    const Units units = shares[(thread + i) % shares.size()].take(i > 0);
    if (units.count() == 0) continue;
    untaken.fetch_sub(units.count(), std::memory_order_relaxed);
    return units;
  }
  return {};
}

void ThreadPool::State::run(Units units) {
  if (failed.load(std::memory_order_relaxed)) return;
  try {
    (*body)(units.first * unit_size, std::min(count, units.end * unit_size));
  } catch (...) {
    const std::lock_guard lock(mutex);
    if (!first_error) first_error = std::current_exception();
    failed.store(true, std::memory_order_relaxed);
  }
}

// Runs units until all are taken. Returns whether there were any.
bool ThreadPool::State::run_all(std::size_t thread) {
  std::int64_t num_done = 0;
  for (Units units = take_units(thread); units.count() > 0; units = take_units(thread)) {
    run(units);
    num_done += units.count();
  }
  if (num_done == 0) return false;
  const std::int64_t total = num_units;
  // After this addition the job may no longer exist. It is sequentially consistent, as is the read
  // of caller_sleeps: either the caller sees the job finished before it sleeps, or this thread sees
  // that the caller sleeps.
  if (finished.fetch_add(num_done) + num_done == total && caller_sleeps.load()) {
    const std::lock_guard lock(mutex);
    work_done.notify_one();
  }
  return true;
}

void ThreadPool::State::work_until_stopped(std::size_t thread) {
  while (!stopping.load()) {
    for (int turn = 0; turn < kSpinTurns; ++turn) {
      if (run_all(thread)) {
        turn = 0;
      } else {
        std::this_thread::yield();
      }
    }
    std::unique_lock lock(mutex);
    // Incremented before the last look at `untaken`, while the caller publishes work before it
    // looks at num_sleeping. Both are sequentially consistent, so at least one of the two sees the
    // other.
    num_sleeping.fetch_add(1);
    work_came.wait(lock, [&] { return untaken.load() > 0 || stopping.load(); });
    num_sleeping.fetch_sub(1);
  }
}

void ThreadPool::State::wake_workers() {
  if (num_sleeping.load() == 0) return;
  const std::lock_guard lock(mutex);
  work_came.notify_all();
}

void ThreadPool::State::wait_until_finished() {
  for (int turn = 0; turn < kSpinTurns; ++turn) {
    if (finished.load(std::memory_order_acquire) == num_units) return;
    std::this_thread::yield();
  }
  std::unique_lock lock(mutex);
  caller_sleeps.store(true);
  work_done.wait(lock, [&] { return finished.load() == num_units; });
  caller_sleeps.store(false);
}

void ThreadPool::State::stop_and_join() {
  {
    const std::lock_guard lock(mutex);
    stopping.store(true);
    work_came.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
}

ThreadPool::ThreadPool(int num_threads) : state_(std::make_unique<State>()) {
  CAPTION_CHECK(num_threads >= 1,
                "a thread pool needs at least one thread, got " + std::to_string(num_threads));
  std::vector<std::thread>& threads = state_->threads;
  try {
    const auto count = static_cast<std::size_t>(num_threads);
    state_->shares = std::vector<Share>(count);
    threads.reserve(count - 1);
    for (std::size_t i = 1; i < count; ++i) {
      threads.emplace_back([state = state_.get(), i] { state->work_until_stopped(i); });
    }
  } catch (const std::system_error& error) {
    state_->stop_and_join();
    // The calling thread counts as the first.
    throw Error(ErrorCode::kOutOfMemory,
                "thread pool: cannot start thread " + std::to_string(threads.size() + 2) + " of " +
                    std::to_string(num_threads) + ": " + error.what() + "; lower --threads");
  } catch (...) {
    state_->stop_and_join();
    throw;
  }
}

ThreadPool::~ThreadPool() { state_->stop_and_join(); }

int ThreadPool::num_threads() const { return static_cast<int>(state_->threads.size()) + 1; }

void ThreadPool::parallel_for(
    std::int64_t count, std::int64_t grain,
    const std::function<void(std::int64_t begin, std::int64_t end)>& body) {
  CAPTION_CHECK(grain >= 1, "the grain of a parallel loop must be positive");
  if (count <= 0) return;
  State& state = *state_;
  CAPTION_CHECK(!state.in_use.exchange(true, std::memory_order_acquire),
                "a thread pool was entered twice: nested, or by two callers at a time");
  struct Release {
    std::atomic<bool>& in_use;
    ~Release() { in_use.store(false, std::memory_order_release); }
  } const release{state.in_use};

  const std::int64_t most_units = num_threads() * kUnitsPerShare;
  const std::int64_t unit_size = std::max(grain, (count - 1) / most_units + 1);
  const std::int64_t num_units = (count - 1) / unit_size + 1;
  if (num_threads() == 1 || num_units == 1) {
    body(0, count);
    return;
  }
  state.body = &body;
  state.count = count;
  state.unit_size = unit_size;
  state.num_units = num_units;
  state.first_error = nullptr;
  state.failed.store(false, std::memory_order_relaxed);
  state.finished.store(0, std::memory_order_relaxed);
  state.publish();
  state.run_all(0);
  state.wait_until_finished();
  if (state.first_error) std::rethrow_exception(std::exchange(state.first_error, nullptr));
}

}  // namespace caption
