// tensor/quantised_matrix.h: a matrix of 8- or 4-bit codes in groups of columns, the result of
// weights/quantise.h that a backend packs. With g = k / group_columns:
//   8 bits  value[n, k] = scale[n, g] * code[n, k]
//   4 bits  value[n, k] = scale[n, g] * codebook[code[n, k]] (+ offset[n, g])
// The codebook holds 16 numbers: -8 .. 7 for int4, or those of nf4, fp4 or another format.
#pragma once

#include <array>
#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace caption {

struct QuantisedMatrix {
  std::int64_t num_columns = 0;     // K
  std::int64_t group_columns = 0;   // columns that share a scale; the last group may be shorter
  Tensor codes;                     // [N, K] i8, or [N, ceil(K / 2)] u8: column 2i in the low half
  Tensor scales;                    // [N, groups] f32
  Tensor offsets;                   // [N, groups] f32, or empty
  std::array<BF16, 16> codebook{};  // for 4-bit codes

  std::int64_t num_rows() const { return codes.dim(0); }
  std::int64_t num_groups() const { return (num_columns + group_columns - 1) / group_columns; }
  bool is_4_bit() const { return codes.dtype() == DType::kU8; }

  // Returns codebook[code], or the code if it has 8 bits, before scaling.
  float code_value(std::int64_t row, std::int64_t column) const {
    if (!is_4_bit()) return to_float(codes.as<std::int8_t>()[row * num_columns + column]);
    const std::uint8_t both = codes.as<std::uint8_t>()[row * codes.dim(1) + column / 2];
    const unsigned code = column % 2 == 0 ? both & 15u : both >> 4u;
    return to_float(codebook[code]);
  }
  float value(std::int64_t row, std::int64_t column) const {
    const std::int64_t group = row * num_groups() + column / group_columns;
    const float offset = offsets.empty() ? 0.0F : offsets.as<float>()[group];
    return scales.as<float>()[group] * code_value(row, column) + offset;
  }
};

}  // namespace caption
