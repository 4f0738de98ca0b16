// The AVX-512 tier: 16 floats a register, 32 registers.
//
// dot() uses tiles of 6 x 4 sums (24 registers), 6 registers of activations and 1 of weights: 24
// multiply-adds per 10 loads, so that arithmetic and not the loads is the limit.
#include "kernels/cpu/tier.h"

#include <immintrin.h>

#include "kernels/cpu/avx2/pack.h"
#include "kernels/cpu/avx512/lanes.h"
#include "kernels/cpu/avx512/simd.h"
#include "kernels/cpu/internal/simd_attention.h"
#include "kernels/cpu/internal/simd_exp.h"
#include "kernels/cpu/internal/simd_gemm.h"
#include "kernels/cpu/internal/simd_integer_panels.h"
#include "kernels/cpu/internal/simd_nibble_panels.h"
#include "kernels/cpu/internal/simd_norm.h"
#include "kernels/cpu/internal/simd_outputs.h"
#include "kernels/cpu/internal/simd_panels.h"

namespace caption::kernels::cpu {
namespace {

// Rounds to nearest, ties to even; a NaN becomes a quiet NaN.
__m256i rounded_to_bf16(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i upper = _mm512_srli_epi32(bits, 16);
  const __m512i is_odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
  const __m512i nudge = _mm512_add_epi32(is_odd, _mm512_set1_epi32(0x7FFF));
  const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, nudge), 16);
  const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(
      _mm512_mask_or_epi32(rounded, is_nan, upper, _mm512_set1_epi32(0x40)));
}

void to_bf16(const float* x, std::uint16_t* y, std::int64_t n) {
  constexpr int kWidth = Avx512::kWidth;
  std::int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i),
                        rounded_to_bf16(Avx512::load_floats(x + i)));
  }
  const int rest = static_cast<int>(n - i);
  _mm256_mask_storeu_epi16(y + i, Avx512::first(rest),
                           rounded_to_bf16(Avx512::load_part_floats(x + i, rest)));
}

IntegerRow to_int8(const float* x, std::int8_t* codes, std::int64_t n) {
  constexpr int kWidth = Avx512::kWidth;
  const std::int64_t whole = n / kWidth * kWidth;
  const __mmask16 rest = Avx512::first(static_cast<int>(n - whole));
  // Compares as integers: the bits of magnitudes are ordered as their values, with NaN above all
  // others.
  const __m512i mask = _mm512_set1_epi32(0x7FFFFFFF);
  __m512i most = _mm512_and_si512(mask, _mm512_maskz_loadu_epi32(rest, x + whole));
  for (std::int64_t i = 0; i < whole; i += kWidth) {
    most = _mm512_max_epi32(most, _mm512_and_si512(mask, _mm512_loadu_si512(x + i)));
  }
  const std::int32_t bits = _mm512_reduce_max_epi32(most);
  if (bits >= kInfinityBits) {
    __builtin_memset(codes, 0, static_cast<std::size_t>(n));
    return {.scale = __builtin_nanf(""), .sum = 0};
  }
  float largest;
  __builtin_memcpy(&largest, &bits, sizeof largest);
  const __m512 inverse = _mm512_set1_ps(largest > kSmallestMagnitude ? 127.0F / largest : 0.0F);
  const __m512i last =
      _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_maskz_loadu_ps(rest, x + whole), inverse));
  _mm_mask_storeu_epi8(codes + whole, rest, _mm512_cvtepi32_epi8(last));
  __m512i sums = last;
  for (std::int64_t i = 0; i < whole; i += kWidth) {
    const __m512i code = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + i), inverse));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i), _mm512_cvtepi32_epi8(code));
    sums = _mm512_add_epi32(sums, code);
  }
  return {.scale = largest / 127.0F, .sum = _mm512_reduce_add_epi32(sums)};
}

constexpr Tier kTier = {.dot = {dot<Avx512, Element::kF32>, dot<Avx512, Element::kBF16>,
                                dot<Avx512, Element::kF16>, dot<Avx512, Element::kI8>},
                        .reads_tiled_rows = false,
                        .needs_code_sums = true,
                        .panel_gemm = panel_gemm_reference,
                        .panel8 = panel8<Avx512>,
                        .panel4 = panel4<Avx512>,
                        .panel_e4m3 = panel_e4m3<Avx512>,
                        .panel8a8 = panel8a8<Avx512>,
                        .panel4a8 = panel4a8<Avx512>,
                        .to_bf16 = to_bf16,
                        .round_numbers = round_numbers_avx2,
                        .pack_dwords = pack_dwords_avx2,
                        .pack_words = pack_words_avx2,
                        .pack_e4m3 = pack_e4m3_avx2,
                        .pack_nibbles = pack_nibbles_avx2,
                        .pack_nibble_quads = pack_nibble_quads_avx2,
                        .pack_words_of_columns = pack_words_of_columns_avx2,
                        .pack_words_of_rows = pack_words_of_rows_avx2,
                        .pack_ordered_words = pack_ordered_words_avx2,
                        .pack_blocks = pack_blocks_avx2,
                        .pack_scales = pack_scales_avx2,
                        .finish_packing = finish_packing_avx2,
                        .to_int8 = to_int8,
                        .scale_integers = scale_integers<Avx512>,
                        .add_bias = add_bias<Avx512>,
                        .rms_norm = rms_norm<Avx512>,
                        .layer_norm = layer_norm<Avx512>,
                        .rotate = rotate<Avx512>,
                        .exp_sum = exp_sum<Avx512>,
                        .swish = swish<Avx512>,
                        .gelu = gelu<Avx512>,
                        .gelu_tanh = gelu_tanh<Avx512>,
                        .attention = kAttentionTier<Avx512, Avx512Lanes>};

}  // namespace

const Tier& avx512_tier() { return kTier; }

}  // namespace caption::kernels::cpu
