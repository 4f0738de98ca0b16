// kernels/cpu/avx512bf16/codes.h: widening of 8-bit and 4-bit weight codes to bf16.
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
