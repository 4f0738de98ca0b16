// The AVX2 tier: 8 floats a register, 16 registers.
//
// A tile of f32 products uses 6 x 2 registers of sums, 2 of weights and 1 of activations, or with
// few rows 3 x 4 of sums, 3 of activations and 1 of weights; a tile of integer products uses 5 x 2
// of sums, 4 of weights, 1 of activations and 1 of products, or with codes of 4 bits 6 x 2, 2, 1
// and 1.
#include "kernels/cpu/tier.h"

#include <immintrin.h>

#include "kernels/cpu/avx2/lanes.h"
#include "kernels/cpu/avx2/pack.h"
#include "kernels/cpu/avx2/simd.h"
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

void to_bf16(const float* x, std::uint16_t* y, std::int64_t n) {
  round_numbers_avx2(x, Element::kF32, y, n);
}

// Compares as integers: the bits of magnitudes are ordered as their values, with NaN above all
// others.
std::int32_t largest_magnitude(const float* x, std::int64_t n) {
  const __m256i mask = _mm256_set1_epi32(0x7FFFFFFF);
  __m256i largest = _mm256_setzero_si256();
  for (std::int64_t i = 0; i < n; i += Avx2::kWidth) {
    const __m256 some = n - i < Avx2::kWidth
                            ? Avx2::load_part_floats(x + i, static_cast<int>(n - i))
                            : Avx2::load_floats(x + i);
    largest = _mm256_max_epi32(largest, _mm256_and_si256(_mm256_castps_si256(some), mask));
  }
  __m128i four =
      _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, _MM_SHUFFLE(1, 0, 3, 2)));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, _MM_SHUFFLE(2, 3, 0, 1)));
  return _mm_cvtsi128_si32(four);
}

IntegerRow to_int8(const float* x, std::int8_t* codes, std::int64_t n) {
  const std::int32_t bits = largest_magnitude(x, n);
  if (bits >= kInfinityBits) {
    __builtin_memset(codes, 0, static_cast<std::size_t>(n));
    return {.scale = __builtin_nanf(""), .sum = 0};
  }
  float largest;
  __builtin_memcpy(&largest, &bits, sizeof largest);
  const __m256 inverse = _mm256_set1_ps(largest > kSmallestMagnitude ? 127.0F / largest : 0.0F);
  __m256i sums = _mm256_setzero_si256();
  const auto round = [&](__m256 some) {
    const __m256i code = _mm256_cvtps_epi32(_mm256_mul_ps(some, inverse));
    sums = _mm256_add_epi32(sums, code);
    const __m128i halves =
        _mm_packs_epi32(_mm256_castsi256_si128(code), _mm256_extracti128_si256(code, 1));
    return _mm_packs_epi16(halves, halves);
  };
  std::int64_t i = 0;
  for (; i + Avx2::kWidth <= n; i += Avx2::kWidth) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(codes + i), round(Avx2::load_floats(x + i)));
  }
  if (i < n) {
    const long long rest =
        _mm_cvtsi128_si64(round(Avx2::load_part_floats(x + i, static_cast<int>(n - i))));
    __builtin_memcpy(codes + i, &rest, static_cast<std::size_t>(n - i));
  }
  alignas(32) std::int32_t lanes[Avx2::kWidth];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sums);
  std::int32_t sum = 0;
  for (const std::int32_t lane : lanes) sum += lane;
  return {.scale = largest / 127.0F, .sum = sum};
}

constexpr Tier kTier = {.dot = {dot<Avx2, Element::kF32>, dot<Avx2, Element::kBF16>,
                                dot<Avx2, Element::kF16>, dot<Avx2, Element::kI8>},
                        .reads_tiled_rows = false,
                        .needs_code_sums = true,
                        .panel_gemm = panel_gemm_reference,
                        .panel8 = panel8<Avx2>,
                        .panel4 = panel4<Avx2>,
                        .panel_e4m3 = panel_e4m3<Avx2>,
                        .panel8a8 = panel8a8<Avx2>,
                        .panel4a8 = panel4a8<Avx2>,
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
                        .scale_integers = scale_integers<Avx2>,
                        .add_bias = add_bias<Avx2>,
                        .rms_norm = rms_norm<Avx2>,
                        .layer_norm = layer_norm<Avx2>,
                        .rotate = rotate<Avx2>,
                        .exp_sum = exp_sum<Avx2>,
                        .swish = swish<Avx2>,
                        .gelu = gelu<Avx2>,
                        .gelu_tanh = gelu_tanh<Avx2>,
                        .attention = kAttentionTier<Avx2, Avx2Lanes>};

}  // namespace

const Tier& avx2_tier() { return kTier; }

}  // namespace caption::kernels::cpu
