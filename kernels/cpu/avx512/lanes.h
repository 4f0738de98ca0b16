// kernels/cpu/avx512/lanes.h: transposition and horizontal maximum of AVX-512 registers, for
// attention.
#pragma once

#include <immintrin.h>

namespace caption::kernels::cpu {
namespace {

// Transposes 16 rows of 16 32-bit elements.
inline void transpose_dwords(__m512i (&rows)[16]) {
  __m512i quads[16];  // quads[4 g + c], lane l: column 4 l + c of the rows 4 g to 4 g + 3
#pragma GCC unroll 4
  for (int g = 0; g < 16; g += 4) {
    const __m512i low01 = _mm512_unpacklo_epi32(rows[g], rows[g + 1]);
    const __m512i high01 = _mm512_unpackhi_epi32(rows[g], rows[g + 1]);
    const __m512i low23 = _mm512_unpacklo_epi32(rows[g + 2], rows[g + 3]);
    const __m512i high23 = _mm512_unpackhi_epi32(rows[g + 2], rows[g + 3]);
    quads[g] = _mm512_unpacklo_epi64(low01, low23);
    quads[g + 1] = _mm512_unpackhi_epi64(low01, low23);
    quads[g + 2] = _mm512_unpacklo_epi64(high01, high23);
    quads[g + 3] = _mm512_unpackhi_epi64(high01, high23);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512i low01 = _mm512_shuffle_i32x4(quads[c], quads[c + 4], 0x44);
    const __m512i high01 = _mm512_shuffle_i32x4(quads[c], quads[c + 4], 0xEE);
    const __m512i low23 = _mm512_shuffle_i32x4(quads[c + 8], quads[c + 12], 0x44);
    const __m512i high23 = _mm512_shuffle_i32x4(quads[c + 8], quads[c + 12], 0xEE);
    rows[c] = _mm512_shuffle_i32x4(low01, low23, 0x88);
    rows[c + 4] = _mm512_shuffle_i32x4(low01, low23, 0xDD);
    rows[c + 8] = _mm512_shuffle_i32x4(high01, high23, 0x88);
    rows[c + 12] = _mm512_shuffle_i32x4(high01, high23, 0xDD);
  }
}

struct Avx512Lanes {
  static void transpose(__m512 (&rows)[16]) {
    __m512i bits[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) bits[i] = _mm512_castps_si512(rows[i]);
    transpose_dwords(bits);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) rows[i] = _mm512_castsi512_ps(bits[i]);
  }
  // Returns y where x is NaN.
  static __m512 maximum(__m512 x, __m512 y) { return _mm512_max_ps(x, y); }
  static float largest(__m512 x) { return _mm512_reduce_max_ps(x); }
};

}  // namespace
}  // namespace caption::kernels::cpu
