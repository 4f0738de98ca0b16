// bench/internal/multiply_add.h: chains of multiply-adds on registers, one version per instruction
// set and type of number. Included by files with -mavx512..., so it includes nothing but <cstdint>.
#pragma once

#include <cstdint>

namespace caption::bench {

// Runs `rounds` rounds of independent chains and returns a number that depends on all of them.
using MultiplyAdd = float (*)(std::int64_t rounds, float start);

float multiply_add_reference(std::int64_t rounds, float start);
float multiply_add_avx2(std::int64_t rounds, float start);    // x86-64 only
float multiply_add_avx512(std::int64_t rounds, float start);  // x86-64 only
// Dot products of bf16 pairs, summed in f32: two multiply-adds per lane. x86-64 only.
float multiply_add_avx512bf16(std::int64_t rounds, float start);
// Products of bf16 tiles; one chain has 16 x 16 sums of 32 products. x86-64 only; the process must
// have permission to use AMX tiles (backend/cpu_tier.h).
float multiply_add_amx(std::int64_t rounds, float start);
// Dot products of four 8-bit integers, summed in 32 bits: four multiply-adds per lane. x86-64 only.
float multiply_add_avxvnni(std::int64_t rounds, float start);
float multiply_add_avx512vnni(std::int64_t rounds, float start);
// Products of pairs of 16-bit integers, to which 8-bit ones are widened, added in 32 bits: two
// multiply-adds per lane. x86-64 only.
float multiply_add_avx2_int8(std::int64_t rounds, float start);
float multiply_add_avx512_int8(std::int64_t rounds, float start);
// Products of pairs of bytes, one of them a code of 4 bits, added in 16 bits: four multiply-adds
// per lane of 32 bits. x86-64 only.
float multiply_add_avx2_int4(std::int64_t rounds, float start);
float multiply_add_avx512_int4(std::int64_t rounds, float start);
// As multiply_add_amx() on tiles of 8-bit integers; one chain has 16 x 16 sums of 64 products.
float multiply_add_amx_int8(std::int64_t rounds, float start);

// Twelve chains hide a latency of four cycles at two or three multiply-adds per cycle, and fit the
// sixteen vector registers of AVX2 together with the two operands.
inline constexpr int kMultiplyAddChains = 12;
inline constexpr int kReferenceWidth = 4;
inline constexpr int kAvx2Width = 8;
inline constexpr int kAvx512Width = 16;
inline constexpr int kTileFlops = 2 * 16 * 16 * 32;
inline constexpr int kInt8TileFlops = 2 * 16 * 16 * 64;

// Shared by all versions; `static`, so that each translation unit has a separate copy compiled for
// its instruction set. GCC and clang keep each `Vector` (a vector extension type) in one register.
template <class Vector>
static inline float run_multiply_add(std::int64_t rounds, float start) {
  Vector chains[kMultiplyAddChains];
  for (int i = 0; i < kMultiplyAddChains; ++i)
    chains[i] = Vector{} + (start + 0.001F * static_cast<float>(i));
  const Vector factor = Vector{} + 0.999F;
  const Vector term = Vector{} + 0.0005F;
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < kMultiplyAddChains; ++i) chains[i] = chains[i] * factor + term;
  }
  float sum = 0;
  for (int i = 0; i < kMultiplyAddChains; ++i) sum += chains[i][0];
  return sum;
}

}  // namespace caption::bench
