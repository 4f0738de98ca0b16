// kernels/cpu/avx512bf16/codes.h: codes of 8 and 4 bits as bf16, and a group's sums with its
// scales.
//
// Included by the files of the tiers whose CPUs have AVX512-BF16, VBMI and VNNI, and by no others.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

inline constexpr std::int64_t kPairCodes = 2 * kPanelColumns;

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
inline constexpr MagnitudeTables kMagnitudes;

// A pair of columns of 32 features as two registers of bf16: the first 16 features and the last.
class Codes8 {
 public:
  explicit Codes8(const QuantisedArgs& args)
      : codes_(args.codes),
        low_first_(_mm512_load_si512(kMagnitudes.low)),
        low_last_(_mm512_load_si512(kMagnitudes.low + 64)),
        high_first_(_mm512_load_si512(kMagnitudes.high)),
        high_last_(_mm512_load_si512(kMagnitudes.high + 64)),
        sign_(_mm512_set1_epi8(static_cast<char>(0x80))) {}

  void load(std::int64_t pair, __m512i& first, __m512i& last) const {
    const __m512i codes = _mm512_loadu_si512(codes_ + pair * kPairCodes);
    const __m512i magnitudes = _mm512_abs_epi8(codes);
    const __m512i low = _mm512_permutex2var_epi8(low_first_, magnitudes, low_last_);
    constexpr int kOrOfAnd = 0xF8;  // a | (b & c)
    const __m512i high = _mm512_ternarylogic_epi32(
        _mm512_permutex2var_epi8(high_first_, magnitudes, high_last_), codes, sign_, kOrOfAnd);
    first = _mm512_unpacklo_epi8(low, high);
    last = _mm512_unpackhi_epi8(low, high);
  }

 private:
  const std::uint8_t* codes_;
  __m512i low_first_, low_last_, high_first_, high_last_, sign_;
};

class Codes4 {
 public:
  explicit Codes4(const QuantisedArgs& args)
      : codes_(args.codes),
        codebook_(_mm512_broadcast_i64x4(
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(args.codebook)))) {}

  void load(std::int64_t pair, __m512i& first, __m512i& last) const {
    const auto* const from = reinterpret_cast<const __m256i*>(codes_ + pair * kPanelColumns);
    const __m512i both = _mm512_cvtepu8_epi16(_mm256_loadu_si256(from));
    first = _mm512_permutexvar_epi16(both, codebook_);
    last = _mm512_permutexvar_epi16(_mm512_srli_epi16(both, 4), codebook_);
  }

 private:
  const std::uint8_t* codes_;
  __m512i codebook_;
};

// c (+)= scales * sums (+ offsets * sum of the row's activations), for one row.
inline void add_group(const QuantisedArgs& args, std::int64_t group, std::int64_t m, __m512 first,
                      __m512 last) {
  float* const c = args.c + m * args.c_stride;
  const std::int64_t at = group * kPanelColumns;
  const __m512 before_first = group == 0 ? _mm512_setzero_ps() : _mm512_loadu_ps(c);
  const __m512 before_last = group == 0 ? _mm512_setzero_ps() : _mm512_loadu_ps(c + 16);
  __m512 c_first = _mm512_fmadd_ps(_mm512_loadu_ps(args.scales + at), first, before_first);
  __m512 c_last = _mm512_fmadd_ps(_mm512_loadu_ps(args.scales + at + 16), last, before_last);
  if (args.offsets != nullptr) {
    const __m512 a_sum = _mm512_set1_ps(args.a_sums[m * args.a_sums_stride + group]);
    c_first = _mm512_fmadd_ps(_mm512_loadu_ps(args.offsets + at), a_sum, c_first);
    c_last = _mm512_fmadd_ps(_mm512_loadu_ps(args.offsets + at + 16), a_sum, c_last);
  }
  _mm512_storeu_ps(c, c_first);
  _mm512_storeu_ps(c + 16, c_last);
}

}  // namespace caption::kernels::cpu
