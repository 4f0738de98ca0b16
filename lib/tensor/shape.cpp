#include "tensor/shape.h"

#include <algorithm>
#include <limits>

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
  const auto extents = std::span(extents_).first(static_cast<std::size_t>(rank_));
  // A zero extent makes the product zero even if the other extents overflow.
  if (std::find(extents.begin(), extents.end(), 0) != extents.end()) return 0;
  std::int64_t product = 1;
  for (const std::int64_t extent : extents) {
    CAPTION_CHECK(product <= std::numeric_limits<std::int64_t>::max() / extent,
                  "the shape " + to_string() + " has more elements than 63 bits count");
    product *= extent;
  }
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
