// backend/stream.h: an ordered queue of work on one device; the first argument of every kernel.
//
// On the CPU and the mirror, work runs synchronously on the stream's thread pool; on a GPU it runs
// while the host goes on. A Stream is used by one thread at a time and borrows its pool.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/buffer.h"
#include "backend/buffer_arena.h"
#include "backend/context.h"
#include "backend/cpu_tier.h"
#include "backend/device.h"
#include "backend/event.h"
#include "backend/profile.h"
#include "backend/thread_pool.h"

namespace caption {

class Uploader;

class Stream {
 public:
  // A stream on the context's device; the CPU's share of its work uses `pool`. Throws
  // Error(kUnavailable) when a GPU fails.
  Stream(const Context& context, ThreadPool& pool);
  // A stream on the CPU.
  explicit Stream(ThreadPool& pool, CpuTier tier = fastest_cpu_tier())
      : Stream(Context{.device = Device::kCpu, .cpu_tier = tier}, pool) {}

  Device device() const { return context_.device; }
  // The context, with the number of threads of this stream's pool.
  const Context& context() const { return context_; }
  ThreadPool& pool() const { return *pool_; }
  CpuTier cpu_tier() const { return context_.cpu_tier; }
  // The GPU's queue, a cudaStream_t, on which kernels are launched; null on the CPU. The GPU is
  // then the calling thread's current one, as a launch demands (backend/device_runtime.h).
  void* queue() const;

  // Waits until all work of the stream is done; only then may the host read what a copy wrote. On
  // the CPU and the mirror work is done when its call returns. Throws Error(kUnavailable) when the
  // device failed.
  void synchronize();

  // Returns the point after all work that the stream was given so far.
  Event record() const;
  // Work that the stream is given from now on begins after a point of another stream of its device.
  // The host does not wait.
  void wait(const Event& event);

  // Borrowed. Null, the initial value, disables timing.
  Profile* profile() const { return profile_; }
  void set_profile(Profile* profile) { profile_ = profile; }

  // Where weights are placed on the CPU. Borrowed. Null, the initial value: each in a buffer of its
  // own.
  BufferArena* arena() const { return arena_; }
  void set_arena(BufferArena* arena) { arena_ = arena; }

  // Through which weights are placed on a GPU. Borrowed. Null, the initial value: each weight is
  // complete when it has been placed.
  Uploader* uploader() const { return uploader_; }
  void set_uploader(Uploader* uploader) { uploader_ = uploader; }

  // Returns device memory of at least `size_bytes`, 64-byte aligned, valid until the next call. It
  // grows to the largest size requested so far, so steady steps allocate nothing.
  std::byte* scratch(std::size_t size_bytes) {
    if (scratch_.size_bytes() < size_bytes) scratch_ = Buffer(device(), size_bytes);
    return scratch_.begin();
  }

  // [kNumCounters] in memory of a GPU: zeros before and after each of the stream's kernels. Null on
  // the CPU and the mirror.
  static constexpr std::int64_t kNumCounters = 8192;
  std::uint32_t* counters() const { return reinterpret_cast<std::uint32_t*>(counters_.begin()); }

 private:
  struct DestroyQueue {
    explicit DestroyQueue(Device queue_device) : device(queue_device) {}
    void operator()(void* queue) const noexcept;

    Device device;
  };

  Context context_;
  ThreadPool* pool_;
  Profile* profile_ = nullptr;
  BufferArena* arena_ = nullptr;
  Uploader* uploader_ = nullptr;
  Buffer scratch_;
  Buffer counters_;
  std::unique_ptr<void, DestroyQueue> queue_;  // null on the CPU
};

}  // namespace caption
