// kernels/peak_rate.h: launches that a GPU's arithmetic units alone limit, for measuring their rate
// (bench/roofline.h).
#pragma once

#include <cstdint>

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption::kernels {

enum class PeakArithmetic {
  k16Bits,  // tensor cores, bf16 (f16 where the GPU lacks bf16), sums in f32
  kInt8,    // tensor cores, 8-bit integers, sums in 32 bits
  kF32,     // fused multiply-adds of f32
};

// Shape of `sums`: an element per thread of a block.
inline constexpr std::int64_t kPeakThreads = 256;

// Launches `blocks` blocks, 1 <= blocks < 2^31, whose operands stay in registers, and returns their
// number of additions and multiplications. `sums`, [kPeakThreads] f32, is never written: a
// condition that does not hold keeps the results alive. Throws Error(kInternal) when a shape or a
// dtype is another one; Error(kUnavailable) on the CPU, whose rates bench/roofline.h measures by
// itself.
double run_multiply_adds(Stream& stream, PeakArithmetic arithmetic, std::int64_t blocks, View sums);

namespace impl {
double run_multiply_adds(Cpu device, Stream& stream, PeakArithmetic arithmetic, std::int64_t blocks,
                         View sums);
double run_multiply_adds(Cuda device, Stream& stream, PeakArithmetic arithmetic,
                         std::int64_t blocks, View sums);
}  // namespace impl

}  // namespace caption::kernels
