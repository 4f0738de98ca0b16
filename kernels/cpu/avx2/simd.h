// kernels/cpu/avx2/simd.h: the registers of AVX2 for the templates over the register width
// (kernels/cpu/internal/simd_gemm.h).
//
// Only for files that are compiled for CPUs with AVX2, FMA and F16C. The namespace without a name
// gives each of them its own instances of the templates.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

struct Avx2 {
  using Register = __m256;
  static constexpr int kWidth = 8;
  static constexpr int kTileRows = 6;
  static constexpr int kPanelRows = 3;
  static constexpr int kIntegerRows = 5;
  static constexpr int kNibbleRows = 6;

  static __m256i first(int count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }

  static Register zero() { return _mm256_setzero_ps(); }
  static Register broadcast(float x) { return _mm256_set1_ps(x); }
  static Register load_floats(const float* x) { return _mm256_loadu_ps(x); }
  // Lanes from `count` on are zero; nothing is read from x + count on.
  static Register load_part_floats(const float* x, int count) {
    return _mm256_maskload_ps(x, first(count));
  }
  static void store(float* y, Register x) { _mm256_storeu_ps(y, x); }
  static void store_part(float* y, Register x, int count) {
    _mm256_maskstore_ps(y, first(count), x);
  }

  static Register widen_i8(__m128i bytes) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  }
  static Register widen_bf16(__m128i bits) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }

  template <Element element>
  static Register load(const void* x, std::int64_t at) {
    if constexpr (element == Element::kF32) {
      return load_floats(static_cast<const float*>(x) + at);
    } else if constexpr (element == Element::kI8) {
      const auto* const bytes = static_cast<const std::int8_t*>(x) + at;
      return widen_i8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)));
    } else {
      const auto* const halves = static_cast<const std::uint16_t*>(x) + at;
      const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(halves));
      if constexpr (element == Element::kBF16) return widen_bf16(bits);
      return _mm256_cvtph_ps(bits);
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
      alignas(8) std::int8_t padded[kWidth] = {};
      for (int i = 0; i < count; ++i) padded[i] = static_cast<const std::int8_t*>(x)[at + i];
      return load<element>(padded, 0);
    } else {
      // AVX2 has no masked load of elements smaller than 32 bits.
      alignas(16) std::uint16_t padded[kWidth] = {};
      for (int i = 0; i < count; ++i) padded[i] = static_cast<const std::uint16_t*>(x)[at + i];
      return load<element>(padded, 0);
    }
  }

  // Splits 8 pairs of 8-bit codes into even and odd codes, as f32.
  static void widen_i8_pairs(const std::uint8_t* codes, Register& even, Register& odd) {
    const __m256i both =
        _mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
    even = _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(both, 24), 24));
    odd = _mm256_cvtepi32_ps(_mm256_srai_epi32(both, 8));
  }
  // Numbers of e4m3 (tensor/e4m3.h). The f16 whose bits they become is 2^-8 of the number, also
  // where that is subnormal. Extending the sign and shifting puts it at bits 15 and 14, of which
  // the latter is cleared.
  static void widen_e4m3_pairs(const std::uint8_t* codes, Register& even, Register& odd) {
    const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
    const __m128i evens_then_odds =
        _mm_shuffle_epi8(both, _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
    const __m256i words = _mm256_slli_epi16(_mm256_cvtepi8_epi16(evens_then_odds), 7);
    const __m256i halves = _mm256_and_si256(words, _mm256_set1_epi16(static_cast<short>(0xBF80)));
    const Register scale = broadcast(256.0F);
    even = multiply(_mm256_cvtph_ps(_mm256_castsi256_si128(halves)), scale);
    odd = multiply(_mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)), scale);
  }
  // A codebook of 16 bf16 numbers; their lower and upper bytes are separate tables for pshufb.
  struct Codebook {
    explicit Codebook(const std::uint16_t* numbers) {
      if (numbers == nullptr) return;
      alignas(16) std::uint8_t lower_bytes[16];
      alignas(16) std::uint8_t upper_bytes[16];
      for (int i = 0; i < 16; ++i) {
        lower_bytes[i] = static_cast<std::uint8_t>(numbers[i] & 0xFFu);
        upper_bytes[i] = static_cast<std::uint8_t>(numbers[i] >> 8u);
      }
      lower = _mm256_broadcastsi128_si256(
          _mm_load_si128(reinterpret_cast<const __m128i*>(lower_bytes)));
      upper = _mm256_broadcastsi128_si256(
          _mm_load_si128(reinterpret_cast<const __m128i*>(upper_bytes)));
    }
    // The low nibbles of the 32 bytes are the codes of the first 16 features of a pair of columns,
    // the high nibbles those of the last 16 features.
    void look_up(const std::uint8_t* codes, Register (&even)[4], Register (&odd)[4]) const {
      const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
      // Reorders the quarters to 0 2 1 3, because unpacking works within 128-bit lanes: the
      // features then come out in order.
      const __m256i quarters = _mm256_permute4x64_epi64(bytes, _MM_SHUFFLE(3, 1, 2, 0));
      look_up_16(quarters, even, odd);
      look_up_16(_mm256_srli_epi16(quarters, 4), even + 2, odd + 2);
    }
    void look_up_16(__m256i codes, Register* even, Register* odd) const {
      const __m256i index = _mm256_and_si256(codes, _mm256_set1_epi8(15));
      const __m256i low = _mm256_shuffle_epi8(lower, index);
      const __m256i high = _mm256_shuffle_epi8(upper, index);
      split(_mm256_unpacklo_epi8(low, high), even[0], odd[0]);
      split(_mm256_unpackhi_epi8(low, high), even[1], odd[1]);
    }
    // Splits 8 pairs of bf16 into even and odd numbers, as f32.
    static void split(__m256i pairs, Register& even, Register& odd) {
      even = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
      odd = _mm256_castsi256_ps(
          _mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xFFFF0000u))));
    }
    __m256i lower, upper;
  };

  // Codes of 4 bits that stand for integers from -8 (kIsSigned) or 0 on. A word of 32 bits holds
  // the codes of two features and of the features 16 after them, of both columns of a pair
  // (panel4_position). Codes are converted where they stand in the word, or at its top, as powers
  // of 2 times their integers, so the registers of a column hold even and odd features apart: 0 the
  // features 0, 2, ..., 14, 1 those from 16 on, 2 and 3 the odd ones.
  template <bool kIsSigned>
  struct WordCodes {
    // sums += x[c] * codes of column c, for both columns of a pair.
    static void add_pair(const std::uint8_t* codes, const float* x, Register (&sums)[4]) {
      __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
      // code - 8 in two's complement.
      if (kIsSigned) words = _mm256_xor_si256(words, _mm256_set1_epi8(static_cast<char>(0x88)));
#pragma GCC unroll 2
      for (int c = 0; c < 2; ++c) {
        const Register activation = _mm256_broadcast_ss(x + c);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          sums[j] = _mm256_fmadd_ps(activation, convert(words, 8 * c, kPlaces[j]), sums[j]);
        }
      }
    }
    // Removes the powers of 2, and orders sums by features.
    static void settle(Register (&sums)[4]) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const float power = 1.0F / static_cast<float>(1 << (kIsSigned ? 28 : kPlaces[j]));
        sums[j] = _mm256_mul_ps(sums[j], _mm256_set1_ps(power));
      }
      const Register even[2] = {sums[0], sums[1]};
      const Register odd[2] = {sums[2], sums[3]};
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        const Register low = _mm256_unpacklo_ps(even[j], odd[j]);
        const Register high = _mm256_unpackhi_ps(even[j], odd[j]);
        sums[2 * j] = _mm256_permute2f128_ps(low, high, 0x20);
        sums[2 * j + 1] = _mm256_permute2f128_ps(low, high, 0x31);
      }
    }

   private:
    static constexpr int kPlaces[4] = {0, 4, 16, 20};  // first bits of column 0
    static Register convert(__m256i words, int column_bits, int place) {
      if (kIsSigned) {
        const __m256i at_top = _mm256_slli_epi32(words, 28 - column_bits - place);
        return _mm256_cvtepi32_ps(
            _mm256_and_si256(at_top, _mm256_set1_epi32(static_cast<int>(0xF0000000u))));
      }
      return _mm256_cvtepi32_ps(
          _mm256_and_si256(_mm256_srli_epi32(words, column_bits), _mm256_set1_epi32(15 << place)));
    }
  };

  // Returns x[i] - offset as floats.
  static Register load_integers(const std::int32_t* x, std::int32_t offset) {
    const __m256i some = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(some, _mm256_set1_epi32(offset)));
  }

  using Integers = __m256i;
  static Integers zero_integers() { return _mm256_setzero_si256(); }
  static Integers load_bits(const void* x) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(x));
  }
  static void store_integers(std::int32_t* y, Integers x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), x);
  }
  static Integers add_integers(Integers x, Integers y) { return _mm256_add_epi32(x, y); }
  // Widens kWidth bytes to lanes of 32 bits.
  static Integers widen_u8(const std::uint8_t* x) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(x)));
  }
  // The even and odd bytes, widened to lanes of 16 bits.
  static Integers even_bytes(Integers x) { return _mm256_and_si256(x, _mm256_set1_epi16(0xFF)); }
  static Integers odd_bytes(Integers x) { return _mm256_srli_epi16(x, 8); }
  static Integers low_nibbles(Integers x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
  static Integers high_nibbles(Integers x) {
    return _mm256_and_si256(_mm256_srli_epi16(x, 4), _mm256_set1_epi8(15));
  }
  // Writes the even numbers of x to `even` and the odd ones to `odd`; `count` is a multiple of 4.
  static void widen_i8(const std::int8_t* x, std::int64_t count, std::int16_t* even,
                       std::int16_t* odd) {
    std::int64_t i = 0;
    for (; i + 32 <= count; i += 32) {
      const Integers bytes = load_bits(x + i);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(even + i / 2),
                          _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(odd + i / 2), _mm256_srai_epi16(bytes, 8));
    }
    for (; i < count; i += 2) {
      even[i / 2] = x[i];
      odd[i / 2] = x[i + 1];
    }
  }
  // Repeats four bytes.
  static Integers broadcast_bytes(const void* x) {
    int four;
    __builtin_memcpy(&four, x, sizeof four);
    return _mm256_set1_epi32(four);
  }
  // Lanes of 32 bits whose lower half is x and whose upper half is zero.
  static Integers broadcast_word(std::int16_t x) {
    return _mm256_set1_epi32(static_cast<std::uint16_t>(x));
  }
  // Returns lanes of 32 bits: the lower half is that of x, whose upper half must be zero, and the
  // upper half is the lower half of y.
  static Integers pair_words(Integers x, Integers y) {
    return _mm256_or_si256(x, _mm256_slli_epi32(y, 16));
  }
  // Return z + the sums of adjacent products: 16-bit numbers give lanes of 32 bits, and unsigned
  // times signed bytes lanes of 16. The empty asm statement keeps the addition in place: GCC 12
  // otherwise computes all products of a tile before adding them, and runs out of registers.
  static Integers multiply_add_pairs(Integers x, Integers y, Integers z) {
    Integers sum = _mm256_add_epi32(z, _mm256_madd_epi16(x, y));
    __asm__("" : "+x"(sum));
    return sum;
  }
  static Integers multiply_add_bytes(Integers x, Integers y, Integers z) {
    Integers sum = _mm256_add_epi16(z, _mm256_maddubs_epi16(x, y));
    __asm__("" : "+x"(sum));
    return sum;
  }
  // Returns multiply_add_bytes(x, y, z) of z = 0.
  static Integers multiply_bytes(Integers x, Integers y) {
    Integers sum = _mm256_maddubs_epi16(x, y);
    __asm__("" : "+x"(sum));
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
    __asm__("" : "+x"(x));
    return x;
  }
  static Register add(Register x, Register y) { return _mm256_add_ps(x, y); }
  static Register subtract(Register x, Register y) { return _mm256_sub_ps(x, y); }
  static Register multiply(Register x, Register y) { return _mm256_mul_ps(x, y); }
  static Register divide(Register x, Register y) { return _mm256_div_ps(x, y); }
  static Register multiply_add(Register x, Register y, Register z) {
    return _mm256_fmadd_ps(x, y, z);
  }
  // NaN stays NaN: minimum and maximum return their second operand when the first is NaN.
  static Register clamp(Register x, float low, float high) {
    return _mm256_min_ps(broadcast(high), _mm256_max_ps(broadcast(low), x));
  }
  static Register round(Register x) {
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  // x * 2^power in two steps, so that each power of two is a normal number: |power| may be up to
  // 252.
  static Register scale(Register x, Register power) {
    const __m256i n = _mm256_cvtps_epi32(power);
    const __m256i half = _mm256_srai_epi32(n, 1);
    return multiply(multiply(x, power_of_two(half)), power_of_two(_mm256_sub_epi32(n, half)));
  }
  static Register power_of_two(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
  }

  // All sums use the same reduction tree: the two halves first, then adjacent lanes.
  static __m128 fold(Register x) {
    return _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
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
