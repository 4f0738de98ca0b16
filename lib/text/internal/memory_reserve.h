// text/internal/memory_reserve.h: a memory reserve for calls that crash on std::bad_alloc.
//
// sentencepiece's protobuf (RepeatedPtrField::Add) counts an element before it allocates it: when
// operator new throws in between, its destructor follows an uninitialised pointer.
#pragma once

#include <cstddef>

namespace caption::text {

// While it lives, the first failing operator new of this thread frees the reserve and tries again.
// At most one per thread at a time.
class MemoryReserve {
 public:
  // `size_bytes` is an upper bound of what the guarded call allocates. Throws std::bad_alloc when
  // the reserve itself cannot be allocated, that is, before the guarded call.
  explicit MemoryReserve(std::size_t size_bytes);
  ~MemoryReserve();
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;
};

}  // namespace caption::text
