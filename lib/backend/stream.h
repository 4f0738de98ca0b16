// backend/stream.h: an ordered queue of work on one device; every kernel takes it first.
//
// On the CPU work runs at once, on the stream's thread pool. A Stream is used by one thread at a
// time and borrows its pool.
#pragma once

#include "backend/buffer.h"
#include "backend/cpu_tier.h"
#include "backend/device.h"
#include "backend/profile.h"
#include "backend/thread_pool.h"

namespace caption {

class Stream {
 public:
  // A stream on the CPU, with the tier that choose_cpu_tier() names unless one is given.
  explicit Stream(ThreadPool& pool) : Stream(pool, choose_cpu_tier()) {}
  Stream(ThreadPool& pool, CpuTier tier) : device_(Device::kCpu), pool_(&pool), cpu_tier_(tier) {}

  Device device() const { return device_; }
  ThreadPool& pool() const { return *pool_; }
  CpuTier cpu_tier() const { return cpu_tier_; }

  // Borrowed; null (as at first): nothing is timed.
  Profile* profile() const { return profile_; }
  void set_profile(Profile* profile) { profile_ = profile; }

  // Memory for the kernel that asks, until the next one asks: at least `size_bytes`, 64-byte
  // aligned. It grows to the largest size asked for, so steady steps allocate nothing.
  std::byte* scratch(std::size_t size_bytes) {
    if (scratch_.size_bytes() < size_bytes) scratch_ = Buffer(device_, size_bytes);
    return scratch_.begin();
  }

 private:
  Device device_;
  ThreadPool* pool_;
  CpuTier cpu_tier_;
  Profile* profile_ = nullptr;
  Buffer scratch_;
};

}  // namespace caption
