// tensor/shape.h: the extents of a tensor, at most five of them.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace caption {

class Shape {
 public:
  static constexpr int kMaxRank = 5;

  Shape() = default;  // rank 0: one element
  // Extents must be >= 0; throws Error(kInternal) for a negative one or more than kMaxRank of them.
  Shape(std::initializer_list<std::int64_t> extents);
  explicit Shape(std::span<const std::int64_t> extents);

  int rank() const { return rank_; }
  // Negative axes count from the end.
  std::int64_t operator[](int axis) const { return extents_[axis < 0 ? axis + rank_ : axis]; }
  // Product of the extents; throws Error(kInternal) when it does not fit 63 bits.
  std::int64_t num_elements() const;
  std::string to_string() const;  // "[577, 1024]"

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && a.extents_ == b.extents_;
  }

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

}  // namespace caption
