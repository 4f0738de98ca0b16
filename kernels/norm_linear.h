// kernels/norm_linear.h: dense layers whose input is normalised on its way.
//   norm_linear:         y = linear(rms_norm(x)) for each part
//   norm_linear_swiglu:  y = linear_swiglu(rms_norm(x))
// with rms_norm() of kernels/norm.h and the layers of kernels/linear.h. The results are bit
// for bit those of the separate operations, so a row has the same result alone and in any batch.
// Throws Error(kInternal) when shapes or dtypes disagree.
#pragma once

#include <span>

#include "backend/stream.h"
#include "kernels/linear.h"
#include "tensor/tensor.h"

namespace caption::kernels {

// x       [M, K] f32, rows may be strided
// weight  [K] f32, bf16 or f16, the norm's
// eps     > 0
// normed  [M, K] f32, dense, aligned to 16 bytes: memory for the normalised rows where a device
//         keeps them; undefined afterwards. It overlaps neither x nor y.
struct RowsToNorm {
  ConstView x;
  ConstView weight;
  float eps = 0;
  View normed;
};

void norm_linear(Stream& stream, const RowsToNorm& rows, std::span<const LinearPart> parts);

// The two weights must have the same form and group size.
void norm_linear_swiglu(Stream& stream, const RowsToNorm& rows, BiasedWeight gate, BiasedWeight up,
                        View y);

namespace impl {
void norm_linear(Cpu device, Stream& stream, const RowsToNorm& rows,
                 std::span<const LinearPart> parts);
void norm_linear(Cuda device, Stream& stream, const RowsToNorm& rows,
                 std::span<const LinearPart> parts);
// Both parts write to y.
void norm_linear_swiglu(Cpu device, Stream& stream, const RowsToNorm& rows, const LinearPart& gate,
                        const LinearPart& up);
void norm_linear_swiglu(Cuda device, Stream& stream, const RowsToNorm& rows, const LinearPart& gate,
                        const LinearPart& up);
}  // namespace impl

}  // namespace caption::kernels
