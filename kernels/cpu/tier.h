// kernels/cpu/tier.h: the few inner loops that have one version per instruction set.
//
// Everything else on the CPU is written once, on top of these. Included by files with -mavx512...,
// so it includes nothing but <cstdint> (style.md §2.4).
#pragma once

#include <cstdint>

namespace caption::kernels::cpu {

// How the second operand is stored; it is widened to f32 in registers.
enum class Element { kF32, kBF16, kF16 };
inline constexpr int kNumElements = 3;

// Row-major matrices; strides between rows in elements.
struct GemmArgs {
  const float* a = nullptr;
  std::int64_t a_stride = 0;
  const void* b = nullptr;
  std::int64_t b_stride = 0;
  float* c = nullptr;
  std::int64_t c_stride = 0;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};
using Gemm = void (*)(const GemmArgs& args);

struct SwishArgs {
  const float* x = nullptr;
  float beta = 1;
  const float* factor = nullptr;  // or null: 1
  float* y = nullptr;             // may be x or factor
  std::int64_t n = 0;
};

// In each, an element of the result depends on its own inputs and on k (or n) alone, never on the
// other elements computed with it: batch invariance starts here.
struct Tier {
  // c[m, n] = sum_k a[m, k] * b[n, k]: interleaved partial sums over k, then a tree.
  Gemm dot[kNumElements];
  // c[m, n] += sum_k a[m, k] * b[k, n], term after term in the order of k; so a sum may be split
  // over several calls.
  Gemm accumulate[kNumElements];
  // x[i] = exp(x[i] - shift), returns their sum; x[i] <= shift.
  float (*exp_sum)(float* x, std::int64_t n, float shift);
  // y = x / (1 + exp(-beta * x)) * factor
  void (*swish)(const SwishArgs& args);
};

const Tier& reference_tier();
const Tier& avx2_tier();    // x86-64 only; the CPU must have AVX2, FMA, F16C
const Tier& avx512_tier();  // x86-64 only; the CPU must have AVX-512 F, BW, DQ, VL

}  // namespace caption::kernels::cpu
