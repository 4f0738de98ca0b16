// backend/stream.h: an ordered queue of work on one device; every kernel takes it first.
//
// On the CPU work runs at once, on the stream's thread pool. A Stream is used by one thread at a
// time and borrows its pool.
#pragma once

#include "backend/device.h"
#include "backend/thread_pool.h"

namespace caption {

class Stream {
 public:
  explicit Stream(ThreadPool& pool) : device_(Device::kCpu), pool_(&pool) {}

  Device device() const { return device_; }
  ThreadPool& pool() const { return *pool_; }

 private:
  Device device_;
  ThreadPool* pool_;
};

}  // namespace caption
