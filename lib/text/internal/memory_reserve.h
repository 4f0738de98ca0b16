// text/internal/memory_reserve.h: memory for calls that do not survive std::bad_alloc.
//
// sentencepiece's protobuf (RepeatedPtrField::Add) counts an element before it allocates it: when
// operator new throws in between, its destructor follows a pointer that was never written.
#pragma once

#include <cstddef>

namespace caption::text {

// While it lives, an operator new of this thread that the system refuses gets the reserve, once:
// the block is given back to the allocator, and the request tried again. Not to be nested.
class MemoryReserve {
 public:
  // `size_bytes` bounds from above what the guarded call allocates. Throws std::bad_alloc when
  // there is not even that much: before the call, where nothing is lost.
  explicit MemoryReserve(std::size_t size_bytes);
  ~MemoryReserve();
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;
};

}  // namespace caption::text
