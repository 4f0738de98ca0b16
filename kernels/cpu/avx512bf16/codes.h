// kernels/cpu/avx512bf16/codes.h: widening of weights of 8 and 4 bits to bf16.
//
// Only for files of the tiers whose CPUs have AVX512-BF16, VBMI and VNNI.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/internal/fetch_ahead.h"
#include "kernels/cpu/internal/quad_groups.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

inline constexpr std::int64_t kPairCodes = 2 * kPanelColumns;

// Reads a pair of columns of 32 features as two registers of bf16: the first and the last 16
// features.
//
// The f32 of an integer of magnitude up to 255 has zeros in its lower 16 bits, so its upper 16 bits
// are the integer's bf16.
class Codes8 {
 public:
  explicit Codes8(const QuantisedArgs& args) : codes_(args.codes) {
    alignas(64) std::uint16_t upper[32];
    for (std::uint16_t i = 0; i < 32; ++i) upper[i] = static_cast<std::uint16_t>(2 * i + 1);
    upper_halves_ = _mm512_load_si512(upper);
  }

  void load(std::int64_t pair, __m512i& first, __m512i& last) const {
    const std::uint8_t* const codes = codes_ + pair * kPairCodes;
    fetch_ahead(codes);
    first = _mm512_permutex2var_epi16(widen(codes), upper_halves_, widen(codes + 16));
    last = _mm512_permutex2var_epi16(widen(codes + 32), upper_halves_, widen(codes + 48));
  }

 private:
  static __m512i widen(const std::uint8_t* codes) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
    return _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)));
  }

  const std::uint8_t* codes_;
  __m512i upper_halves_;
};

// The bf16 of the numbers of e4m3 without a sign (tensor/e4m3.h), in bytes. Numbers that are
// subnormal in e4m3 are normal in bf16.
struct E4M3Table {
  constexpr E4M3Table() {
    for (int code = 0; code < 128; ++code) {
      int exponent = code >> 3;
      int fraction = code & 7;
      constexpr int kBias = 127 - 7;
      if (exponent == 0 && fraction != 0) {
        for (exponent = 1; fraction < 8; --exponent) fraction *= 2;
        fraction -= 8;
      }
      const int bits = code == 0 ? 0 : (exponent + kBias) << 7 | fraction << 4;
      lower[code] = static_cast<std::uint8_t>(bits & 255);
      upper[code] = static_cast<std::uint8_t>(bits >> 8);
    }
  }

  alignas(64) std::uint8_t lower[128] = {};
  alignas(64) std::uint8_t upper[128] = {};
};
inline constexpr E4M3Table kE4M3;

// As Codes8, of numbers of e4m3, none of which is a NaN: bits 0 to 6 of a number are looked up, and
// its sign is that of the bf16.
class CodesE4M3 {
 public:
  explicit CodesE4M3(const QuantisedArgs& args)
      : codes_(args.codes),
        lower_{_mm512_load_si512(kE4M3.lower), _mm512_load_si512(kE4M3.lower + 64)},
        upper_{_mm512_load_si512(kE4M3.upper), _mm512_load_si512(kE4M3.upper + 64)} {}

  void load(std::int64_t pair, __m512i& first, __m512i& last) const {
    const std::uint8_t* const from = codes_ + pair * kPairCodes;
    fetch_ahead(from);
    // Lanes get eight codes of the first 16 features and eight of the last 16.
    const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    const __m512i codes = _mm512_permutexvar_epi64(order, _mm512_loadu_si512(from));
    const __m512i lower = _mm512_permutex2var_epi8(lower_[0], codes, lower_[1]);
    constexpr int kOrAnd = 0xF8;  // a | (b & c)
    const __m512i upper =
        _mm512_ternarylogic_epi32(_mm512_permutex2var_epi8(upper_[0], codes, upper_[1]), codes,
                                  _mm512_set1_epi8(static_cast<char>(0x80)), kOrAnd);
    first = _mm512_unpacklo_epi8(lower, upper);
    last = _mm512_unpackhi_epi8(lower, upper);
  }

 private:
  const std::uint8_t* codes_;
  __m512i lower_[2], upper_[2];  // bytes of the numbers 0 to 63 and 64 to 127
};

class Codes4 {
 public:
  explicit Codes4(const QuantisedArgs& args)
      : codes_(args.codes),
        codebook_(_mm512_broadcast_i64x4(
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(args.codebook)))) {}

  void load(std::int64_t pair, __m512i& first, __m512i& last) const {
    const auto* const from = reinterpret_cast<const __m256i*>(codes_ + pair * kPanelColumns);
    fetch_ahead(from);
    const __m512i both = _mm512_cvtepu8_epi16(_mm256_loadu_si256(from));
    first = _mm512_permutexvar_epi16(both, codebook_);
    last = _mm512_permutexvar_epi16(_mm512_srli_epi16(both, 4), codebook_);
  }

 private:
  const std::uint8_t* codes_;
  __m512i codebook_;
};

// Reads four columns of 32 features of a group as two registers of 8-bit weights: the first and the
// last 16 features.
//
// step * code + base is computed two bytes at a time: step * code is at most 255, so the product of
// a 16-bit number with the step does not carry from its lower byte to the upper one.
class Codes4A8 {
 public:
  Codes4A8(const Integer4Args& args, const QuadGroup& group) : codes_(args.codes) {
    const std::uint8_t* const steps = args.steps + group.index * 2 * kPanelColumns;
    for (int half = 0; half < 2; ++half) {
      steps_[half] = _mm512_mullo_epi32(widen(steps + 16 * half), _mm512_set1_epi32(0x00010001));
      bases_[half] = _mm512_mullo_epi32(widen(steps + kPanelColumns + 16 * half),
                                        _mm512_set1_epi32(0x01010101));
    }
  }

  void load(std::int64_t quad, __m512i& first, __m512i& last) const {
    const __m512i low = _mm512_set1_epi8(15);
    const std::uint8_t* const from = codes_ + quad * 2 * kPanelColumns;
    fetch_ahead(from);
    const __m512i both = _mm512_loadu_si512(from);
    first = _mm512_and_si512(both, low);
    last = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
    first = _mm512_add_epi8(_mm512_mullo_epi16(first, steps_[0]), bases_[0]);
    last = _mm512_add_epi8(_mm512_mullo_epi16(last, steps_[1]), bases_[1]);
  }

 private:
  static __m512i widen(const std::uint8_t* bytes) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
  }

  const std::uint8_t* codes_;
  __m512i steps_[2];
  __m512i bases_[2];
};

}  // namespace
}  // namespace caption::kernels::cpu
