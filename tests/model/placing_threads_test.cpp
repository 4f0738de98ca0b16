// Tests the threads that place tensors side by side.
#include "model/internal/placing_threads.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace caption::model {
namespace {

constexpr std::size_t kCount = 300;

TEST_SUITE("model/placing_threads") {
  TEST_CASE("each tensor is placed once, by a thread that takes its tensors in order") {
    for (const int num_threads : {1, 2, 5}) {
      CAPTURE(num_threads);
      ThreadPool pool(num_threads);
      Stream stream(pool);
      PlacingThreads threads(stream);
      std::mutex mutex;
      std::map<std::thread::id, std::vector<std::size_t>> taken;
      const auto place = [&](Stream&, std::size_t i) {
        const std::lock_guard lock(mutex);
        taken[std::this_thread::get_id()].push_back(i);
      };
      threads.place_side_by_side(0, kCount, place);
      threads.place_side_by_side(kCount, kCount, place);
      CHECK(taken.size() <= static_cast<std::size_t>(num_threads));
      std::vector<std::size_t> all;
      for (const auto& [thread, tensors] : taken) {
        CHECK(std::is_sorted(tensors.begin(), tensors.end()));
        all.insert(all.end(), tensors.begin(), tensors.end());
      }
      std::sort(all.begin(), all.end());
      REQUIRE(all.size() == kCount);
      for (std::size_t i = 0; i < kCount; ++i) CHECK(all[i] == i);
    }
  }

  TEST_CASE("a thread has a stream and memory of its own") {
    for (const int num_threads : {1, 2, 5}) {
      CAPTURE(num_threads);
      ThreadPool pool(num_threads);
      Stream stream(pool);
      PlacingThreads threads(stream);
      std::vector<Buffer> buffers(kCount);
      const auto place = [&](Stream& of_thread, std::size_t i) {
        buffers[i] = of_thread.arena()->allocate(1000 + i);
        // Would throw in the pool of a stream that another thread uses.
        of_thread.pool().parallel_for(8, 1, [&](std::int64_t begin, std::int64_t end) {
          if (begin == 0 || end == 8) {
            std::fill_n(buffers[i].begin(), buffers[i].size_bytes(),
                        static_cast<std::byte>(i % 251));
          }
        });
      };
      threads.place_side_by_side(0, kCount, place);
      for (std::size_t i = 0; i < kCount; ++i) {
        CAPTURE(i);
        const std::byte* const first = buffers[i].begin();
        CHECK(std::count(first, first + buffers[i].size_bytes(), static_cast<std::byte>(i % 251)) ==
              static_cast<std::ptrdiff_t>(buffers[i].size_bytes()));
      }
    }
  }

  TEST_CASE("an exception is rethrown, and the threads can be used again") {
    for (const int num_threads : {1, 3}) {
      CAPTURE(num_threads);
      ThreadPool pool(num_threads);
      Stream stream(pool);
      PlacingThreads threads(stream);
      std::atomic<std::size_t> num_placed{0};
      const auto place = [&](Stream&, std::size_t i) {
        if (i == 5) throw std::runtime_error("tensor 5");
        ++num_placed;
      };
      CHECK_THROWS_WITH(threads.place_side_by_side(0, kCount, place), "tensor 5");
      if (num_threads == 1) CHECK(num_placed == 5);
      num_placed = 0;
      threads.place_side_by_side(6, kCount, place);
      CHECK(num_placed == kCount - 6);
    }
  }

  TEST_CASE("of two tensors that fail the first is told, though its thread is the slower one") {
    for (const int num_threads : {2, 3}) {
      CAPTURE(num_threads);
      ThreadPool pool(num_threads);
      Stream stream(pool);
      PlacingThreads threads(stream);
      std::atomic<bool> has_later_failed{false};
      const auto place = [&](Stream&, std::size_t i) {
        if (i == 5) {
          while (!has_later_failed) std::this_thread::yield();
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          throw std::runtime_error("tensor 5");
        }
        if (i == 7) {
          has_later_failed = true;
          throw std::runtime_error("tensor 7");
        }
      };
      CHECK_THROWS_WITH(threads.place_side_by_side(0, kCount, place), "tensor 5");
    }
  }
}

}  // namespace
}  // namespace caption::model
