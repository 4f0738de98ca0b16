#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "base/byte_queue.h"

namespace caption {
namespace {

// Its move constructor throws, as an allocation inside the queue may.
struct Immovable {
  Immovable() = default;
  Immovable(Immovable&& /*other*/) { throw std::bad_alloc(); }
};

TEST_SUITE("base/byte_queue") {
  TEST_CASE("an item that cannot be stored leaves no bytes behind") {
    ByteQueue<Immovable> queue(10);
    CHECK_THROWS_AS(queue.push(Immovable(), 8), std::bad_alloc);
    CHECK(queue.used_bytes() == 0);
    queue.close();
    CHECK_FALSE(queue.pop().has_value());
  }

  TEST_CASE("items come out in order and their bytes are counted") {
    ByteQueue<int> queue(100);
    CHECK(queue.push(1, 40));
    CHECK(queue.push(2, 60));
    CHECK(queue.used_bytes() == 100);
    CHECK(queue.pop() == 1);
    CHECK(queue.used_bytes() == 60);
    CHECK(queue.try_pop() == 2);
    CHECK(queue.used_bytes() == 0);
    CHECK_FALSE(queue.try_pop().has_value());
  }

  TEST_CASE("an item larger than the capacity passes when the queue is empty") {
    ByteQueue<int> queue(10);
    CHECK(queue.push(1, 1000));
    CHECK(queue.used_bytes() == 1000);
    CHECK(queue.pop() == 1);
  }

  TEST_CASE("close lets the consumer drain") {
    ByteQueue<std::unique_ptr<int>> queue(10);
    CHECK(queue.push(std::make_unique<int>(7), 1));
    queue.close();
    auto late = std::make_unique<int>(8);
    CHECK_FALSE(queue.push(std::move(late), 1));
    REQUIRE(late != nullptr);  // what was not taken is left to its owner
    CHECK(**queue.pop() == 7);
    CHECK_FALSE(queue.pop().has_value());
    queue.reopen();
    CHECK(queue.push(std::move(late), 1));
    CHECK(**queue.pop() == 8);
  }

  TEST_CASE("cancel drops what is queued") {
    ByteQueue<int> queue(10);
    CHECK(queue.push(1, 5));
    queue.cancel();
    CHECK(queue.used_bytes() == 0);
    CHECK_FALSE(queue.pop().has_value());
    CHECK_FALSE(queue.push(2, 1));
  }

  TEST_CASE("a full queue holds the producer back until there is room") {
    ByteQueue<int> queue(10);
    CHECK(queue.push(1, 10));
    std::atomic<bool> pushed{false};
    std::thread producer([&] {
      queue.push(2, 10);
      pushed = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK_FALSE(pushed.load());
    CHECK(queue.pop() == 1);
    CHECK(queue.pop() == 2);
    producer.join();
    CHECK(pushed.load());
  }

  TEST_CASE("who waits until the queue is filled goes on when a producer waits or it is closed") {
    for (const int capacity : {2, 100}) {
      ByteQueue<int> queue(static_cast<std::size_t>(capacity));
      std::thread producer([&] {
        for (int i = 0; i < 6; ++i) queue.push(int{i}, 1);
        queue.close();
      });
      queue.wait_until_filled();
      CHECK(queue.used_bytes() == std::min<std::size_t>(6, static_cast<std::size_t>(capacity)));
      int sum = 0;
      while (const std::optional<int> item = queue.pop()) sum += *item;
      CHECK(sum == 15);
      producer.join();
    }
    ByteQueue<int> cancelled(2);
    cancelled.cancel();
    cancelled.wait_until_filled();
  }

  TEST_CASE("close and cancel wake those who wait") {
    for (const bool cancels : {false, true}) {
      CAPTURE(cancels);
      ByteQueue<int> full(1);
      CHECK(full.push(1, 1));
      ByteQueue<int> empty(1);
      bool was_pushed = true;
      bool was_popped = true;
      std::thread producer([&] { was_pushed = full.push(2, 1); });
      std::thread consumer([&] { was_popped = empty.pop().has_value(); });
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      if (cancels) {
        full.cancel();
        empty.cancel();
      } else {
        full.close();
        empty.close();
      }
      producer.join();
      consumer.join();
      CHECK_FALSE(was_pushed);
      CHECK_FALSE(was_popped);
    }
  }

  TEST_CASE("many producers and consumers lose and double nothing") {
    constexpr int kThreads = 4;
    constexpr int kItems = 2000;
    ByteQueue<int> queue(64);
    std::atomic<bool> was_overfull{false};
    std::vector<std::vector<int>> taken(kThreads);
    std::vector<std::thread> producers;
    std::vector<std::thread> consumers;
    for (int t = 0; t < kThreads; ++t) {
      producers.emplace_back([&, t] {
        for (int i = 0; i < kItems; ++i) {
          queue.push(t * kItems + i, static_cast<std::size_t>(1 + i % 30));
        }
      });
      consumers.emplace_back([&, t] {
        while (const auto item = queue.pop()) {
          taken[static_cast<std::size_t>(t)].push_back(*item);
          if (queue.used_bytes() > 64) was_overfull = true;
        }
      });
    }
    for (std::thread& thread : producers) thread.join();
    queue.close();
    for (std::thread& thread : consumers) thread.join();
    std::vector<int> all;
    for (const auto& part : taken) {
      // Each consumer receives every producer's items in the order they were pushed.
      for (int t = 0; t < kThreads; ++t) {
        std::vector<int> of_producer;
        std::copy_if(part.begin(), part.end(), std::back_inserter(of_producer),
                     [&](int item) { return item / kItems == t; });
        CHECK(std::is_sorted(of_producer.begin(), of_producer.end()));
      }
      all.insert(all.end(), part.begin(), part.end());
    }
    std::sort(all.begin(), all.end());
    CHECK(all.size() == kThreads * kItems);
    CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
    CHECK_FALSE(was_overfull.load());
  }
}

}  // namespace
}  // namespace caption
