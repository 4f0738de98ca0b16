// kernels/cuda/few_rows.h: the dense layer for few rows, as in decoding, whose time is that of
// reading the weights.
//   y[m, n] = sum_k x[m, k] * w[n, k]
//
// Weights of 16 bits are packed in the order in which a tensor core takes them:
//   tiles[n / 16][k / 16][lane]   16 bytes: the lane's FragmentA of the features n .. n + 15 and
//   the
//                                 columns k .. k + 15 (kernels/cuda/primitives.cuh)
// with zeros beyond the matrix.
//
// The order of a sum depends on K only, so a row has the same bits alone and beside others: K is
// cut into slices of 1,024 columns, tensor cores sum a slice from 0 in the order of k, and slices
// are added in their order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption::kernels::cuda {

inline constexpr std::int64_t kSliceColumns = 1024;
inline constexpr std::int64_t kMostFewRows = 16;

struct PackedW16 {
  const void* tiles = nullptr;    // device memory, aligned to 16 bytes
  DType dtype = DType::kBF16;     // or f16
  std::int64_t num_features = 0;  // N
  std::int64_t num_columns = 0;   // K
};

// Bytes of the tiles of a matrix [num_features, num_columns].
std::size_t packed_w16_bytes(std::int64_t num_features, std::int64_t num_columns);

// Writes the tiles of `rows` [N, K] bf16 or f16 on the device, which may be strided, to `tiles` in
// device memory of packed_w16_bytes(). Throws Error(kInternal) for another dtype or rank.
PackedW16 pack_w16(Stream& stream, ConstView rows, void* tiles);

// x [M, K] f32, bf16 or f16 with M <= kMostFewRows, rows may be strided; rounded to the weights'
// dtype. y [M, N] f32, rows may be strided, written whole; must not overlap x. On sm_75 weights
// must be f16. Throws Error(kInternal) when shapes or dtypes disagree.
void multiply_few_rows(Stream& stream, ConstView x, const PackedW16& weight, View y);

}  // namespace caption::kernels::cuda
