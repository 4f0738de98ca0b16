// kernels/cpu/avx512bf16/column_softmax.h: QueryPanelTier::attend_block as a template over the two
// products, and the softmax of the columns of a block of scores.
//
// Softmax   per 16 scores 1 maximum, 1 multiply-add, 1 reduction to a fraction, 4 multiply-adds of
//           the polynomial, 1 scaling, 1 addition, and 2 instructions that round to bf16 and pair
//           the probabilities of two keys.
// Numerics  the exponent is one multiply-add of the score. A column's reference is its maximum, so
//           the largest probability is 1, which bf16 holds exactly. (With references that rise only
//           after a certain excess, sums are rescaled less often, which is 12 % faster, but rows
//           that one key dominates have up to 6 times the error.) Each column is computed
//           independently.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/query_panel_tier.h"

namespace caption::kernels::cpu {
namespace {

constexpr std::int64_t kLanes = 16;

// x - floor(x)
inline __m512 fraction(__m512 x) {
  return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

// 2^x = 2^floor(x) * 2^r with 0 <= r <= 1. The polynomial interpolates 2^r at 0 and 1 and otherwise
// minimises the largest relative error, 2^-18.1, which is 1/1100 of the error of rounding to bf16.
// A result below the range of binary32 is 0, that of NaN is NaN.
inline __m512 exp2(__m512 x) {
  const __m512 r = fraction(x);
  __m512 p = _mm512_set1_ps(0.013555747456848621F);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.05203237012028694F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.2413797676563263F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.6930321455001831F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F));
  return _mm512_scalef_ps(p, x);
}

// The same with an error of at most 4 * 2^-24, of which the polynomial has 2^-23.2.
inline __m512 precise_exp2(__m512 x) {
  const __m512 r = fraction(x);
  __m512 p = _mm512_set1_ps(0.001879318617284298F);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.008990994654595852F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.05581867694854736F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.240159273147583F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.6931517124176025F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F));
  return _mm512_scalef_ps(p, x);
}

// Rounds the probabilities of two keys to bf16 and interleaves them: even[0], odd[0], even[1], ...
inline __m512i to_pairs(__m512 even, __m512 odd) {
  const __m512i order =
      _mm512_set_epi32(0x001F000F, 0x001E000E, 0x001D000D, 0x001C000C, 0x001B000B, 0x001A000A,
                       0x00190009, 0x00180008, 0x00170007, 0x00160006, 0x00150005, 0x00140004,
                       0x00130003, 0x00120002, 0x00110001, 0x00100000);
  const __m512bh both = _mm512_cvtne2ps_pbh(odd, even);
  return _mm512_permutexvar_epi16(order, reinterpret_cast<__m512i>(both));
}

// Returns the maxima of 16 columns; NaN is skipped.
inline __m512 column_maxima(const float* scores, std::int64_t count) {
  const __m512 lowest = _mm512_set1_ps(-__builtin_inff());
  __m512 largest[4] = {lowest, lowest, lowest, lowest};
  std::int64_t j = 0;
  for (; j + 4 <= count; j += 4) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      largest[i] = _mm512_max_ps(_mm512_loadu_ps(scores + (j + i) * kPanelQueries), largest[i]);
    }
  }
  for (; j < count; ++j) {
    largest[0] = _mm512_max_ps(_mm512_loadu_ps(scores + j * kPanelQueries), largest[0]);
  }
  return _mm512_max_ps(_mm512_max_ps(largest[0], largest[1]),
                       _mm512_max_ps(largest[2], largest[3]));
}

struct ColumnScores {
  const float* scores;  // [count, 32]
  std::int64_t count;
  float scale;  // factor that turns scores into powers of 2
};

// Raises references to the largest scaled scores of the columns.
// Returns whether one rises; `factors` then holds what earlier sums are to be multiplied by.
inline bool raise_references(const ColumnScores& block, ColumnState& state, __m512 (&factors)[2]) {
  const __m512 one = _mm512_set1_ps(1.0F);
  bool any = false;
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const std::int64_t column = half * kLanes;
    const __m512 before = _mm512_loadu_ps(state.reference + column);
    const __m512 maxima = _mm512_mul_ps(column_maxima(block.scores + column, block.count),
                                        _mm512_set1_ps(block.scale));
    const __mmask16 rises = _mm512_cmp_ps_mask(maxima, before, _CMP_GT_OQ);
    factors[half] = _mm512_mask_mov_ps(one, rises, precise_exp2(_mm512_sub_ps(before, maxima)));
    if (rises == 0) continue;
    any = true;
    _mm512_mask_storeu_ps(state.reference + column, rises, maxima);
    const __m512 sum = _mm512_loadu_ps(state.sum + column);
    _mm512_storeu_ps(state.sum + column, _mm512_mul_ps(sum, factors[half]));
  }
  return any;
}

// The probabilities of 16 columns, key by key.
struct ColumnPowers {
  ColumnPowers(const ColumnScores& block, const ColumnState& state, std::int64_t column)
      : scores(block.scores + column),
        scale(_mm512_set1_ps(block.scale)),
        reference(_mm512_loadu_ps(state.reference + column)),
        sum(_mm512_loadu_ps(state.sum + column)) {}

  __m512 next(std::int64_t key) {
    const __m512 score = _mm512_loadu_ps(scores + key * kPanelQueries);
    const __m512 power = exp2(_mm512_fmsub_ps(score, scale, reference));
    sum = _mm512_add_ps(sum, power);
    return power;
  }

  const float* scores;
  __m512 scale, reference, sum;
};

// Writes the probabilities [ceil(count / 2), 32, 2], with zeros up to the next multiple of 32 keys,
// and adds each probability to the sum of its query.
inline void write_probabilities(const ColumnScores& block, ColumnState& state, std::uint16_t* to) {
  ColumnPowers left(block, state, 0);
  ColumnPowers right(block, state, kLanes);
  const auto store = [&](std::int64_t pair, __m512i left_pairs, __m512i right_pairs) {
    _mm512_storeu_si512(to + pair * 2 * kPanelQueries, left_pairs);
    _mm512_storeu_si512(to + pair * 2 * kPanelQueries + 2 * kLanes, right_pairs);
  };
  std::int64_t pair = 0;
  for (; 2 * pair + 2 <= block.count; ++pair) {
    const __m512 left_even = left.next(2 * pair);
    const __m512 right_even = right.next(2 * pair);
    const __m512 left_odd = left.next(2 * pair + 1);
    const __m512 right_odd = right.next(2 * pair + 1);
    store(pair, to_pairs(left_even, left_odd), to_pairs(right_even, right_odd));
  }
  if (2 * pair < block.count) {
    const __m512 none = _mm512_setzero_ps();
    store(pair, to_pairs(left.next(2 * pair), none), to_pairs(right.next(2 * pair), none));
    ++pair;
  }
  for (; pair % kLanes != 0; ++pair) store(pair, _mm512_setzero_si512(), _mm512_setzero_si512());
  _mm512_storeu_ps(state.sum, left.sum);
  _mm512_storeu_ps(state.sum + kLanes, right.sum);
}

inline void rescale(float* outputs, const __m512 (&factors)[2], std::int64_t dim) {
  for (std::int64_t d = 0; d < dim; ++d) {
    float* const row = outputs + d * kPanelQueries;
    _mm512_storeu_ps(row, _mm512_mul_ps(_mm512_loadu_ps(row), factors[0]));
    _mm512_storeu_ps(row + kLanes, _mm512_mul_ps(_mm512_loadu_ps(row + kLanes), factors[1]));
  }
}

// `Products` is constructed from args and has
//   multiply_keys(queries)                  args.scores = keys * queries
//   multiply_values(outputs)                outputs (+)= values * args.probabilities
template <class Products>
void attend_block(const PanelBlockArgs& args) {
  constexpr float kLog2E = 1.44269504088896341F;
  const std::int64_t rows =
      (args.dim + kPanelRowMultiple - 1) / kPanelRowMultiple * kPanelRowMultiple;
  const ColumnScores block{
      .scores = args.scores, .count = args.count, .scale = args.scale * kLog2E};
  Products products(args);
  for (std::int64_t panel = 0; panel < args.num_panels; ++panel) {
    ColumnState& state = args.states[panel];
    float* const outputs = args.outputs + panel * rows * kPanelQueries;
    products.multiply_keys(args.queries + panel * args.depth * kPanelQueries);
    __m512 factors[2];
    const bool rises = raise_references(block, state, factors);
    if (rises && !args.is_first) rescale(outputs, factors, args.dim);
    write_probabilities(block, state, args.probabilities);
    products.multiply_values(outputs);
  }
}

}  // namespace
}  // namespace caption::kernels::cpu
