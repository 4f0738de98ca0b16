// backend/buffer_arena.h: memory of the host for many buffers that live equally long, as the
// weights of a model do.
#pragma once

#include <cstddef>
#include <memory>

#include "backend/buffer.h"
#include "backend/thread_pool.h"

namespace caption {

// Cuts buffers from chunks of huge pages, so that small ones are in huge pages, too: to clear a GB
// of small pages took eight times as long. A chunk is returned to the system when the arena and all
// buffers of the chunk are gone. Used by one thread at a time.
class BufferArena {
 public:
  // `pool` is borrowed.
  explicit BufferArena(ThreadPool& pool) : pool_(pool) {}
  // Returns to the system what was touched and is in no buffer.
  ~BufferArena();
  BufferArena(const BufferArena&) = delete;
  BufferArena& operator=(const BufferArena&) = delete;

  // Returns a buffer of Device::kCpu, aligned to 64 bytes, uninitialised. If the pool has several
  // threads, pages of small buffers have been touched: each by one thread, where threads that write
  // side by side would both clear a page that they share. Throws Error(kOutOfMemory).
  Buffer allocate(std::size_t size_bytes);

 private:
  void touch_pages(std::size_t end);

  ThreadPool& pool_;
  std::shared_ptr<const Buffer> chunk_;
  std::size_t used_bytes_ = 0;     // bytes of the chunk that buffers use
  std::size_t touched_bytes_ = 0;  // bytes of the chunk that were touched
};

}  // namespace caption
