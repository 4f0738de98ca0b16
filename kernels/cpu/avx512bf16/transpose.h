// kernels/cpu/avx512bf16/transpose.h: words and codes of a panel's rows, exchanged in registers.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

constexpr int kHalf = 16;  // rows of half a panel

// Exchanges rows and columns of 16 x 16 words of 4 bytes. A call would bring them through memory.
[[gnu::always_inline]] inline void transpose(__m512i (&r)[kHalf]) {
  __m512i t[kHalf];
  for (int i = 0; i < kHalf; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < kHalf; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    const __m512i a = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    const __m512i b = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xDD);
    const __m512i c = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    const __m512i d = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xDD);
    t[i] = _mm512_shuffle_i32x4(a, c, 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(b, d, 0x88);
    t[i + 8] = _mm512_shuffle_i32x4(a, c, 0xDD);
    t[i + 12] = _mm512_shuffle_i32x4(b, d, 0xDD);
  }
  for (int i = 0; i < kHalf; ++i) r[i] = t[i];
}

struct alignas(64) ByteIndex {
  std::uint8_t at[64];
};

// The byte of feature n and column 2 * p + c among those of the even columns (c = 0) and of the odd
// ones, which follow them (as _mm512_permutex2var_epi8() counts): each has four columns of a
// feature in a word.
constexpr std::uint8_t merged_byte(int n, int p, int c) {
  return static_cast<std::uint8_t>(64 * c + 4 * n + p);
}

// The bytes of the column pairs `pair` and `pair` + 1, as panel4_position() orders them; `first` is
// 1 where the odd columns take the place of the even ones.
constexpr ByteIndex pair_index(int pair, int first = 0) {
  ByteIndex index{};
  for (int i = 0; i < 64; ++i) index.at[i] = merged_byte(i % 32 / 2, pair + i / 32, i % 2 ^ first);
  return index;
}

// The bytes of the four columns from `pair` on, as quad4_position() orders them.
constexpr ByteIndex quad_index(int pair) {
  ByteIndex index{};
  for (int i = 0; i < 64; ++i) index.at[i] = merged_byte(i / 4, pair + i % 4 / 2, i % 2);
  return index;
}

// Writes 64 bytes, past the processor's caches where they are a whole line: packed weights are read
// long after. A thread that wrote lines calls finish_lines() before others read them.
inline void store_line(std::uint8_t* to, __m512i line) {
  if (reinterpret_cast<std::uintptr_t>(to) % 64 == 0) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), line);
  } else {
    _mm512_storeu_si512(to, line);
  }
}

inline void finish_lines() { _mm_sfence(); }

// Writes the codes of 8 columns of 32 features, of which each word of `first` and `last` holds
// those of one feature: 128 bytes, in the order of two indices.
inline void store_merged(__m512i first, __m512i last, const ByteIndex (&order)[2],
                         std::uint8_t* to) {
  const __m512i low = _mm512_set1_epi8(0x0F);
  // (low & a) | (~low & b), for each bit.
  constexpr int kSelect = 0xCA;
  const __m512i even = _mm512_ternarylogic_epi32(low, first, _mm512_slli_epi32(last, 4), kSelect);
  const __m512i odd = _mm512_ternarylogic_epi32(low, _mm512_srli_epi32(first, 4), last, kSelect);
  for (int i = 0; i < 2; ++i) {
    const __m512i index = _mm512_load_si512(order[i].at);
    store_line(to + i * 64, _mm512_permutex2var_epi8(even, index, odd));
  }
}

}  // namespace
}  // namespace caption::kernels::cpu
