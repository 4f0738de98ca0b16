// Widening numbers of e4m3 to bf16, rounded by the instruction for it.
#include <immintrin.h>

#include "kernels/cpu/avx2/pack.h"
#include "kernels/cpu/avx512bf16/panels.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

constexpr std::int64_t kWidth = 32;

// Scales of smaller magnitudes may have subnormal products, which the instruction makes zero.
constexpr float kSmallestScale = 0x1p-117F;

// The bits of e4m3 are moved to those of f16, as in avx2/widen_e4m3.cpp: `scale` is 256 times the
// scale.
__m512i widen(__m256i codes, __m512 scale) {
  const __m512i words = _mm512_cvtepu8_epi16(codes);
  const __m512i magnitude =
      _mm512_and_si512(_mm512_slli_epi16(words, 7), _mm512_set1_epi16(0x3F80));
  constexpr int kOrAnd = 0xF8;  // a | (b & c)
  const __m512i halves =
      _mm512_ternarylogic_epi32(magnitude, _mm512_slli_epi16(words, 8),
                                _mm512_set1_epi16(static_cast<short>(0x8000)), kOrAnd);
  const __m512 first = _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
  const __m512 last = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1));
  return reinterpret_cast<__m512i>(
      _mm512_cvtne2ps_pbh(_mm512_mul_ps(last, scale), _mm512_mul_ps(first, scale)));
}

// Computes each number, one row after another.
bool widen_each(const E4M3Args& args) {
  const __m512 scale = _mm512_set1_ps(args.scale * 256.0F);
  const __m256i sign = _mm256_set1_epi8(static_cast<char>(0x80));
  __m256i largest = sign;
  for (std::int64_t row = 0; row < args.num_rows; ++row) {
    const std::uint8_t* const from = args.codes + row * args.code_stride;
    std::uint16_t* const to = args.to + row * args.to_stride;
    for (std::int64_t i = 0; i < args.n; i += kWidth) {
      const std::int64_t rest = args.n - i;
      const __mmask32 mask = rest < kWidth ? (1u << rest) - 1u : ~0u;
      const __m256i codes = _mm256_maskz_loadu_epi8(mask, from + i);
      largest = _mm256_max_epu8(largest, _mm256_or_si256(codes, sign));
      _mm512_mask_storeu_epi16(to + i, mask, widen(codes, scale));
    }
  }
  return _mm256_cmpeq_epi8_mask(largest, _mm256_set1_epi8(-1)) == 0;
}

constexpr std::int64_t kTableWidth = 64;

alignas(kTableWidth) constexpr std::uint8_t kCounting[kTableWidth] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
    22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
    44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};

// The products of all codes and a scale: bytes of those of the codes without a sign.
class Products {
 public:
  explicit Products(__m512 scale) {
    const __m256i first = _mm256_load_si256(reinterpret_cast<const __m256i*>(kCounting));
    const __m512i counting = _mm512_load_si512(kCounting);
    const __m512i lower_places = _mm512_add_epi8(counting, counting);
    const __m512i upper_places = _mm512_or_si512(lower_places, _mm512_set1_epi8(1));
    for (int i = 0; i < 2; ++i) {
      const __m256i codes = _mm256_add_epi8(first, _mm256_set1_epi8(static_cast<char>(64 * i)));
      const __m512i low = widen(codes, scale);
      const __m512i high = widen(_mm256_add_epi8(codes, _mm256_set1_epi8(kWidth)), scale);
      lower_[i] = _mm512_permutex2var_epi8(low, lower_places, high);
      upper_[i] = _mm512_permutex2var_epi8(low, upper_places, high);
    }
  }

  // The products of 64 codes: those of the first eight codes of each lane, and of the last eight.
  [[gnu::always_inline]] void of(__m512i codes, __m512i& first, __m512i& last) const {
    constexpr int kXorAnd = 0x78;  // a ^ (b & c)
    const __m512i lower = _mm512_permutex2var_epi8(lower_[0], codes, lower_[1]);
    const __m512i upper =
        _mm512_ternarylogic_epi32(_mm512_permutex2var_epi8(upper_[0], codes, upper_[1]), codes,
                                  _mm512_set1_epi8(static_cast<char>(0x80)), kXorAnd);
    first = _mm512_unpacklo_epi8(lower, upper);
    last = _mm512_unpackhi_epi8(lower, upper);
  }

 private:
  // The first of each holds products of the codes 0 to 63, the last those of 64 to 127.
  __m512i lower_[2], upper_[2];
};

// Looks the same numbers up.
bool widen_by_table(const E4M3Args& args) {
  const Products products(_mm512_set1_ps(args.scale * 256.0F));
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
  // Lanes get eight codes of the first 32 and eight of the last 32.
  const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
  __m512i largest = sign;
  for (std::int64_t row = 0; row < args.num_rows; ++row) {
    const std::uint8_t* const from = args.codes + row * args.code_stride;
    std::uint16_t* const to = args.to + row * args.to_stride;
    for (std::int64_t i = 0; i < args.n; i += kTableWidth) {
      const std::int64_t rest = args.n - i;
      const __mmask64 mask = rest < kTableWidth ? (__mmask64{1} << rest) - 1u : ~__mmask64{0};
      const __m512i codes = _mm512_maskz_loadu_epi8(mask, from + i);
      largest = _mm512_max_epu8(largest, _mm512_or_si512(codes, sign));
      __m512i first;
      __m512i last;
      products.of(_mm512_permutexvar_epi64(order, codes), first, last);
      _mm512_mask_storeu_epi16(to + i, static_cast<__mmask32>(mask), first);
      _mm512_mask_storeu_epi16(to + i + kWidth, static_cast<__mmask32>(mask >> kWidth), last);
    }
  }
  return _mm512_cmpeq_epi8_mask(largest, _mm512_set1_epi8(-1)) == 0;
}

}  // namespace

bool widen_e4m3_avx512bf16(const E4M3Args& args) {
  // Making a table takes as long as computing so many numbers.
  constexpr std::int64_t kNumbersOfTable = 256;
  const float magnitude = args.scale < 0 ? -args.scale : args.scale;
  if (!(magnitude >= kSmallestScale)) return widen_e4m3_avx2(args);
  const bool has_table = args.num_rows * args.n >= kNumbersOfTable;
  return has_table ? widen_by_table(args) : widen_each(args);
}

}  // namespace caption::kernels::cpu
