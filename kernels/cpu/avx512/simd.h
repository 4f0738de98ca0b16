// kernels/cpu/avx512/simd.h: the registers of AVX-512 for the templates over the register width
// (kernels/cpu/internal/simd_gemm.h).
//
// Only for files of the tiers whose CPUs have AVX-512 F, BW, DQ, VL. The namespace without a name
// gives each of them its own instances of the templates.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

struct Avx512 {
  using Register = __m512;
  static constexpr int kWidth = 16;
  static constexpr int kTileRows = 6;
  static constexpr int kPanelRows = 8;
  static constexpr int kIntegerRows = 8;
  static constexpr int kNibbleRows = 8;

  static __mmask16 first(int count) { return static_cast<__mmask16>((1u << count) - 1u); }

  static Register zero() { return _mm512_setzero_ps(); }
  static Register broadcast(float x) { return _mm512_set1_ps(x); }
  static Register load_floats(const float* x) { return _mm512_loadu_ps(x); }
  // Lanes from `count` on are zero; nothing is read from x + count on.
  static Register load_part_floats(const float* x, int count) {
    return _mm512_maskz_loadu_ps(first(count), x);
  }
  static void store(float* y, Register x) { _mm512_storeu_ps(y, x); }
  static void store_part(float* y, Register x, int count) {
    _mm512_mask_storeu_ps(y, first(count), x);
  }

  static Register widen_i8(__m128i bytes) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
  }
  static Register widen_bf16(__m256i bits) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }

  template <Element element>
  static Register load(const void* x, std::int64_t at) {
    if constexpr (element == Element::kF32) {
      return load_floats(static_cast<const float*>(x) + at);
    } else if constexpr (element == Element::kI8) {
      const auto* const bytes = static_cast<const std::int8_t*>(x) + at;
      return widen_i8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
    } else {
      const auto* const halves = static_cast<const std::uint16_t*>(x) + at;
      const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves));
      if constexpr (element == Element::kBF16) return widen_bf16(bits);
      return _mm512_cvtph_ps(bits);
    }
  }

  // Prefetches into the second-level cache.
  template <Element element>
  static void prefetch(const void* x, std::int64_t at) {
    constexpr std::int64_t kBytes = element == Element::kF32 ? 4 : element == Element::kI8 ? 1 : 2;
    _mm_prefetch(static_cast<const char*>(x) + at * kBytes, _MM_HINT_T1);
  }

  template <Element element>
  static Register load_part(const void* x, std::int64_t at, int count) {
    if constexpr (element == Element::kF32) {
      return load_part_floats(static_cast<const float*>(x) + at, count);
    } else if constexpr (element == Element::kI8) {
      return widen_i8(_mm_maskz_loadu_epi8(first(count), static_cast<const std::int8_t*>(x) + at));
    } else {
      const __m256i bits =
          _mm256_maskz_loadu_epi16(first(count), static_cast<const std::uint16_t*>(x) + at);
      if constexpr (element == Element::kBF16) return widen_bf16(bits);
      return _mm512_cvtph_ps(bits);
    }
  }

  // Splits 16 pairs of 8-bit codes into even and odd codes, as f32.
  static void widen_i8_pairs(const std::uint8_t* codes, Register& even, Register& odd) {
    const __m512i both =
        _mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)));
    even = _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(both, 24), 24));
    odd = _mm512_cvtepi32_ps(_mm512_srai_epi32(both, 8));
  }
  // Numbers of e4m3 (tensor/e4m3.h), as in avx2/simd.h.
  static void widen_e4m3_pairs(const std::uint8_t* codes, Register& even, Register& odd) {
    const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
    // Each half holds its even columns, then its odd ones; then the whole does.
    const __m256i of_halves =
        _mm256_shuffle_epi8(both, _mm256_broadcastsi128_si256(_mm_setr_epi8(
                                      0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15)));
    const __m512i words =
        _mm512_slli_epi16(_mm512_cvtepi8_epi16(_mm256_permute4x64_epi64(of_halves, 0xD8)), 7);
    const __m512i halves = _mm512_and_si512(words, _mm512_set1_epi16(static_cast<short>(0xBF80)));
    const Register scale = broadcast(256.0F);
    even = multiply(_mm512_cvtph_ps(_mm512_castsi512_si256(halves)), scale);
    odd = multiply(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1)), scale);
  }
  // A codebook of 16 bf16 numbers. The 16-entry table is stored twice, so bit 4 of the index is
  // ignored.
  struct Codebook {
    explicit Codebook(const std::uint16_t* numbers) {
      if (numbers == nullptr) return;
      twice = _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(numbers)));
    }
    // All 32 features of a pair of columns: the low nibbles of its bytes, then the high nibbles.
    void look_up(const std::uint8_t* codes, Register (&even)[2], Register (&odd)[2]) const {
      const __m512i bytes =
          _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)));
      split(_mm512_permutexvar_epi16(bytes, twice), even[0], odd[0]);
      split(_mm512_permutexvar_epi16(_mm512_srli_epi16(bytes, 4), twice), even[1], odd[1]);
    }
    // Splits 16 pairs of bf16 into even and odd numbers, as f32.
    static void split(__m512i pairs, Register& even, Register& odd) {
      even = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
      odd = _mm512_castsi512_ps(
          _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xFFFF0000u))));
    }
    __m512i twice;
  };

  // Returns x[i] - offset as floats.
  static Register load_integers(const std::int32_t* x, std::int32_t offset) {
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_loadu_si512(x), _mm512_set1_epi32(offset)));
  }

  using Integers = __m512i;
  static Integers zero_integers() { return _mm512_setzero_si512(); }
  static Integers load_bits(const void* x) { return _mm512_loadu_si512(x); }
  static void store_integers(std::int32_t* y, Integers x) { _mm512_storeu_si512(y, x); }
  static Integers add_integers(Integers x, Integers y) { return _mm512_add_epi32(x, y); }
  // Widens kWidth bytes to lanes of 32 bits.
  static Integers widen_u8(const std::uint8_t* x) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
  }
  // The even and odd bytes, widened to lanes of 16 bits.
  static Integers even_bytes(Integers x) { return _mm512_and_si512(x, _mm512_set1_epi16(0xFF)); }
  static Integers odd_bytes(Integers x) { return _mm512_srli_epi16(x, 8); }
  static Integers low_nibbles(Integers x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
  static Integers high_nibbles(Integers x) {
    return _mm512_and_si512(_mm512_srli_epi16(x, 4), _mm512_set1_epi8(15));
  }
  // Writes the even numbers of x to `even` and the odd ones to `odd`; `count` is a multiple of 4.
  static void widen_i8(const std::int8_t* x, std::int64_t count, std::int16_t* even,
                       std::int16_t* odd) {
    for (std::int64_t i = 0; i < count; i += 64) {
      const std::int64_t left = count - i;
      const auto some = left < 64 ? (__mmask64{1} << left) - 1u : ~__mmask64{0};
      const auto halves = left < 64 ? (__mmask32{1} << (left / 2)) - 1u : ~__mmask32{0};
      const __m512i bytes = _mm512_maskz_loadu_epi8(some, x + i);
      _mm512_mask_storeu_epi16(even + i / 2, halves,
                               _mm512_srai_epi16(_mm512_slli_epi16(bytes, 8), 8));
      _mm512_mask_storeu_epi16(odd + i / 2, halves, _mm512_srai_epi16(bytes, 8));
    }
  }
  // Repeats four bytes.
  static Integers broadcast_bytes(const void* x) {
    int four;
    __builtin_memcpy(&four, x, sizeof four);
    return _mm512_set1_epi32(four);
  }
  // Lanes of 32 bits whose lower half is x and whose upper half is zero.
  static Integers broadcast_word(std::int16_t x) {
    return _mm512_set1_epi32(static_cast<std::uint16_t>(x));
  }
  // Returns lanes of 32 bits: the lower half is that of x, whose upper half must be zero, and the
  // upper half is the lower half of y.
  static Integers pair_words(Integers x, Integers y) {
    return _mm512_or_si512(x, _mm512_slli_epi32(y, 16));
  }
  // Return z + the sums of adjacent products: 16-bit numbers give lanes of 32 bits, and unsigned
  // times signed bytes lanes of 16. The empty asm statement keeps the addition in place: GCC 12
  // otherwise computes all products of a tile before adding them, and runs out of registers.
  static Integers multiply_add_pairs(Integers x, Integers y, Integers z) {
    Integers sum = _mm512_add_epi32(z, _mm512_madd_epi16(x, y));
    __asm__("" : "+v"(sum));
    return sum;
  }
  static Integers multiply_add_bytes(Integers x, Integers y, Integers z) {
    Integers sum = _mm512_add_epi16(z, _mm512_maddubs_epi16(x, y));
    __asm__("" : "+v"(sum));
    return sum;
  }
  // Returns multiply_add_bytes(x, y, z) of z = 0.
  static Integers multiply_bytes(Integers x, Integers y) {
    Integers sum = _mm512_maddubs_epi16(x, y);
    __asm__("" : "+v"(sum));
    return sum;
  }
  // The sums of multiply_add_bytes() times the steps, kWidth bytes. With codes of 4 bits kSafeQuads
  // products fit into 16 bits: 8 * 2 * 15 * 128 < 2^15.
  static constexpr std::int64_t kSafeQuads = 8;
  static Integers load_steps(const std::uint8_t* x) {
    const Integers wide = widen_u8(x);
    return pair_words(wide, wide);
  }
  static Integers multiply_add_steps(Integers sums, Integers steps, Integers z) {
    return multiply_add_pairs(sums, steps, z);
  }

  // Keeps x, which is used several times, in a register: GCC 12 otherwise reloads it from memory.
  static Register in_register(Register x) {
    __asm__("" : "+v"(x));
    return x;
  }
  static Register add(Register x, Register y) { return _mm512_add_ps(x, y); }
  static Register subtract(Register x, Register y) { return _mm512_sub_ps(x, y); }
  static Register multiply(Register x, Register y) { return _mm512_mul_ps(x, y); }
  static Register divide(Register x, Register y) { return _mm512_div_ps(x, y); }
  static Register multiply_add(Register x, Register y, Register z) {
    return _mm512_fmadd_ps(x, y, z);
  }
  // NaN stays NaN: minimum and maximum return their second operand when the first is NaN.
  static Register clamp(Register x, float low, float high) {
    return _mm512_min_ps(broadcast(high), _mm512_max_ps(broadcast(low), x));
  }
  static Register round(Register x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static Register scale(Register x, Register power) { return _mm512_scalef_ps(x, power); }

  // All sums use the same reduction tree: halves, then quarters, then adjacent lanes.
  static __m128 fold(Register x) {
    const __m256 low = _mm512_castps512_ps256(x);
    const __m256 high = _mm512_extractf32x8_ps(x, 1);
    const __m256 eight = _mm256_add_ps(low, high);
    return _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  }
  static void store_four_sums(Register x0, Register x1, Register x2, Register x3, float* y) {
    const __m128 pairs01 = _mm_hadd_ps(fold(x0), fold(x1));
    const __m128 pairs23 = _mm_hadd_ps(fold(x2), fold(x3));
    _mm_storeu_ps(y, _mm_hadd_ps(pairs01, pairs23));
  }
  static float sum(Register x) {
    const __m128 pairs = _mm_hadd_ps(fold(x), fold(x));
    return _mm_cvtss_f32(_mm_hadd_ps(pairs, pairs));
  }
};

}  // namespace
}  // namespace caption::kernels::cpu
