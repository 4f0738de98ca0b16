#include "bench/internal/multiply_add.h"

namespace caption::bench {
namespace {

using Vector = std::int32_t __attribute__((vector_size(kAvx512Width * sizeof(std::int32_t))));

}  // namespace

// acc[i] += the sum of four products of 8-bit integers. Written in assembly for the reasons given
// in multiply_add_avx512bf16.cpp.
float multiply_add_avx512vnni(std::int64_t rounds, float start) {
  static_assert(kMultiplyAddChains == 12);
  const Vector first = Vector{} + static_cast<std::int32_t>(start);
  Vector a = first, b = first, c = first, d = first, e = first, f = first;
  Vector g = first, h = first, i = first, j = first, k = first, l = first;
  const Vector ones = Vector{} + 0x01010101;
  for (std::int64_t round = 0; round < rounds; ++round) {
    asm volatile(
        "vpdpbusd %[x], %[x], %[a]\n\tvpdpbusd %[x], %[x], %[b]\n\t"
        "vpdpbusd %[x], %[x], %[c]\n\tvpdpbusd %[x], %[x], %[d]\n\t"
        "vpdpbusd %[x], %[x], %[e]\n\tvpdpbusd %[x], %[x], %[f]\n\t"
        "vpdpbusd %[x], %[x], %[g]\n\tvpdpbusd %[x], %[x], %[h]\n\t"
        "vpdpbusd %[x], %[x], %[i]\n\tvpdpbusd %[x], %[x], %[j]\n\t"
        "vpdpbusd %[x], %[x], %[k]\n\tvpdpbusd %[x], %[x], %[l]"
        : [a] "+v"(a), [b] "+v"(b), [c] "+v"(c), [d] "+v"(d), [e] "+v"(e), [f] "+v"(f), [g] "+v"(g),
          [h] "+v"(h), [i] "+v"(i), [j] "+v"(j), [k] "+v"(k), [l] "+v"(l)
        : [x] "v"(ones));
  }
  const Vector sum = a ^ b ^ c ^ d ^ e ^ f ^ g ^ h ^ i ^ j ^ k ^ l;
  return static_cast<float>(sum[0]);
}

}  // namespace caption::bench
