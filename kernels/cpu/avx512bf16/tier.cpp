// The AVX512-BF16 tier: the AVX-512 tier, and the product with panels of bf16 weights.
//
// A tile of 8 rows x 2 registers (the 32 features of a panel) uses 16 registers of sums, 2 of
// weights and 1 of activations, which a load broadcasts: 16 dot-product instructions on pairs per
// 10 loads. With at most 4 rows two panels are multiplied at a time, to have enough independent
// sums to hide the latency.
#include <immintrin.h>

#include "kernels/cpu/avx512bf16/panels.h"
#include "kernels/cpu/internal/fetch_ahead.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {
namespace {

constexpr std::int64_t kPairElements = 2 * kPanelColumns;
constexpr std::int64_t kMaxTileRows = 8;

// 32 weights, which stay in a register: the compiler would load them again for each row, and one
// load of 64 bytes per product takes as long as the product.
[[gnu::always_inline]] inline __m512bh load_weights(const std::uint16_t* from) {
  __m512i weights = _mm512_loadu_si512(from);
  asm("" : "+v"(weights));
  return reinterpret_cast<__m512bh>(weights);
}

// c[kRows, kPanels panels] (+)= sum over pairs of columns; each pair's two products are added
// first.
template <int kRows, int kPanels>
void tile(const PanelArgs& args, bool add, std::int64_t m0, std::int64_t panel) {
  constexpr int kRegisters = 2 * kPanels;
  __m512 sums[kRows][kRegisters];
  float* const c = args.c + m0 * args.c_stride + panel * kPanelColumns;
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kRegisters; ++j) {
      sums[i][j] = add ? _mm512_loadu_ps(c + i * args.c_stride + j * 16) : _mm512_setzero_ps();
    }
  }
  const std::uint16_t* const a = args.a + m0 * args.a_stride;
  const std::int64_t panel_elements = args.num_pairs * kPairElements;
  const std::uint16_t* const b = args.panels + panel * panel_elements;
  const std::int64_t ahead = far_ahead_bytes(args.m > kMaxTileRows);
  for (std::int64_t pair = 0; pair < args.num_pairs; ++pair) {
    __m512bh weights[kRegisters];
#pragma GCC unroll 4
    for (int j = 0; j < kRegisters; ++j) {
      const std::uint16_t* const from =
          b + (j / 2) * panel_elements + pair * kPairElements + (j % 2) * kPanelColumns;
      if constexpr (kRows >= kFarAheadRows) fetch_far_ahead(from, ahead);
      weights[j] = load_weights(from);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      int two;
      __builtin_memcpy(&two, a + i * args.a_stride + 2 * pair, sizeof two);
      const __m512bh both = reinterpret_cast<__m512bh>(_mm512_set1_epi32(two));
#pragma GCC unroll 4
      for (int j = 0; j < kRegisters; ++j) {
        sums[i][j] = _mm512_dpbf16_ps(sums[i][j], both, weights[j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kRegisters; ++j) {
      _mm512_storeu_ps(c + i * args.c_stride + j * 16, sums[i][j]);
    }
  }
}

template <int kPanels>
void rows(const PanelArgs& args, bool add, std::int64_t m0, std::int64_t count,
          std::int64_t panel) {
  switch (count) {
    case 1: return tile<1, kPanels>(args, add, m0, panel);
    case 2: return tile<2, kPanels>(args, add, m0, panel);
    case 3: return tile<3, kPanels>(args, add, m0, panel);
    case 4: return tile<4, kPanels>(args, add, m0, panel);
    case 5: return tile<5, kPanels>(args, add, m0, panel);
    case 6: return tile<6, kPanels>(args, add, m0, panel);
    default: break;
  }
  if constexpr (kPanels == 1) {
    switch (count) {
      case 7: return tile<7, 1>(args, add, m0, panel);
      default: return tile<8, 1>(args, add, m0, panel);
    }
  }
}

// Rounds to nearest, ties to even; subnormals become zero, as in the dot-product instruction.
void to_bf16(const float* x, std::uint16_t* y, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_loadu_ps(x + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), reinterpret_cast<__m256i>(rounded));
  }
  if (i < n) {
    const auto rest = static_cast<__mmask16>((1u << (n - i)) - 1u);
    const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(rest, x + i));
    _mm256_mask_storeu_epi16(y + i, rest, reinterpret_cast<__m256i>(rounded));
  }
}

Tier make_tier() {
  Tier tier = avx512_tier();
  tier.panel_gemm = [](const PanelArgs& args) { panel_gemm_avx512bf16(args, false); };
  tier.panel8 = panel8_avx512bf16;
  tier.panel_e4m3 = panel_e4m3_avx512bf16;
  tier.panel4 = panel4_avx512bf16;
  tier.panel8a8 = panel8a8_avx512bf16;
  tier.panel4a8 = panel4a8_avx512bf16;
  tier.needs_code_sums = false;
  tier.to_bf16 = to_bf16;
  tier.attention = attention_avx512bf16(tier.attention);
  tier.attention.query_panels = query_panels_avx512bf16();
  return tier;
}

}  // namespace

// Tiles are nearly equal in height: for 12 rows, 6 + 6 is faster than 8 + 4.
void panel_gemm_avx512bf16(const PanelArgs& args, bool add) {
  std::int64_t panel = 0;
  if (args.m <= 4) {
    for (; panel + 2 <= args.num_panels; panel += 2) rows<2>(args, add, 0, args.m, panel);
  }
  for (; panel < args.num_panels; ++panel) {
    for (std::int64_t m = 0; m < args.m;) {
      const std::int64_t left = args.m - m;
      const std::int64_t tiles = (left + kMaxTileRows - 1) / kMaxTileRows;
      const std::int64_t count = (left + tiles - 1) / tiles;
      rows<1>(args, add, m, count, panel);
      m += count;
    }
  }
}

const Tier& avx512bf16_tier() {
  static const Tier kTier = make_tier();
  return kTier;
}

}  // namespace caption::kernels::cpu
