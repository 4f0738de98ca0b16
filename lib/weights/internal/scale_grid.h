// weights/internal/scale_grid.h: scales that blocks of a matrix share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "base/math.h"
#include "weights/internal/coded_source.h"
#include "weights/internal/scales.h"

namespace caption::weights {

// Rows and columns of the matrix [N, K] that share a scale; at least 1.
struct ScaleBlock {
  std::int64_t rows = 1;
  std::int64_t columns = 1;

  friend bool operator==(const ScaleBlock&, const ScaleBlock&) = default;
};

// Whether scales are largest magnitudes of weights, which are not negative, or of any sign, as some
// tools write those of integers.
enum class ScaleSign { kAny, kNotNegative };

// The scales of a matrix [N, K]: a tensor [ceil(N / block.rows), ceil(K / block.columns)], which
// may lack axes of one element.
class ScaleGrid {
 public:
  // `largest` is the largest magnitude that a scale is multiplied by. Throws Error(kBadModel) for a
  // tensor of another shape.
  ScaleGrid(Part part, const Shape& matrix, ScaleBlock block, float largest, ScaleSign sign)
      : part_(std::move(part)),
        block_(block),
        num_across_(divide_up(matrix[1], block.columns)),
        largest_(largest),
        sign_(sign) {
    const std::int64_t num_down = divide_up(matrix[0], block.rows);
    const auto is_one = [](std::int64_t extent) { return extent == 1; };
    std::vector<std::int64_t> expected = {num_down, num_across_};
    std::vector<std::int64_t> found = part_.tensor->extents;
    std::erase_if(found, is_one);
    std::erase_if(expected, is_one);
    if (found != expected) {
      fail_part(part_, "has shape " + extents_to_string(part_.tensor->extents) + "; [" +
                           std::to_string(num_down) + ", " + std::to_string(num_across_) +
                           "] was expected: a scale for every " + std::to_string(block.rows) +
                           " x " + std::to_string(block.columns) + " of " + matrix.to_string());
    }
  }

  DType dtype() const { return part_.tensor->dtype.value(); }
  // Columns with a scale of their own.
  std::int64_t num_across() const { return num_across_; }
  // Returns the scale of row n and of group g of columns. Throws Error(kBadModel) when the scale,
  // or its product with `largest`, is not finite, or the scale is negative and must not be.
  float at(std::int64_t n, std::int64_t g) const {
    const std::int64_t row = block_.rows == 1 ? n : n / block_.rows;
    const float scale = number_at(*part_.tensor, row * num_across_ + g);
    require_finite(scale);
    require_sign(row * num_across_ + g, 1, &scale);
    return scale;
  }
  // The scales of rows from `first` on where the file has them, if each row has its own.
  FileScales in_file(std::int64_t first) const {
    if (block_.rows != 1) return {};
    const auto size = static_cast<std::int64_t>(dtype_size_bytes(dtype()));
    return {.dtype = dtype(),
            .numbers = part_.tensor->bytes.data() + first * num_across_ * size,
            .row_stride = num_across_,
            .group_stride = 1,
            .largest = bound()};
  }
  // Writes the scales of rows [first, first + count), [count, num_across()]; throws as at().
  void read_rows(std::int64_t first, std::int64_t count, float* to) const {
    if (block_.rows == 1) return read(first * num_across_, count * num_across_, to);
    for (std::int64_t n = first; n < first + count; ++n, to += num_across_) {
      read(n / block_.rows * num_across_, num_across_, to);
    }
  }

 private:
  float bound() const { return std::numeric_limits<float>::max() / largest_; }
  // Reads scales in the order of the file.
  void read(std::int64_t first, std::int64_t count, float* to) const {
    read_finite(part_, first, count, to);
    // A scale of F32 may be finite and its product not: it is named as at() names it.
    const float most = bound();
    std::int32_t num_large = 0;
    for (std::int64_t i = 0; i < count; ++i) num_large += std::abs(to[i]) <= most ? 0 : 1;
    for (std::int64_t i = 0; i < count && num_large != 0; ++i) require_finite(to[i]);
    require_sign(first, count, to);
  }
  void require_sign(std::int64_t first, std::int64_t count, const float* numbers) const {
    if (sign_ == ScaleSign::kNotNegative) require_magnitudes(part_, first, count, numbers);
  }
  void require_finite(float scale) const {
    if (!std::isfinite(scale * largest_)) fail_part(part_, "holds a scale that is not finite");
  }

  Part part_;
  ScaleBlock block_;
  std::int64_t num_across_;
  float largest_;
  ScaleSign sign_;
};

}  // namespace caption::weights
