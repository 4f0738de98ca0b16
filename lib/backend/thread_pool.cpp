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

// Ranges per thread: enough that a thread that lost its core for a while does not delay the others,
// few enough that the cost of taking one is negligible.
constexpr std::int64_t kRangesPerThread = 4;

// How often a thread looks for work before it sleeps. The gaps between the kernels of a step are a
// few microseconds, a sleep and its wake-up cost tens of them; each turn yields, so a core that
// another process needs becomes free.
constexpr int kSpinTurns = 100;

}  // namespace

// The pool has at most one job. `untaken` counts the ranges that no thread has taken. Taking a
// range (a successful decrement) keeps the job alive until the taker increments `finished`, so a
// thread may read the other job fields only in between; a thread that finds `untaken` at 0 reads
// none of them.
struct ThreadPool::State {
  std::vector<std::thread> threads;
  std::atomic<bool> in_use{false};

  // The job; written by the caller only while no range is untaken or unfinished.
  const std::function<void(std::int64_t, std::int64_t)>* body = nullptr;
  std::int64_t count = 0;
  std::int64_t range_size = 0;
  std::int64_t num_ranges = 0;
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

  bool run_one_range();
  void work_until_stopped();
  void wake_workers();
  void wait_until_finished();
  void stop_and_join();
};

bool ThreadPool::State::run_one_range() {
  std::int64_t ticket = untaken.load(std::memory_order_relaxed);
  do {
    if (ticket == 0) return false;
  } while (!untaken.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acquire,
                                          std::memory_order_relaxed));
  const std::int64_t total = num_ranges;
  const std::int64_t begin = (total - ticket) * range_size;
  const std::int64_t end = std::min(count, begin + range_size);
  if (!failed.load(std::memory_order_relaxed)) {
    try {
      (*body)(begin, end);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!first_error) first_error = std::current_exception();
      failed.store(true, std::memory_order_relaxed);
    }
  }
  // After this increment the job may no longer exist. It is sequentially consistent, as is the read
  // of caller_sleeps: either the caller sees the job finished before it sleeps, or this thread sees
  // that the caller sleeps.
  if (finished.fetch_add(1) + 1 == total && caller_sleeps.load()) {
    const std::lock_guard lock(mutex);
    work_done.notify_one();
  }
  return true;
}

void ThreadPool::State::work_until_stopped() {
  while (!stopping.load()) {
    for (int turn = 0; turn < kSpinTurns; ++turn) {
      if (run_one_range()) {
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
    if (finished.load(std::memory_order_acquire) == num_ranges) return;
    std::this_thread::yield();
  }
  std::unique_lock lock(mutex);
  caller_sleeps.store(true);
  work_done.wait(lock, [&] { return finished.load() == num_ranges; });
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
    threads.reserve(static_cast<std::size_t>(num_threads - 1));
    for (int i = 1; i < num_threads; ++i) {
      threads.emplace_back([state = state_.get()] { state->work_until_stopped(); });
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

  const std::int64_t wanted = num_threads() * kRangesPerThread;
  const std::int64_t range_size = std::max(grain, count / wanted + (count % wanted != 0 ? 1 : 0));
  const std::int64_t num_ranges = count / range_size + (count % range_size != 0 ? 1 : 0);
  if (num_threads() == 1 || num_ranges == 1) {
    body(0, count);
    return;
  }
  state.body = &body;
  state.count = count;
  state.range_size = range_size;
  state.num_ranges = num_ranges;
  state.first_error = nullptr;
  state.failed.store(false, std::memory_order_relaxed);
  state.finished.store(0, std::memory_order_relaxed);
  state.untaken.store(num_ranges);  // publishes the job
  state.wake_workers();
  while (state.run_one_range()) {
  }
  state.wait_until_finished();
  if (state.first_error) std::rethrow_exception(std::exchange(state.first_error, nullptr));
}

}  // namespace caption
