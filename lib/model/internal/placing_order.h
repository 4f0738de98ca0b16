// model/internal/placing_order.h: the order in which the tensors of a model are placed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace caption::model {

struct TensorToPlace {
  bool is_stored = false;  // the source has it, and in the shape that is read
  std::int64_t size_bytes = 0;
};

// Returns the indices of the tensors: first those that are not stored, so that they are refused at
// once and the first of them is named, in the given order; then the largest first, so that threads
// that place them side by side end together, those of equal size in the given order.
std::vector<std::size_t> placing_order(const std::vector<TensorToPlace>& tensors);

}  // namespace caption::model
