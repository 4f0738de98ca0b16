// kernels/cpu/avx512bf16/page_rows.h: rows of pages of bf16 and i8 as registers of pairs of bf16;
// exact, because an i8 has no more bits than a bf16 holds.
//
// Pairs of bf16, like quadruples of i8, are numbers of 32 bits: 16 of 16 keys at a time are
// transposed in registers, 4 shuffles a register. Whole lines: tokens lie a power of two apart, and
// the first-level cache does not hold 32 of their lines until they are read again. i8 is widened by
// looking up the two bytes of its magnitude.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/avx512/lanes.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kPairElements = 2 * kPanelColumns;

const char* row_at(const PackArgs& args, std::int64_t j) {
  return static_cast<const char*>(args.base) + args.slots[j] * args.row_bytes;
}

constexpr std::int64_t kStepBytes = 64;  // of each of 16 keys that are transposed together
constexpr int kStepColumns = 16;         // of 4 bytes

// The keys first to first + 15 of a pack, the last one again where there are fewer. Sixteen that
// follow one another, as those of a page do, are read where they lie; others are copied.
class SixteenRows {
 public:
  SixteenRows(const PackArgs& args, std::int64_t first, std::int64_t row_bytes)
      : upcoming_(args.upcoming) {
    bool follow = first + kLanes <= args.count;
    for (std::int64_t i = 1; i < kLanes && follow; ++i) {
      follow = args.slots[first + i] == args.slots[first] + i;
    }
    if (follow) {
      rows_ = row_at(args, first);
      stride_ = args.row_bytes;
      return;
    }
    for (std::int64_t i = 0; i < kLanes; ++i) {
      const char* const row = row_at(args, first + i < args.count ? first + i : args.count - 1);
      __builtin_memcpy(copies_ + i * kMaxRowBytes, row, static_cast<unsigned long>(row_bytes));
    }
  }
  SixteenRows(const SixteenRows&) = delete;
  SixteenRows& operator=(const SixteenRows&) = delete;

  // kStepBytes of each from `at` on, of which `bytes` are the rows', as columns of 16 keys.
  void load_columns(std::int64_t at, std::int64_t bytes, __m512i (&columns)[kStepColumns]) const {
    if (upcoming_ != nullptr) ask_for(*upcoming_, kLanes * kStepBytes / 64);
    const char* from = rows_ + at;
    if (bytes >= kStepBytes) {
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) columns[i] = _mm512_loadu_si512(from + i * stride_);
    } else {
      const __mmask64 mask = (__mmask64{1} << bytes) - 1;
      for (int i = 0; i < 16; ++i) columns[i] = _mm512_maskz_loadu_epi8(mask, from + i * stride_);
    }
    transpose_dwords(columns);
  }

 private:
  static constexpr std::int64_t kMaxRowBytes = 512;  // head_dim 256 of bf16

  Upcoming* upcoming_;
  const char* rows_ = copies_;
  std::int64_t stride_ = kMaxRowBytes;
  alignas(64) char copies_[kLanes * kMaxRowBytes];
};

// 64 dimensions of two rows of values.
struct WholeRows {
  const char* even;
  const char* odd;
  static constexpr std::int64_t bytes = 128;  // at most, of each

  __m512i load_even(std::int64_t at) const { return _mm512_loadu_si512(even + at); }
  __m512i load_odd(std::int64_t at) const { return _mm512_loadu_si512(odd + at); }
};

// As many as there are; the second row may be none.
struct PartRows {
  const char* even;
  const char* odd;
  std::int64_t bytes;  // left of each

  __m512i load_even(std::int64_t at) const { return load(even + at, at); }
  __m512i load_odd(std::int64_t at) const {
    return odd == nullptr ? _mm512_setzero_si512() : load(odd + at, at);
  }

 private:
  __m512i load(const char* from, std::int64_t at) const {
    if (bytes - at >= 64) return _mm512_loadu_si512(from);
    return _mm512_maskz_loadu_epi8((__mmask64{1} << (bytes - at)) - 1, from);
  }
};

// The values first and first + 1 of a pack, 64 dimensions from d on, as pairs.
template <class Rows>
[[gnu::always_inline]] inline void load_value_pairs(const PackArgs& args, std::int64_t first,
                                                    std::int64_t d, __m512i (&pairs)[4]) {
  const std::int64_t at = d * Rows::kBytes;
  const char* const even = row_at(args, first) + at;
  const char* const odd = first + 1 < args.count ? row_at(args, first + 1) + at : nullptr;
  if (d + 64 <= args.dim && odd != nullptr) {
    Rows::pair_rows(WholeRows{.even = even, .odd = odd}, pairs);
  } else {
    Rows::pair_rows(PartRows{.even = even, .odd = odd, .bytes = args.dim * Rows::kBytes - at},
                    pairs);
  }
}

struct Bf16Rows {
  static constexpr std::int64_t kBytes = 2;

  static constexpr int kStepPairs = 16;

  // kStepPairs pairs of dimensions from `d` on, of 16 keys; zeros behind the last.
  static void load_pairs(const SixteenRows& keys, std::int64_t dim, std::int64_t d,
                         __m512i (&pairs)[kStepPairs]) {
    keys.load_columns(d * kBytes, (dim - d) * kBytes, pairs);
  }

  // 64 dimensions of two rows as pairs, 16 dimensions a register.
  template <class TwoRows>
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

// bf16 of 0 .. 127, its bytes apart.
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

  // The lower and the upper byte of the bf16 of each of 64 i8.
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

// Bytes 2 h and 2 h + 1 of each group of four, out of two registers: low, high, low, high.
__m512i interleave_index(int h) {
  return _mm512_add_epi32(
      _mm512_set_epi32(0x7D3D7C3C, 0x79397838, 0x75357434, 0x71317030, 0x6D2D6C2C, 0x69296828,
                       0x65256424, 0x61216020, 0x5D1D5C1C, 0x59195818, 0x55155414, 0x51115010,
                       0x4D0D4C0C, 0x49094808, 0x45054404, 0x41014000),
      _mm512_set1_epi8(static_cast<char>(2 * h)));
}

struct Int8Rows {
  static constexpr std::int64_t kBytes = 1;

  static constexpr int kStepPairs = 32;

  static void load_pairs(const SixteenRows& keys, std::int64_t dim, std::int64_t d,
                         __m512i (&pairs)[kStepPairs]) {
    const Widen8 widen;
    const __m512i first_pairs = interleave_index(0);
    const __m512i last_pairs = interleave_index(1);
    __m512i quads[kStepColumns];  // 4 dimensions of 16 keys
    keys.load_columns(d, dim - d, quads);
#pragma GCC unroll 16
    for (int i = 0; i < kStepColumns; ++i) {
      __m512i low, high;
      widen.split(quads[i], low, high);
      pairs[2 * i] = _mm512_permutex2var_epi8(low, first_pairs, high);
      pairs[2 * i + 1] = _mm512_permutex2var_epi8(low, last_pairs, high);
    }
  }

  template <class TwoRows>
  static void pair_rows(const TwoRows& rows, __m512i (&pairs)[4]) {
    // Four dimensions of each 16 to every lane of 16 bytes, so that two interleavings within lanes
    // leave 16 dimensions in their order.
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
