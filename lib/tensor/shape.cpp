#include "tensor/shape.h"

#include <algorithm>
#include <cstddef>

#include "base/error.h"

namespace caption {

Shape::Shape(std::initializer_list<std::int64_t> extents)
    : Shape(std::span(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const std::int64_t> extents) {
  CAPTION_CHECK(extents.size() <= kMaxRank,
                "a shape has at most 5 axes, got " + std::to_string(extents.size()));
  std::copy(extents.begin(), extents.end(), extents_.begin());
  rank_ = static_cast<int>(extents.size());
  for (const std::int64_t extent : extents) {
    CAPTION_CHECK(extent >= 0, "negative extent in the shape " + to_string());
  }
}

std::int64_t Shape::num_elements() const {
  std::int64_t product = 1;
  bool has_zero = false;
  bool overflows = false;
  for (int axis = 0; axis < rank_; ++axis) {
    const std::int64_t extent = extents_[static_cast<std::size_t>(axis)];
    has_zero |= extent == 0;
    overflows |= __builtin_mul_overflow(product, extent, &product);
  }
  // A zero extent makes the product zero even if the other extents overflow.
  if (has_zero) return 0;
  CAPTION_CHECK(!overflows, "the shape " + to_string() + " has more elements than 63 bits count");
  return product;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int axis = 0; axis < rank_; ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string((*this)[axis]);
  }
  return text + "]";
}

}  // namespace caption
