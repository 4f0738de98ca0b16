// model/internal/used_pages.h: pages of mapped files that are given back to the system together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace caption::model {

// Collects parts of mapped files that were read to the end. Each time pages are released the system
// interrupts all processors on which the process runs, so it is done for many tensors at once. For
// one thread at a time.
class UsedPages {
 public:
  // Adds a part; the mapping must exist until release().
  void add(std::span<const std::byte> bytes);
  // Releases the pages of all parts; parts that lie side by side are released in one piece.
  void release();

 private:
  std::vector<std::span<const std::byte>> parts_;
  std::int64_t num_bytes_ = 0;
};

}  // namespace caption::model
