// kernels/cpu/avx2/lanes.h: transposition and horizontal maximum of AVX registers, for attention.
#pragma once

#include <immintrin.h>

namespace caption::kernels::cpu {
namespace {

struct Avx2Lanes {
  static void transpose(__m256 (&rows)[8]) {
    __m256 quads[8];  // quads[4 g + c], lane l: column 4 l + c of the rows 4 g to 4 g + 3
#pragma GCC unroll 2
    for (int g = 0; g < 8; g += 4) {
      const __m256 low01 = _mm256_unpacklo_ps(rows[g], rows[g + 1]);
      const __m256 high01 = _mm256_unpackhi_ps(rows[g], rows[g + 1]);
      const __m256 low23 = _mm256_unpacklo_ps(rows[g + 2], rows[g + 3]);
      const __m256 high23 = _mm256_unpackhi_ps(rows[g + 2], rows[g + 3]);
      quads[g] = _mm256_shuffle_ps(low01, low23, 0x44);
      quads[g + 1] = _mm256_shuffle_ps(low01, low23, 0xEE);
      quads[g + 2] = _mm256_shuffle_ps(high01, high23, 0x44);
      quads[g + 3] = _mm256_shuffle_ps(high01, high23, 0xEE);
    }
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      rows[c] = _mm256_permute2f128_ps(quads[c], quads[c + 4], 0x20);
      rows[c + 4] = _mm256_permute2f128_ps(quads[c], quads[c + 4], 0x31);
    }
  }
  // Returns y where x is NaN.
  static __m256 maximum(__m256 x, __m256 y) { return _mm256_max_ps(x, y); }
  static float largest(__m256 x) {
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
  }
};

}  // namespace
}  // namespace caption::kernels::cpu
