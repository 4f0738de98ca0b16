// base/page_guard.h: reading a mapped file that was cut short gives zeros, not a dead process.
//
// The system sends SIGBUS to a thread that reads a mapped page which the file no longer has (or
// which the disk cannot give). One handler for the process, installed with the first guard, puts
// zero pages in place of that page and of all that follow it in the mapping, and remembers that it
// did. SIGBUS anywhere else goes to whatever handled it before, by default the end of the process.
#pragma once

#include <cstddef>

namespace caption {

namespace internal {
struct GuardedRange;
}  // namespace internal

// Guards one private, read-only mapping for as long as it lives; movable. It must be destroyed
// before the mapping is.
class PageGuard {
 public:
  PageGuard() = default;  // guards nothing
  // `begin` is the start of a page. Throws Error(kOutOfMemory).
  PageGuard(const std::byte* begin, std::size_t size_bytes);
  ~PageGuard();
  PageGuard(PageGuard&& other) noexcept;
  PageGuard& operator=(PageGuard&& other) noexcept;

  // Whether a read met a page that was not there: from then on the mapping holds zeros. Any thread.
  bool has_lost_pages() const;

 private:
  internal::GuardedRange* range_ = nullptr;  // in a table that is never freed
};

}  // namespace caption
