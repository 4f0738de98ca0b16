// tests/support/cuda/tensor_core.h: the sums of a tensor core, c += a * b with 16-bit a and b.
//
// A GPU adds the products of several k and c in one step: products are exact, every term is aligned
// to the largest exponent of the step (a product's is the sum of its factors' exponents) and cut
// towards zero to a number of fractional bits, the sum of the terms is exact and cut towards zero
// to f32. Steps follow in the order of k. Products of warpgroups (kernels/cuda/warpgroup.cuh) are
// summed as Hopper's others.
// Source: arXiv:2511.10909, whose model (github.com/microsoft/MMA-Sim, mmasim/simulator/nv.py) has
// 25 fractional bits and one step of 16 products for both of Hopper, and arXiv:2512.07004, which
// measured GPUs. This project has not compared
// the model with a GPU; results of kernels are tested with kFused as well, so that only equality of
// bits rests on it.
//
// Ada's tensor cores keep fewer bits of e4m3 numbers (tensor/e4m3.h): terms are cut to 13
// fractional bits, the sum to 13 bits after the point of its leading one, and a product of k = 32
// is two steps of 16. Source: arXiv:2511.10909, whose model (github.com/microsoft/MMA-Sim, F = 13,
// RZ-E8M13) was compared with an Ada GPU bit for bit; arXiv:2412.19437, section 3.3.2, measured
// about 14 bits on Hopper's wgmma. Hopper's mma.sync has no such product: kernels widen the numbers
// to f16 (kernels/cuda/primitives.cuh), as nvcc does by itself
// (github.com/NVIDIA/cutlass/issues/1986), and sum in two steps of f16.
#pragma once

#include <cstdint>

namespace caption::cuda_emulator {

enum class TensorCoreSums {
  kAmpere,  // and Ada: 24 fractional bits, 8 products per step
  kHopper,  // 25 fractional bits, 16 products per step
  kFused,   // fused multiply-add in f32, one product after another
};

enum class HalfType { kBF16, kF16 };

struct MatrixA {
  std::uint16_t element[16][16];
};
struct MatrixB {
  std::uint16_t element[16][8];
};
struct MatrixC {
  float element[16][8];
};

struct MatrixA8 {
  std::uint8_t element[16][32];
};
struct MatrixB8 {
  std::uint8_t element[32][8];
};

// Infinities and NaNs in a, b or c are summed as kFused does: a GPU gives an infinity where that
// does and NaN where that does, but the payload of a NaN may differ.
void multiply_add(TensorCoreSums sums, HalfType type, const MatrixA& a, const MatrixB& b,
                  MatrixC& c);
// The same of e4m3 numbers.
void multiply_add_e4m3(TensorCoreSums sums, const MatrixA8& a, const MatrixB8& b, MatrixC& c);

}  // namespace caption::cuda_emulator
