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

__mmask32 find_nan(__m256i codes) {
  const __m256i nan = _mm256_set1_epi8(0x7F);
  return _mm256_cmpeq_epi8_mask(_mm256_and_si256(codes, nan), nan);
}

}  // namespace

bool widen_e4m3_avx512bf16(const E4M3Args& args) {
  const float magnitude = args.scale < 0 ? -args.scale : args.scale;
  if (!(magnitude >= kSmallestScale)) return widen_e4m3_avx2(args);
  const __m512 scale = _mm512_set1_ps(args.scale * 256.0F);
  __mmask32 found = 0;
  std::int64_t i = 0;
  for (; i + kWidth <= args.n; i += kWidth) {
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(args.codes + i));
    found |= find_nan(codes);
    _mm512_storeu_si512(args.to + i, widen(codes, scale));
  }
  if (i < args.n) {
    const auto rest = static_cast<__mmask32>((1u << (args.n - i)) - 1u);
    const __m256i codes = _mm256_maskz_loadu_epi8(rest, args.codes + i);
    found |= find_nan(codes);
    _mm512_mask_storeu_epi16(args.to + i, rest, widen(codes, scale));
  }
  return found == 0;
}

}  // namespace caption::kernels::cpu
