// tests/support/counted_memory.h: the memory that the code under test holds at most.
//
// An executable that links caption_test_memory has operator new and delete, and mmap() as its own
// objects call it, replaced by ones that count. A mapping of memory counts in the moment in which
// it is made, not after it; mappings of files and blocks of malloc() do not count. Thread-safe; the
// counts are those of the whole process.
#pragma once

#include <cstdint>

namespace caption::testing {

// From its construction on, the most bytes that were in use at once beyond those in use then. One
// at a time.
class MemoryPeak {
 public:
  MemoryPeak();
  std::int64_t bytes() const;

 private:
  std::int64_t before_;
};

}  // namespace caption::testing
