// Widening numbers of e4m3 to bf16.
#include <immintrin.h>

#include "kernels/cpu/avx2/pack.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

constexpr std::int64_t kWidth = 16;

// Rounds to bf16, to nearest even, in the low halves of words. NaN is not for it.
__m256i round_to_bf16(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF));
  return _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
}

// The bits of e4m3, moved to those of f16 with the same fraction and exponent, are the number over
// 2^8, subnormals included, since the exponent's bias is 15 in place of 7. `scale` makes up for it,
// exactly.
__m256i widen(__m128i codes, __m256 scale) {
  const __m256i words = _mm256_cvtepu8_epi16(codes);
  const __m256i magnitude =
      _mm256_and_si256(_mm256_slli_epi16(words, 7), _mm256_set1_epi16(0x3F80));
  const __m256i sign =
      _mm256_and_si256(_mm256_slli_epi16(words, 8), _mm256_set1_epi16(static_cast<short>(0x8000)));
  const __m256i halves = _mm256_or_si256(magnitude, sign);
  const __m256 first = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
  const __m256 last = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
  const __m256i rounded = _mm256_packus_epi32(round_to_bf16(_mm256_mul_ps(first, scale)),
                                              round_to_bf16(_mm256_mul_ps(last, scale)));
  return _mm256_permute4x64_epi64(rounded, _MM_SHUFFLE(3, 1, 2, 0));
}

bool widen_row(const E4M3Args& args) {
  const __m256 scale = _mm256_set1_ps(args.scale * 256.0F);
  const __m128i nan = _mm_set1_epi8(0x7F);
  __m128i found = _mm_setzero_si128();
  std::int64_t i = 0;
  for (; i + kWidth <= args.n; i += kWidth) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(args.codes + i));
    found = _mm_or_si128(found, _mm_cmpeq_epi8(_mm_and_si128(codes, nan), nan));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(args.to + i), widen(codes, scale));
  }
  const bool is_rest_finite = widen_e4m3_reference(
      {.codes = args.codes + i, .scale = args.scale, .to = args.to + i, .n = args.n - i});
  return is_rest_finite && _mm_movemask_epi8(found) == 0;
}

}  // namespace

bool widen_e4m3_avx2(const E4M3Args& args) {
  bool is_number = true;
  for (std::int64_t row = 0; row < args.num_rows; ++row) {
    is_number &= widen_row({.codes = args.codes + row * args.code_stride,
                            .scale = args.scale,
                            .to = args.to + row * args.to_stride,
                            .n = args.n});
  }
  return is_number;
}

}  // namespace caption::kernels::cpu
