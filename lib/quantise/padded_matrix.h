// quantise/padded_matrix.h: a matrix in f32 whose rows do not begin at the same place of
// every page, so that reading a column of rows does not use a few sets of the caches only.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace caption::quantise {

class PaddedMatrix {
 public:
  PaddedMatrix() = default;
  // Uninitialised [rows, columns].
  PaddedMatrix(std::int64_t rows, std::int64_t columns)
      : columns_(columns), memory_(DType::kF32, {rows, stride(columns)}) {}

  View view() { return memory_.view().columns(0, columns_); }
  ConstView view() const { return memory_.view().columns(0, columns_); }
  float* row(std::int64_t n) { return memory_.as<float>() + n * memory_.dim(1); }
  const float* row(std::int64_t n) const { return memory_.as<float>() + n * memory_.dim(1); }

 private:
  // An odd number of 64-byte lines.
  static std::int64_t stride(std::int64_t columns) { return ((columns + 15) / 16 | 1) * 16; }

  std::int64_t columns_ = 0;
  Tensor memory_;
};

}  // namespace caption::quantise
