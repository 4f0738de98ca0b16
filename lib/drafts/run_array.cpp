#include "drafts/internal/run_array.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>

namespace caption::drafts {
namespace {

constexpr std::align_val_t kLine{64};

}  // namespace

// Of a range that is larger than the memory by a huge page, what lies before and after the aligned
// part is given back.
void* allocate_zeros(std::size_t size_bytes) {
  if (size_bytes < kHugePageBytes) {
    void* const address = ::operator new(size_bytes, kLine);
    std::memset(address, 0, size_bytes);
    return address;
  }
  const std::size_t mapped_bytes = size_bytes + kHugePageBytes;
  void* const mapped = ::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* const begin = static_cast<std::byte*>(mapped);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(begin) % kHugePageBytes;
  constexpr std::size_t kPageBytes = 4096;
  const std::size_t used = before + (size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (before > 0) ::munmap(begin, before);
  if (used < mapped_bytes) ::munmap(begin + used, mapped_bytes - used);
  return begin + before;
}

void free_zeros(void* address, std::size_t size_bytes) noexcept {
  if (size_bytes < kHugePageBytes) {
    ::operator delete(address, kLine);
  } else {
    ::munmap(address, size_bytes);
  }
}

void want_huge_pages(void* address, std::size_t size_bytes) {
  const std::size_t whole = size_bytes / kHugePageBytes * kHugePageBytes;
  if (whole > 0) ::madvise(address, whole, MADV_HUGEPAGE);
}

}  // namespace caption::drafts
