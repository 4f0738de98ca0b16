#include "tests/support/counted_memory.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> g_in_use{0};
std::atomic<std::int64_t> g_peak{0};

void raise_peak(std::int64_t in_use) {
  std::int64_t peak = g_peak.load();
  while (in_use > peak && !g_peak.compare_exchange_weak(peak, in_use)) {
  }
}

void add(std::size_t size_bytes) {
  const auto size = static_cast<std::int64_t>(size_bytes);
  raise_peak(g_in_use.fetch_add(size) + size);
}

void subtract(std::size_t size_bytes) { g_in_use.fetch_sub(static_cast<std::int64_t>(size_bytes)); }

void* allocate(std::size_t size_bytes, std::size_t alignment) noexcept {
  void* block = nullptr;
  if (alignment <= alignof(std::max_align_t)) {
    block = std::malloc(std::max<std::size_t>(size_bytes, 1));
  } else if (::posix_memalign(&block, alignment, std::max<std::size_t>(size_bytes, 1)) != 0) {
    block = nullptr;
  }
  if (block != nullptr) add(::malloc_usable_size(block));
  return block;
}

void* allocate_or_throw(std::size_t size_bytes, std::size_t alignment) {
  void* const block = allocate(size_bytes, alignment);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void release(void* block) noexcept {
  if (block == nullptr) return;
  subtract(::malloc_usable_size(block));
  std::free(block);
}

constexpr std::size_t kOrdinary = alignof(std::max_align_t);

}  // namespace

void* operator new(std::size_t size) { return allocate_or_throw(size, kOrdinary); }
void* operator new[](std::size_t size) { return allocate_or_throw(size, kOrdinary); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, kOrdinary);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, kOrdinary);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* block) noexcept { release(block); }
void operator delete[](void* block) noexcept { release(block); }
void operator delete(void* block, std::size_t) noexcept { release(block); }
void operator delete[](void* block, std::size_t) noexcept { release(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { release(block); }
void operator delete[](void* block, const std::nothrow_t&) noexcept { release(block); }
void operator delete(void* block, std::align_val_t) noexcept { release(block); }
void operator delete[](void* block, std::align_val_t) noexcept { release(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { release(block); }
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept { release(block); }
void operator delete(void* block, std::align_val_t, const std::nothrow_t&) noexcept {
  release(block);
}
void operator delete[](void* block, std::align_val_t, const std::nothrow_t&) noexcept {
  release(block);
}

// The linker's --wrap gives the calls of the executable's own objects these names.
extern "C" {
void* __real_mmap(void* address, std::size_t size, int protection, int flags, int file,
                  off_t offset);

void* __wrap_mmap(void* address, std::size_t size, int protection, int flags, int file,
                  off_t offset) {
  void* const mapped = __real_mmap(address, size, protection, flags, file, offset);
  const bool is_memory = mapped != MAP_FAILED && (flags & MAP_ANONYMOUS) != 0;
  if (is_memory) raise_peak(g_in_use.load() + static_cast<std::int64_t>(size));
  return mapped;
}
}

namespace caption::testing {

MemoryPeak::MemoryPeak() : before_(g_in_use.load()) { g_peak.store(before_); }

std::int64_t MemoryPeak::bytes() const { return g_peak.load() - before_; }

}  // namespace caption::testing
