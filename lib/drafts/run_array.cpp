#include "drafts/internal/run_array.h"

#include <sys/mman.h>

#include <cstdint>

namespace caption::drafts {

void want_huge_pages(void* address, std::size_t size_bytes) {
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(address) % kHugePageBytes;
  if (before + kHugePageBytes > size_bytes) return;
  const std::size_t whole = (size_bytes - before) / kHugePageBytes * kHugePageBytes;
  ::madvise(static_cast<std::byte*>(address) + before, whole, MADV_HUGEPAGE);
}

}  // namespace caption::drafts
