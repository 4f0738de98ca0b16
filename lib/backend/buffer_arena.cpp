#include "backend/buffer_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "base/error.h"

namespace caption {
namespace {

// Nothing is committed before it is touched.
constexpr std::size_t kChunkBytes = std::size_t{128} << 20;
constexpr std::size_t kLargeBytes = std::size_t{32} << 20;  // smallest buffer with its own mapping
// What is touched at a time, at most: it stays in the processor's caches until it is written. A
// small model begins with less.
constexpr std::size_t kTouchedBytes = std::size_t{8} << 20;
constexpr std::size_t kLineBytes = 64;

// Returns whole pages of [begin, end) to the system.
void release_pages_of(const Buffer& chunk, std::size_t begin, std::size_t end) {
  begin = (begin + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  if (begin < end) ::madvise(chunk.begin() + begin, end - begin, MADV_DONTNEED);
}

// Returns null where the system refuses a chunk, but may have less.
std::shared_ptr<const Buffer> try_chunk() {
  try {
    return std::make_shared<const Buffer>(Device::kCpu, kChunkBytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    return nullptr;
  }
}

}  // namespace

BufferArena::~BufferArena() {
  if (chunk_ != nullptr) release_pages_of(*chunk_, used_bytes_, touched_bytes_);
}

Buffer BufferArena::allocate(std::size_t size_bytes) {
  if (size_bytes >= kLargeBytes) return Buffer(Device::kCpu, size_bytes);
  const std::size_t size = (size_bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
  if (chunk_ == nullptr || size > chunk_->size_bytes() - used_bytes_) {
    if (chunk_ != nullptr) release_pages_of(*chunk_, used_bytes_, touched_bytes_);
    chunk_ = try_chunk();
    used_bytes_ = touched_bytes_ = 0;
    if (chunk_ == nullptr) return Buffer(Device::kCpu, size_bytes);
  }
  const std::size_t begin = used_bytes_;
  used_bytes_ += size;
  if (pool_.num_threads() > 1) {
    touch_pages(used_bytes_);
  } else {
    touched_bytes_ = used_bytes_;  // the thread that writes to the buffer touches them
  }
  return Buffer::part_of(chunk_, begin, size_bytes);
}

// The system clears a page when a thread first writes to it. Where it has no huge pages, this
// clears one small page in each range of kHugePageBytes, and the others are cleared when they are
// used. A thread that is alone clears a page when it writes to it, and finds it in the processor's
// caches. MADV_POPULATE_WRITE took 1.5 times as long on two threads, which then wait for each
// other.
void BufferArena::touch_pages(std::size_t end) {
  if (end <= touched_bytes_) return;
  const std::size_t step = std::clamp(touched_bytes_, kHugePageBytes, kTouchedBytes);
  const std::size_t missing = std::max(end - touched_bytes_, step);
  const std::size_t pages = std::min((missing + kHugePageBytes - 1) / kHugePageBytes,
                                     (kChunkBytes - touched_bytes_) / kHugePageBytes);
  std::byte* const first = chunk_->begin() + touched_bytes_;
  pool_.parallel_for(static_cast<std::int64_t>(pages), 1, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t page = from; page < to; ++page) {
      first[static_cast<std::size_t>(page) * kHugePageBytes] = std::byte{0};
    }
  });
  touched_bytes_ += pages * kHugePageBytes;
}

}  // namespace caption
