#include "model/internal/placing_order.h"

#include <algorithm>
#include <numeric>

namespace caption::model {

std::vector<std::size_t> placing_order(const std::vector<TensorToPlace>& tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const TensorToPlace& first = tensors[a];
    const TensorToPlace& second = tensors[b];
    if (first.is_stored != second.is_stored) return second.is_stored;
    return first.is_stored && first.size_bytes > second.size_bytes;
  });
  return order;
}

}  // namespace caption::model
