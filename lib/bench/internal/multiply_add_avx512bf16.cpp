#include "bench/internal/multiply_add.h"

namespace caption::bench {
namespace {

using Vector = float __attribute__((vector_size(kAvx512Width * sizeof(float))));

}  // namespace

// acc[i] += a[2i] * b[2i] + a[2i + 1] * b[2i + 1] on pairs of bf16. Written in assembly, because
// this file may not include the intrinsics' header and compilers disagree on the builtin's types.
float multiply_add_avx512bf16(std::int64_t rounds, float start) {
  static_assert(kMultiplyAddChains == 12);
  const Vector first = Vector{} + start;
  Vector a = first, b = first, c = first, d = first, e = first, f = first;
  Vector g = first, h = first, i = first, j = first, k = first, l = first;
  const Vector pairs = Vector{} + 0.5F;  // each float's bits hold two bf16, 0.5 and 0
  for (std::int64_t round = 0; round < rounds; ++round) {
    asm volatile(
        "vdpbf16ps %[x], %[x], %[a]\n\tvdpbf16ps %[x], %[x], %[b]\n\t"
        "vdpbf16ps %[x], %[x], %[c]\n\tvdpbf16ps %[x], %[x], %[d]\n\t"
        "vdpbf16ps %[x], %[x], %[e]\n\tvdpbf16ps %[x], %[x], %[f]\n\t"
        "vdpbf16ps %[x], %[x], %[g]\n\tvdpbf16ps %[x], %[x], %[h]\n\t"
        "vdpbf16ps %[x], %[x], %[i]\n\tvdpbf16ps %[x], %[x], %[j]\n\t"
        "vdpbf16ps %[x], %[x], %[k]\n\tvdpbf16ps %[x], %[x], %[l]"
        : [a] "+v"(a), [b] "+v"(b), [c] "+v"(c), [d] "+v"(d), [e] "+v"(e), [f] "+v"(f), [g] "+v"(g),
          [h] "+v"(h), [i] "+v"(i), [j] "+v"(j), [k] "+v"(k), [l] "+v"(l)
        : [x] "v"(pairs));
  }
  const Vector sum = a + b + c + d + e + f + g + h + i + j + k + l;
  return sum[0];
}

}  // namespace caption::bench
