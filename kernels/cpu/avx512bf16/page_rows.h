// kernels/cpu/avx512bf16/page_rows.h: rows of pages of bf16 and i8 as pairs of bf16. The conversion
// is exact: every i8 is a bf16 number.
//
// A pair of bf16 is 32 bits: 16 keys of 16 pairs are transposed in registers, 4 shuffles per key
// and register. An i8 is widened by looking up the two bytes of the bf16 of its magnitude.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/avx512/lanes.h"

namespace caption::kernels::cpu {
namespace {

constexpr std::int64_t kLanes = 16;

// Loads up to 64 bytes; the bytes of the result beyond `bytes` are zero.
inline __m512i load(const char* from, std::int64_t bytes) {
  if (bytes >= 64) return _mm512_loadu_si512(from);
  return _mm512_maskz_loadu_epi8((__mmask64{1} << bytes) - 1, from);
}

inline void prefetch(const char* from) { _mm_prefetch(from, _MM_HINT_T1); }

// Transposes 64 bytes of each of 16 rows, of which the first `bytes` belong to the row, into 16
// columns of 32 bits. `row(i)` returns the address of those of row i.
template <class Row>
[[gnu::always_inline]] inline void load_columns(const Row& row, std::int64_t bytes,
                                                __m512i (&columns)[16]) {
  if (bytes >= 64) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) columns[i] = _mm512_loadu_si512(row(i));
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) columns[i] = load(row(i), bytes);
  }
  transpose_dwords(columns);
}

// Two adjacent rows of values, from the dimension on at which they are read; `odd` may be null.
struct TwoRows {
  const char* even;
  const char* odd;
  std::int64_t bytes;  // left in each row

  __m512i load_even(std::int64_t at) const { return load(even + at, bytes - at); }
  __m512i load_odd(std::int64_t at) const {
    return odd == nullptr ? _mm512_setzero_si512() : load(odd + at, bytes - at);
  }
};

struct Bf16Rows {
  static constexpr std::int64_t kBytes = 2;
  static constexpr std::int64_t kColumnPairs = 16;  // pairs of a key in 64 bytes

  // Calls use(i, pairs) for the pairs of elements that load_columns() gave: pair i of each key.
  template <class Use>
  [[gnu::always_inline]] static void for_pairs(const __m512i (&columns)[16], const Use& use) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) use(i, columns[i]);
  }

  // Interleaves 64 dimensions of two rows into pairs, 16 dimensions per register.
  static void pair_rows(const TwoRows& rows, __m512i (&pairs)[4]) {
    const __m512i first16 =
        _mm512_set_epi32(0x002F000F, 0x002E000E, 0x002D000D, 0x002C000C, 0x002B000B, 0x002A000A,
                         0x00290009, 0x00280008, 0x00270007, 0x00260006, 0x00250005, 0x00240004,
                         0x00230003, 0x00220002, 0x00210001, 0x00200000);
    const __m512i last16 = _mm512_add_epi16(first16, _mm512_set1_epi16(16));
    for (int half = 0; half < 2 && half * 64 < rows.bytes; ++half) {
      const __m512i even = rows.load_even(half * 64);
      const __m512i odd = rows.load_odd(half * 64);
      pairs[2 * half] = _mm512_permutex2var_epi16(even, first16, odd);
      pairs[2 * half + 1] = _mm512_permutex2var_epi16(even, last16, odd);
    }
  }
};

// The lower and the upper bytes of the bf16 numbers 0 to 127.
struct MagnitudeTables {
  alignas(64) std::uint8_t low[128] = {};
  alignas(64) std::uint8_t high[128] = {};

  constexpr MagnitudeTables() {
    for (unsigned i = 1; i < 128; ++i) {
      unsigned exponent = 0;
      while (i >> (exponent + 1) != 0) ++exponent;
      const unsigned bits = (127 + exponent) << 7 | ((i << (7 - exponent)) & 0x7Fu);
      low[i] = static_cast<std::uint8_t>(bits & 0xFFu);
      high[i] = static_cast<std::uint8_t>(bits >> 8);
    }
  }
};
constexpr MagnitudeTables kMagnitudes;

class Widen8 {
 public:
  Widen8()
      : low_first_(_mm512_load_si512(kMagnitudes.low)),
        low_last_(_mm512_load_si512(kMagnitudes.low + 64)),
        high_first_(_mm512_load_si512(kMagnitudes.high)),
        high_last_(_mm512_load_si512(kMagnitudes.high + 64)) {}

  // Returns the lower and the upper bytes of the bf16 numbers equal to 64 i8.
  void split(__m512i codes, __m512i& low, __m512i& high) const {
    const __m512i magnitudes = _mm512_abs_epi8(codes);
    constexpr int kOrOfAnd = 0xF8;  // a | (b & c)
    low = _mm512_permutex2var_epi8(low_first_, magnitudes, low_last_);
    high = _mm512_ternarylogic_epi32(_mm512_permutex2var_epi8(high_first_, magnitudes, high_last_),
                                     codes, _mm512_set1_epi8(static_cast<char>(0x80)), kOrOfAnd);
  }

 private:
  __m512i low_first_, low_last_, high_first_, high_last_;
};

// Index of the permutation that interleaves bytes 2 h and 2 h + 1 of each group of four of two
// registers: low, high, low, high.
inline __m512i interleave_index(int h) {
  return _mm512_add_epi32(
      _mm512_set_epi32(0x7D3D7C3C, 0x79397838, 0x75357434, 0x71317030, 0x6D2D6C2C, 0x69296828,
                       0x65256424, 0x61216020, 0x5D1D5C1C, 0x59195818, 0x55155414, 0x51115010,
                       0x4D0D4C0C, 0x49094808, 0x45054404, 0x41014000),
      _mm512_set1_epi8(static_cast<char>(2 * h)));
}

struct Int8Rows {
  static constexpr std::int64_t kBytes = 1;
  static constexpr std::int64_t kColumnPairs = 32;

  template <class Use>
  [[gnu::always_inline]] static void for_pairs(const __m512i (&columns)[16], const Use& use) {
    const Widen8 widen;
    const __m512i first_pairs = interleave_index(0);
    const __m512i last_pairs = interleave_index(1);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {  // 4 dimensions of 16 keys
      __m512i low, high;
      widen.split(columns[i], low, high);
      use(2 * i, _mm512_permutex2var_epi8(low, first_pairs, high));
      use(2 * i + 1, _mm512_permutex2var_epi8(low, last_pairs, high));
    }
  }

  static void pair_rows(const TwoRows& rows, __m512i (&pairs)[4]) {
    // Distributes the 64 dimensions in groups of four over the 128-bit lanes, so that two
    // interleavings within lanes leave 16 consecutive dimensions in each register.
    const __m512i spread = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const Widen8 widen;
    __m512i even_low, even_high, odd_low, odd_high;
    widen.split(_mm512_permutexvar_epi32(spread, rows.load_even(0)), even_low, even_high);
    widen.split(_mm512_permutexvar_epi32(spread, rows.load_odd(0)), odd_low, odd_high);
    const __m512i even_first = _mm512_unpacklo_epi8(even_low, even_high);
    const __m512i even_last = _mm512_unpackhi_epi8(even_low, even_high);
    const __m512i odd_first = _mm512_unpacklo_epi8(odd_low, odd_high);
    const __m512i odd_last = _mm512_unpackhi_epi8(odd_low, odd_high);
    pairs[0] = _mm512_unpacklo_epi16(even_first, odd_first);
    pairs[1] = _mm512_unpackhi_epi16(even_first, odd_first);
    pairs[2] = _mm512_unpacklo_epi16(even_last, odd_last);
    pairs[3] = _mm512_unpackhi_epi16(even_last, odd_last);
  }
};

}  // namespace
}  // namespace caption::kernels::cpu
