// Products of a few rows with keys and values as they lie in their pages. What panels gain when
// many rows pass by, their writing and reading back costs when few do: here the transposed
// registers are multiplied where they stand.
//
// Numerics  an element is the sum that panel_gemm makes of it: over the pairs in their order.
#include "kernels/cpu/avx512bf16/page_rows.h"
#include "kernels/cpu/avx512bf16/panels.h"

namespace caption::kernels::cpu {
namespace {

// A pair of a row's elements, to every lane.
__m512bh broadcast_pair(const std::uint16_t* pair) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, pair, sizeof(bits));
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(bits)));
}

void multiply_add(__m512& sum, __m512bh a, __m512i b) {
  sum = _mm512_dpbf16_ps(sum, a, reinterpret_cast<__m512bh>(b));
}

// The scores of kRows queries with 32 keys from `first` on. A sum is a chain of dependent
// instructions; those of two times 16 keys hide each other's latency.
template <class Rows, int kRows>
void score_keys(const FewRowsArgs& args, std::int64_t first) {
  const std::int64_t row_bytes = args.pages.dim * Rows::kBytes;
  const SixteenRows left(args.pages, first, row_bytes);
  const SixteenRows right(args.pages, first + kLanes, row_bytes);
  __m512 sums[kRows][2];
#pragma GCC unroll 4
  for (int m = 0; m < kRows; ++m) sums[m][0] = sums[m][1] = _mm512_setzero_ps();
  const std::int64_t num_pairs = (args.pages.dim + 1) / 2;
  const auto add = [&](const SixteenRows& keys, std::int64_t first_pair, int side) {
    __m512i pairs[Rows::kStepPairs];
    Rows::load_pairs(keys, args.pages.dim, 2 * first_pair, pairs);
#pragma GCC unroll 32
    for (int i = 0; i < Rows::kStepPairs; ++i) {
      const std::int64_t pair = first_pair + i;
      if (pair >= num_pairs) break;
#pragma GCC unroll 4
      for (int m = 0; m < kRows; ++m) {
        multiply_add(sums[m][side], broadcast_pair(args.a + m * args.a_stride + 2 * pair),
                     pairs[i]);
      }
    }
  };
  for (std::int64_t first_pair = 0; first_pair < num_pairs; first_pair += Rows::kStepPairs) {
    add(left, first_pair, 0);
    add(right, first_pair, 1);
  }
#pragma GCC unroll 4
  for (int m = 0; m < kRows; ++m) {
    float* const to = args.c + m * args.c_stride + first;
    _mm512_storeu_ps(to, sums[m][0]);
    _mm512_storeu_ps(to + kLanes, sums[m][1]);
  }
}

template <class Rows, int kRows>
void score_rows(const FewRowsArgs& args) {
  for (std::int64_t j = 0; j < args.pages.count; j += 2 * kLanes) {
    score_keys<Rows, kRows>(args, j);
  }
}

// 64 dimensions from `d` on of kRows sums over the values.
template <class Rows, int kRows>
void weigh_dimensions(const FewRowsArgs& args, std::int64_t d) {
  const PackArgs& pages = args.pages;
  __m512 sums[kRows][4];
#pragma GCC unroll 16
  for (int i = 0; i < 4 * kRows; ++i) sums[i / 4][i % 4] = _mm512_setzero_ps();
  const auto add = [&](std::int64_t j, const __m512i(&pairs)[4]) {
#pragma GCC unroll 4
    for (int m = 0; m < kRows; ++m) {
      const __m512bh weights = broadcast_pair(args.a + m * args.a_stride + j);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) multiply_add(sums[m][i], weights, pairs[i]);
    }
  };
  const std::int64_t left = pages.dim - d;
  constexpr std::int64_t kAskEvery = 8;  // values
  const std::int64_t lines = kAskEvery * Rows::kBytes * (left < 64 ? left : 64) / 64;
  for (std::int64_t j = 0; j < pages.count; j += 2) {
    if (j % kAskEvery == 0 && pages.upcoming != nullptr) ask_for(*pages.upcoming, lines);
    __m512i pairs[4] = {};
    load_value_pairs<Rows>(pages, j, d, pairs);
    add(j, pairs);
  }
#pragma GCC unroll 4
  for (int m = 0; m < kRows; ++m) {
    float* const to = args.c + m * args.c_stride + d;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      if (i * kLanes < left) _mm512_storeu_ps(to + i * kLanes, sums[m][i]);
    }
  }
}

template <class Rows, int kRows>
void weigh_rows(const FewRowsArgs& args) {
  for (std::int64_t d = 0; d < args.pages.dim; d += 4 * kLanes) {
    weigh_dimensions<Rows, kRows>(args, d);
  }
}

template <class Rows>
void score(const FewRowsArgs& args) {
  static_assert(kMaxDirectRows == 4);
  switch (args.m) {
    case 1: return score_rows<Rows, 1>(args);
    case 2: return score_rows<Rows, 2>(args);
    case 3: return score_rows<Rows, 3>(args);
    default: return score_rows<Rows, 4>(args);
  }
}

template <class Rows>
void weigh(const FewRowsArgs& args) {
  switch (args.m) {
    case 1: return weigh_rows<Rows, 1>(args);
    case 2: return weigh_rows<Rows, 2>(args);
    case 3: return weigh_rows<Rows, 3>(args);
    default: return weigh_rows<Rows, 4>(args);
  }
}

}  // namespace

AttentionTier few_rows_avx512bf16(AttentionTier tier) {
  PagePacker& bf16 = tier.pack[static_cast<int>(Element::kBF16)];
  bf16.score = score<Bf16Rows>;
  bf16.weigh = weigh<Bf16Rows>;
  PagePacker& i8 = tier.pack[static_cast<int>(Element::kI8)];
  i8.score = score<Int8Rows>;
  i8.weigh = weigh<Int8Rows>;
  return tier;
}

}  // namespace caption::kernels::cpu
