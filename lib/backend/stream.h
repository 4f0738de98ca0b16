// backend/stream.h: an ordered queue of work on one device; the first argument of every kernel.
//
// On the CPU, work runs synchronously on the stream's thread pool. A Stream is used by one thread
// at a time and borrows its pool.
#pragma once

#include "backend/buffer.h"
#include "backend/cpu_tier.h"
#include "backend/device.h"
#include "backend/profile.h"
#include "backend/thread_pool.h"

namespace caption {

class Stream {
 public:
  // A stream on the CPU, with the tier choose_cpu_tier() returns unless one is given.
  explicit Stream(ThreadPool& pool) : Stream(pool, choose_cpu_tier()) {}
  Stream(ThreadPool& pool, CpuTier tier) : device_(Device::kCpu), pool_(&pool), cpu_tier_(tier) {}

  Device device() const { return device_; }
  ThreadPool& pool() const { return *pool_; }
  CpuTier cpu_tier() const { return cpu_tier_; }

  // Borrowed. Null, the initial value, disables timing.
  Profile* profile() const { return profile_; }
  void set_profile(Profile* profile) { profile_ = profile; }

  // Returns memory of at least `size_bytes`, 64-byte aligned, valid until the next call. It grows
  // to the largest size requested so far, so steady steps allocate nothing.
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
