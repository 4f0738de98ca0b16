// Rounding numbers of f32 and f16 to bf16.
#include <immintrin.h>

#include "kernels/cpu/avx2/pack.h"
#include "kernels/cpu/avx2/simd.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

constexpr std::int64_t kWidth = 2 * Avx2::kWidth;

// To nearest, ties to even, in the low halves of words; a NaN becomes a quiet NaN.
[[gnu::always_inline]] inline __m256i rounded_words(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i upper = _mm256_srli_epi32(bits, 16);
  const __m256i is_odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  const __m256i nudge = _mm256_add_epi32(is_odd, _mm256_set1_epi32(0x7FFF));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, nudge), 16);
  const __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, quiet, is_nan);
}

// Numbers [at, at + kWidth).
template <Element element>
[[gnu::always_inline]] inline void round_step(const void* x, std::int64_t at, std::uint16_t* y) {
  const __m256i first = rounded_words(Avx2::load<element>(x, at));
  const __m256i last = rounded_words(Avx2::load<element>(x, at + Avx2::kWidth));
  const __m256i halves =
      _mm256_permute4x64_epi64(_mm256_packus_epi32(first, last), _MM_SHUFFLE(3, 1, 2, 0));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), halves);
}

template <Element element>
void round_all(const void* x, std::uint16_t* y, std::int64_t n) {
  constexpr std::int64_t kBytes = element == Element::kF32 ? 4 : 2;
  std::int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) round_step<element>(x, i, y + i);
  round_numbers_reference(static_cast<const char*>(x) + i * kBytes, element, y + i, n - i);
}

}  // namespace

void round_numbers_avx2(const void* x, Element element, std::uint16_t* y, std::int64_t n) {
  if (element == Element::kF16) return round_all<Element::kF16>(x, y, n);
  round_all<Element::kF32>(x, y, n);
}

}  // namespace caption::kernels::cpu
