// tests/kernels/random_codes.h: matrices of codes in all forms that place_quantised() and
// place_e4m3() take, and their products in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "tensor/e4m3.h"
#include "tensor/matrix_format.h"
#include "tensor/quantised_matrix.h"
#include "tests/kernels/testing.h"

namespace caption::testing {

enum class Kind { k8, k8WithOffsets, k4, k4WithOffsets, k4InOrder, kLut, k8A8, k4A8, kE4M3 };
// Those that place_quantised() takes.
constexpr Kind kKinds[] = {Kind::k8,        Kind::k8WithOffsets, Kind::k4,   Kind::k4WithOffsets,
                           Kind::k4InOrder, Kind::kLut,          Kind::k8A8, Kind::k4A8};

// The format that place_quantised() is told.
inline MatrixFormat format_of(Kind kind) {
  if (kind == Kind::k8A8) return MatrixFormat::kInt8Row;
  if (kind == Kind::k4A8) return MatrixFormat::kInt4A8;
  const bool is_8_bit = kind == Kind::k8 || kind == Kind::k8WithOffsets;
  return is_8_bit ? MatrixFormat::kInt8 : MatrixFormat::kInt4;
}

inline bool has_8_bit_inputs(Kind kind) { return kind == Kind::k8A8 || kind == Kind::k4A8; }

// A permutation of the columns, another for each K.
inline ColumnOrder random_order(std::int64_t k) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(k));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(k)));
  return std::make_shared<const std::vector<std::int32_t>>(std::move(order));
}

// Random codes, scales and offsets, independent of any quantisation method.
inline QuantisedMatrix random_matrix(Kind kind, std::int64_t n, std::int64_t k,
                                     std::int64_t group) {
  std::mt19937 engine(static_cast<unsigned>(n * 1000 + k));
  std::uniform_int_distribution<int> byte(0, 255);
  std::uniform_real_distribution<float> positive(0.01F, 0.02F);
  QuantisedMatrix matrix;
  matrix.num_columns = k;
  matrix.group_columns = kind == Kind::k8A8 ? k : group;
  // kPanels4A8 takes groups of a multiple of 4 columns, at most 128.
  if (kind == Kind::k4A8) matrix.group_columns = std::min<std::int64_t>((group + 3) / 4 * 4, 128);
  matrix.has_e4m3_codes = kind == Kind::kE4M3;
  const bool is_8_bit = kind == Kind::k8 || kind == Kind::k8WithOffsets || kind == Kind::k8A8 ||
                        matrix.has_e4m3_codes;
  matrix.codes = is_8_bit ? Tensor(DType::kI8, {n, k}) : Tensor(DType::kU8, {n, (k + 1) / 2});
  for (std::int64_t i = 0; i < matrix.codes.num_elements(); ++i) {
    const int code = byte(engine);
    if (matrix.has_e4m3_codes) {
      const bool is_nan = is_nan_e4m3(static_cast<std::uint8_t>(code));
      matrix.codes.as<std::int8_t>()[i] = static_cast<std::int8_t>(is_nan ? code - 1 : code);
    } else if (is_8_bit) {
      matrix.codes.as<std::int8_t>()[i] = static_cast<std::int8_t>(std::max(code - 128, -127));
    } else {
      matrix.codes.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(code);
    }
  }
  const std::int64_t groups = matrix.num_groups();
  if (kind == Kind::k4A8) {
    matrix.steps = Tensor(DType::kU8, {n, groups});
    matrix.bases = Tensor(DType::kU8, {n, groups});
    for (std::int64_t i = 0; i < n * groups; ++i) {
      const int step = 1 + byte(engine) % 17;
      matrix.steps.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(step);
      matrix.bases.as<std::uint8_t>()[i] =
          static_cast<std::uint8_t>(byte(engine) % (256 - 15 * step));
    }
  }
  matrix.scales = Tensor(DType::kF32, {n, kind == Kind::k4A8 ? 1 : groups});
  if (kind == Kind::k4WithOffsets || kind == Kind::k8WithOffsets || kind == Kind::k4InOrder) {
    matrix.offsets = random_f32({n, matrix.num_groups()}, 3);
  }
  if (kind == Kind::k4InOrder) matrix.column_order = random_order(k);
  for (std::int64_t i = 0; i < matrix.scales.num_elements(); ++i) {
    matrix.scales.as<float>()[i] = positive(engine);
  }
  for (std::size_t i = 0; i < 16; ++i) {
    const float step = static_cast<float>(i) - 8.0F;
    // As bf16, in which some tiers multiply.
    matrix.codebook[i] = to_float(to_bf16(kind == Kind::kLut ? step * step * step / 512 : step));
  }
  return matrix;
}

inline QuantisedMatrix slice(const QuantisedMatrix& matrix, std::int64_t first,
                             std::int64_t count) {
  const auto rows_of = [&](const Tensor& tensor) {
    if (tensor.empty()) return Tensor();
    Tensor part(tensor.dtype(), {count, tensor.dim(1)});
    const std::size_t row_bytes =
        static_cast<std::size_t>(tensor.dim(1)) * dtype_size_bytes(tensor.dtype());
    std::memcpy(part.view().raw(),
                static_cast<const std::byte*>(tensor.view().raw()) +
                    static_cast<std::size_t>(first) * row_bytes,
                static_cast<std::size_t>(count) * row_bytes);
    return part;
  };
  QuantisedMatrix part;
  part.num_columns = matrix.num_columns;
  part.group_columns = matrix.group_columns;
  part.codes = rows_of(matrix.codes);
  part.scales = rows_of(matrix.scales);
  part.offsets = rows_of(matrix.offsets);
  part.scale_units = rows_of(matrix.scale_units);
  part.offset_units = rows_of(matrix.offset_units);
  part.steps = rows_of(matrix.steps);
  part.bases = rows_of(matrix.bases);
  part.number_dtypes = matrix.number_dtypes;
  part.has_e4m3_codes = matrix.has_e4m3_codes;
  part.codebook = matrix.codebook;
  part.column_order = matrix.column_order;
  return part;
}

// Returns the activations as the form rounds them.
inline std::vector<double> rounded(Kind kind, const Tensor& x) {
  if (!has_8_bit_inputs(kind)) return values(converted(x, DType::kBF16));
  std::vector<double> result = values(x);
  const auto k = static_cast<std::size_t>(x.dim(1));
  for (std::size_t row = 0; row < result.size(); row += k) {
    double largest = 0;
    for (std::size_t i = row; i < row + k; ++i) largest = std::max(largest, std::abs(result[i]));
    for (std::size_t i = row; i < row + k; ++i) {
      // In f32 as in the kernel, because the code of a tie depends on it.
      const float inverse = 127.0F / static_cast<float>(largest);
      const float code = std::nearbyint(static_cast<float>(result[i]) * inverse);
      result[i] = static_cast<double>(code) * largest / 127;
    }
  }
  return result;
}

// The elements [m, n] of x * matrix^T + bias, and the sums of the magnitudes of their terms.
struct ExactProducts {
  std::vector<double> sums;
  std::vector<double> magnitudes;
};
inline ExactProducts exact_products(Kind kind, const QuantisedMatrix& matrix, const Tensor& x,
                                    const Tensor& bias) {
  const std::vector<double> xs = rounded(kind, x);
  const std::vector<double> bs = values(bias);
  const std::int64_t k = matrix.num_columns;
  ExactProducts products;
  for (std::int64_t i = 0; i < x.dim(0); ++i) {
    for (std::int64_t j = 0; j < matrix.num_rows(); ++j) {
      double sum = bs[j];
      double magnitude = std::abs(bs[j]);
      for (std::int64_t l = 0; l < k; ++l) {
        const std::int64_t g = j * matrix.num_groups() + l / matrix.group_columns;
        const double code =
            matrix.steps.empty()
                ? static_cast<double>(matrix.scales.as<float>()[g]) *
                      static_cast<double>(matrix.code_value(j, l))
                : static_cast<double>(matrix.scales.as<float>()[j]) * matrix.eight_bits(j, l);
        const double offset =
            matrix.offsets.empty() ? 0 : static_cast<double>(matrix.offsets.as<float>()[g]);
        const double input = xs[i * k + matrix.column_of(l)];
        sum += input * (code + offset);
        magnitude += std::abs(input) * (std::abs(code) + std::abs(offset));
      }
      products.sums.push_back(sum);
      products.magnitudes.push_back(magnitude);
    }
  }
  return products;
}

}  // namespace caption::testing
