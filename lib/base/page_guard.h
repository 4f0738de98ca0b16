// base/page_guard.h: makes reads of a truncated mapped file return zeros instead of killing the
// process.
//
// The system sends SIGBUS to a thread that reads a mapped page which the file no longer has (or
// which the disk cannot read). One handler per process, installed with the first guard, replaces
// that page and all that follow it in the mapping by zero pages, and records this in the guard.
// SIGBUS at any other address is passed to the previous handler; by default it ends the process.
#pragma once

#include <cstddef>

namespace caption {

namespace internal {
struct GuardedRange;
}  // namespace internal

// Guards one private, read-only mapping for as long as the guard lives; movable. The guard must be
// destroyed before the mapping.
class PageGuard {
 public:
  PageGuard() = default;  // an object that guards no mapping
  // `begin` must be page-aligned. Throws Error(kOutOfMemory).
  PageGuard(const std::byte* begin, std::size_t size_bytes);
  ~PageGuard();
  PageGuard(PageGuard&& other) noexcept;
  PageGuard& operator=(PageGuard&& other) noexcept;

  // Whether a read hit a missing page: since then that page and all after it read as zeros.
  // Callable from any thread.
  bool has_lost_pages() const;

 private:
  internal::GuardedRange* range_ = nullptr;  // points into a table that is never freed
};

}  // namespace caption
