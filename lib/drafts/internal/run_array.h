// drafts/internal/run_array.h: the arrays of a TokenArchive's runs.
//
// A look-up reads few places of large arrays. In ordinary pages, the addresses of most of them
// would have to be looked up in memory as well, so the arrays of complete runs ask for huge pages.
// While an array is written it has ordinary ones, since the system may take milliseconds to clear a
// huge page.
#pragma once

#include <cstddef>
#include <new>
#include <utility>
#include <vector>

namespace caption::drafts {

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

// Memory full of zeros at a multiple of 64 bytes; from kHugePageBytes on at a multiple of those,
// and it takes no time before it is written. Throws std::bad_alloc.
void* allocate_zeros(std::size_t size_bytes);
void free_zeros(void* address, std::size_t size_bytes) noexcept;
// Asks the system to replace whole huge pages of such memory by and by, on a thread of its own;
// nothing changes where it does not.
void want_huge_pages(void* address, std::size_t size_bytes);

// For elements that are all zeros when they are value-initialised: vector(n) and resize() from no
// element on write nothing.
template <class T>
struct ZerosAllocator {
  static_assert(alignof(T) <= 64);
  using value_type = T;

  ZerosAllocator() = default;
  template <class U>
  explicit ZerosAllocator(const ZerosAllocator<U>& /*other*/) {}

  T* allocate(std::size_t count) { return static_cast<T*>(allocate_zeros(count * sizeof(T))); }
  void deallocate(T* first, std::size_t count) noexcept { free_zeros(first, count * sizeof(T)); }
  template <class U>
  void construct(U* /*element*/) noexcept {}
  template <class U, class... Arguments>
  void construct(U* element, Arguments&&... arguments) {
    ::new (static_cast<void*>(element)) U(std::forward<Arguments>(arguments)...);
  }
  bool operator==(const ZerosAllocator& /*other*/) const { return true; }
};

template <class T>
using RunArray = std::vector<T, ZerosAllocator<T>>;

// Frees the memory of an array; returns whether that was large.
template <class T>
bool clear(RunArray<T>& array) {
  const bool was_large = array.capacity() * sizeof(T) >= kHugePageBytes;
  array = {};
  return was_large;
}

template <class T>
void want_huge_pages(RunArray<T>& array) {
  want_huge_pages(array.data(), array.size() * sizeof(T));
}

}  // namespace caption::drafts
