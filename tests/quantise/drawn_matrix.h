// tests/quantise/drawn_matrix.h: a matrix of random numbers.
#pragma once

#include <cstdint>
#include <random>

#include "tensor/tensor.h"

namespace caption::testing {

// Returns [rows, columns] f32 with numbers of the standard normal distribution.
inline Tensor draw(std::int64_t rows, std::int64_t columns, unsigned seed) {
  Tensor matrix(DType::kF32, {rows, columns});
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < rows * columns; ++i) matrix.as<float>()[i] = normal(engine);
  return matrix;
}

}  // namespace caption::testing
