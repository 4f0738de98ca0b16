#include "backend/thread_pool.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/error.h"

using caption::Error;
using caption::ThreadPool;

TEST_SUITE_BEGIN("backend/thread_pool");

TEST_CASE("visits every index exactly once, in ranges of at least the grain") {
  struct Case {
    int threads;
    std::int64_t count;
    std::int64_t grain;
  };
  constexpr Case kCases[] = {{1, 1, 1},   {1, 1000, 7},   {2, 1, 1},
                             {2, 2, 1},   {2, 1000, 1},   {3, 1000, 7},
                             {4, 5, 100}, {4, 1001, 250}, {7, 100003, 1}};
  for (const Case& c : kCases) {
    CAPTURE(c.threads);
    CAPTURE(c.count);
    CAPTURE(c.grain);
    ThreadPool pool(c.threads);
    CHECK(pool.num_threads() == c.threads);
    std::vector<int> visits(static_cast<std::size_t>(c.count), 0);
    std::atomic<int> short_ranges{0};
    pool.parallel_for(c.count, c.grain, [&](std::int64_t begin, std::int64_t end) {
      if (end - begin < c.grain && end != c.count) ++short_ranges;
      for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
    });
    CHECK(short_ranges == 0);
    CHECK(std::count(visits.begin(), visits.end(), 1) == c.count);
  }
}

TEST_CASE("a loop over nothing calls nothing") {
  ThreadPool pool(2);
  pool.parallel_for(0, 1, [](std::int64_t, std::int64_t) { FAIL("called"); });
  pool.parallel_for(-3, 1, [](std::int64_t, std::int64_t) { FAIL("called"); });
}

TEST_CASE("many short jobs in a row, with and without pauses that let the threads sleep") {
  ThreadPool pool(4);
  std::int64_t expected = 0;
  std::atomic<std::int64_t> sum{0};
  for (int job = 0; job < 2000; ++job) {
    if (job % 400 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::int64_t count = 1 + job % 37;
    pool.parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) sum.fetch_add(i, std::memory_order_relaxed);
    });
    expected += count * (count - 1) / 2;
    REQUIRE(sum.load() == expected);
  }
}

TEST_CASE("what a body wrote is visible to the caller") {
  ThreadPool pool(3);
  for (int job = 0; job < 200; ++job) {
    std::vector<std::int64_t> squares(64);
    pool.parallel_for(64, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) squares[static_cast<std::size_t>(i)] = i * i;
    });
    REQUIRE(std::accumulate(squares.begin(), squares.end(), std::int64_t{0}) == 85344);
  }
}

TEST_CASE("a slow body on another thread is waited for") {
  ThreadPool pool(2);
  std::atomic<int> done{0};
  pool.parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ++done;
  });
  CHECK(done == 2);
}

TEST_CASE("a thread that is held up leaves the rest of its part to the others") {
  ThreadPool pool(2);
  constexpr std::int64_t kCount = 64;
  const std::thread::id caller = std::this_thread::get_id();
  // The caller's first range ends when the other thread has done everything that is left.
  std::atomic<std::int64_t> done_by_other{0};
  std::atomic<std::int64_t> held{0};
  pool.parallel_for(kCount, 1, [&](std::int64_t begin, std::int64_t end) {
    if (std::this_thread::get_id() != caller) {
      done_by_other += end - begin;
      return;
    }
    held += end - begin;
    while (done_by_other < kCount - held) std::this_thread::yield();
  });
  CHECK(done_by_other + held == kCount);
  CHECK(held <= kCount / 8);  // a quarter of its part
}

TEST_CASE("the first exception comes back to the caller and the pool works on") {
  for (const int threads : {1, 4}) {
    CAPTURE(threads);
    ThreadPool pool(threads);
    for (int round = 0; round < 20; ++round) {
      CHECK_THROWS_WITH_AS(pool.parallel_for(100, 1,
                                             [](std::int64_t begin, std::int64_t end) {
                                               if (begin <= 42 && 42 < end) {
                                                 throw std::runtime_error("index 42");
                                               }
                                             }),
                           "index 42", std::runtime_error);
      std::atomic<std::int64_t> visited{0};
      pool.parallel_for(100, 1,
                        [&](std::int64_t begin, std::int64_t end) { visited += end - begin; });
      CHECK(visited == 100);
    }
  }
}

TEST_CASE("a nested loop is refused instead of hanging") {
  for (const int threads : {1, 2}) {
    CAPTURE(threads);
    ThreadPool pool(threads);
    CHECK_THROWS_AS(pool.parallel_for(8, 1,
                                      [&](std::int64_t, std::int64_t) {
                                        pool.parallel_for(8, 1, [](std::int64_t, std::int64_t) {});
                                      }),
                    Error);
  }
}

TEST_CASE("a pool of no threads and a loop without a grain are refused") {
  CHECK_THROWS_AS(ThreadPool(0), Error);
  ThreadPool pool(1);
  CHECK_THROWS_AS(pool.parallel_for(1, 0, [](std::int64_t, std::int64_t) {}), Error);
}

TEST_CASE("pools come and go without having worked") {
  for (int i = 0; i < 50; ++i) {
    const ThreadPool pool(3);
    CHECK(pool.num_threads() == 3);
  }
}

TEST_SUITE_END();
