// base/byte_queue.h: a bounded queue between two stages of the pipeline, measured in bytes.
//
// push() waits until the item fits into `capacity_bytes`, or until the queue is empty: an item
// larger than the whole capacity is admitted then, so push() cannot wait forever while a consumer
// pops. After close(), consumers still get the queued items; cancel() drops them. Thread-safe, any
// number of producers and consumers.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace caption {

template <class T>
class ByteQueue {
 public:
  explicit ByteQueue(std::size_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  // False when the queue was closed or cancelled; the item is then left as it was.
  bool push(T&& item, std::size_t size_bytes) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto may_end = [&] {
      return closed_ || items_.empty() || used_bytes_ + size_bytes <= capacity_bytes_;
    };
    if (!may_end()) {
      ++num_waiting_;
      filled_.notify_all();
      not_full_.wait(lock, may_end);
      --num_waiting_;
    }
    if (closed_) return false;
    // emplace_back() may throw, so the bytes are counted afterwards.
    items_.emplace_back(std::move(item), size_bytes);
    used_bytes_ += size_bytes;
    not_empty_.notify_one();
    return true;
  }

  // Waits for an item; std::nullopt when the queue is closed and drained.
  std::optional<T> pop() {
    std::unique_lock<std::mutex> lock(mutex_);
    not_empty_.wait(lock, [&] { return closed_ || !items_.empty(); });
    return take_front();
  }

  // Like pop(), but does not wait: returns std::nullopt when the queue is empty.
  std::optional<T> try_pop() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return take_front();
  }

  // Waits until the queue is closed, or until a push() waits for room.
  void wait_until_filled() {
    std::unique_lock<std::mutex> lock(mutex_);
    filled_.wait(lock, [&] { return closed_ || num_waiting_ > 0; });
  }

  // Rejects further pushes; queued items can still be popped.
  void close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    wake_all();
  }

  // Rejects further pushes and drops the queued items.
  void cancel() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    items_.clear();
    used_bytes_ = 0;
    wake_all();
  }

  // Accepts items again. Only while no other thread uses the queue.
  void reopen() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = false;
  }

  std::size_t used_bytes() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return used_bytes_;
  }

 private:
  std::optional<T> take_front() {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front().first));
    used_bytes_ -= items_.front().second;
    items_.pop_front();
    not_full_.notify_all();
    return item;
  }
  void wake_all() {
    not_full_.notify_all();
    not_empty_.notify_all();
    filled_.notify_all();
  }

  const std::size_t capacity_bytes_;
  mutable std::mutex mutex_;
  std::condition_variable not_full_;
  std::condition_variable not_empty_;
  std::condition_variable filled_;
  std::deque<std::pair<T, std::size_t>> items_;  // guarded by mutex_
  std::size_t used_bytes_ = 0;                   // guarded by mutex_
  int num_waiting_ = 0;                          // push() calls; guarded by mutex_
  bool closed_ = false;                          // guarded by mutex_
};

}  // namespace caption
