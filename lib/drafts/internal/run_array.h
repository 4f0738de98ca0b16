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

// Asks the system to make huge pages of the memory, by and by and on a thread of its own; nothing
// changes where it does not.
void want_huge_pages(void* address, std::size_t size_bytes);

// Memory at multiples of 64 bytes. vector(n) and resize() leave elements uninitialised, so that
// large arrays can be written in pieces.
template <class T>
struct UninitialisedAllocator {
  static_assert(alignof(T) <= 64);
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};

  UninitialisedAllocator() = default;
  template <class U>
  explicit UninitialisedAllocator(const UninitialisedAllocator<U>& /*other*/) {}

  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), kAlignment));
  }
  void deallocate(T* first, std::size_t /*count*/) noexcept {
    ::operator delete(first, kAlignment);
  }
  template <class U>
  void construct(U* /*element*/) noexcept {}
  template <class U, class... Arguments>
  void construct(U* element, Arguments&&... arguments) {
    ::new (static_cast<void*>(element)) U(std::forward<Arguments>(arguments)...);
  }
  bool operator==(const UninitialisedAllocator& /*other*/) const { return true; }
};

template <class T>
using RunArray = std::vector<T, UninitialisedAllocator<T>>;

// Frees the memory of an array; returns whether that was large.
template <class T>
bool clear(RunArray<T>& array) {
  const bool was_large = array.capacity() * sizeof(T) >= kHugePageBytes;
  RunArray<T>().swap(array);  // assigning {} would keep the memory
  return was_large;
}

template <class T>
void want_huge_pages(RunArray<T>& array) {
  want_huge_pages(array.data(), array.size() * sizeof(T));
}

}  // namespace caption::drafts
