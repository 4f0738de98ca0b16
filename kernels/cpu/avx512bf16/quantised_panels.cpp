// Panels of quantised weights with AVX512-BF16, VBMI and VNNI.
//
// 8-bit codes become bf16 by two table lookups of their magnitude (the upper and the lower byte;
// every integer up to 127 is a bf16) and their sign: six instructions for 64 codes, so that one row
// of activations keeps pace with memory. 4-bit codes are looked up in a codebook of 32 numbers (16
// of them twice: the index may carry a fifth bit). With few rows codes are expanded in registers,
// pair by pair; with more, a group is expanded once into the first-level cache and all rows pass
// by. Both ways multiply and add the same numbers in the same order.
#include <immintrin.h>

#include "kernels/cpu/avx512bf16/codes.h"
#include "kernels/cpu/avx512bf16/panels.h"

namespace caption::kernels::cpu {
namespace {

// Rows whose sums leave registers enough for expanding codes beside them; and without.
constexpr std::int64_t kMaxDirectRows = 8;
constexpr std::int64_t kMaxTileRows = 12;

// A group that has been expanded.
class Expanded {
 public:
  Expanded(const std::uint16_t* values, std::int64_t first_pair)
      : values_(values - first_pair * kPairCodes) {}

  void load(std::int64_t pair, __m512i& first, __m512i& last) const {
    first = _mm512_load_si512(values_ + pair * kPairCodes);
    last = _mm512_load_si512(values_ + pair * kPairCodes + kPanelColumns);
  }

 private:
  const std::uint16_t* values_;
};

struct Group {
  std::int64_t index;
  std::int64_t first_pair, end_pair;
};

template <int kRows, class Weights>
void group_tile(const QuantisedArgs& args, const Group& group, std::int64_t m0,
                const Weights& weights) {
  __m512 sums[kRows][2];
  for (int i = 0; i < kRows; ++i) sums[i][0] = sums[i][1] = _mm512_setzero_ps();
  const std::uint16_t* const a = args.a + m0 * args.a_stride;
  for (std::int64_t pair = group.first_pair; pair < group.end_pair; ++pair) {
    __m512i first;
    __m512i last;
    weights.load(pair, first, last);
    for (int i = 0; i < kRows; ++i) {
      int two;
      __builtin_memcpy(&two, a + i * args.a_stride + 2 * pair, sizeof two);
      const auto both = reinterpret_cast<__m512bh>(_mm512_set1_epi32(two));
      sums[i][0] = _mm512_dpbf16_ps(sums[i][0], both, reinterpret_cast<__m512bh>(first));
      sums[i][1] = _mm512_dpbf16_ps(sums[i][1], both, reinterpret_cast<__m512bh>(last));
    }
  }
  for (int i = 0; i < kRows; ++i) add_group(args, group.index, m0 + i, sums[i][0], sums[i][1]);
}

template <class Weights>
void group_rows(const QuantisedArgs& args, const Group& group, std::int64_t m0, std::int64_t count,
                const Weights& weights) {
  switch (count) {
    case 1: return group_tile<1>(args, group, m0, weights);
    case 2: return group_tile<2>(args, group, m0, weights);
    case 3: return group_tile<3>(args, group, m0, weights);
    case 4: return group_tile<4>(args, group, m0, weights);
    case 5: return group_tile<5>(args, group, m0, weights);
    case 6: return group_tile<6>(args, group, m0, weights);
    case 7: return group_tile<7>(args, group, m0, weights);
    case 8: return group_tile<8>(args, group, m0, weights);
    case 9: return group_tile<9>(args, group, m0, weights);
    case 10: return group_tile<10>(args, group, m0, weights);
    case 11: return group_tile<11>(args, group, m0, weights);
    default: return group_tile<12>(args, group, m0, weights);
  }
}

// Expands a group once, then all rows in tiles of as equal a height as can be.
template <class Codes>
void expanded_group(const QuantisedArgs& args, const Group& group, const Codes& codes) {
  alignas(64) std::uint16_t values[kMaxGroupPairs * kPairCodes];
  for (std::int64_t pair = group.first_pair; pair < group.end_pair; ++pair) {
    __m512i first;
    __m512i last;
    codes.load(pair, first, last);
    std::uint16_t* const to = values + (pair - group.first_pair) * kPairCodes;
    _mm512_store_si512(to, first);
    _mm512_store_si512(to + kPanelColumns, last);
  }
  const Expanded expanded(values, group.first_pair);
  for (std::int64_t m = 0; m < args.m;) {
    const std::int64_t left = args.m - m;
    const std::int64_t tiles = (left + kMaxTileRows - 1) / kMaxTileRows;
    const std::int64_t count = (left + tiles - 1) / tiles;
    group_rows(args, group, m, count, expanded);
    m += count;
  }
}

template <class Codes>
void quantised_panel(const QuantisedArgs& args) {
  const Codes codes(args);
  Group group{};
  for (; group.first_pair < args.num_pairs; group.first_pair += args.group_pairs, ++group.index) {
    const std::int64_t end = group.first_pair + args.group_pairs;
    group.end_pair = end < args.num_pairs ? end : args.num_pairs;
    if (args.m <= kMaxDirectRows) {
      group_rows(args, group, 0, args.m, codes);
    } else {
      expanded_group(args, group, codes);
    }
  }
}

template <int kRows>
void integer_tile(const IntegerArgs& args, std::int64_t m0) {
  __m512i sums[kRows][2];
  for (int i = 0; i < kRows; ++i) sums[i][0] = sums[i][1] = _mm512_setzero_si512();
  const std::int8_t* const a = args.a + m0 * args.a_stride;
  for (std::int64_t quad = 0; quad < args.num_quads; ++quad) {
    const std::uint8_t* const from = args.panel + quad * 4 * kPanelColumns;
    const __m512i first = _mm512_loadu_si512(from);
    const __m512i last = _mm512_loadu_si512(from + 64);
    for (int i = 0; i < kRows; ++i) {
      int four;
      __builtin_memcpy(&four, a + i * args.a_stride + 4 * quad, sizeof four);
      const __m512i all = _mm512_set1_epi32(four);
      sums[i][0] = _mm512_dpbusd_epi32(sums[i][0], first, all);
      sums[i][1] = _mm512_dpbusd_epi32(sums[i][1], last, all);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    _mm512_storeu_si512(args.c + (m0 + i) * args.c_stride, sums[i][0]);
    _mm512_storeu_si512(args.c + (m0 + i) * args.c_stride + 16, sums[i][1]);
  }
}

void integer_rows(const IntegerArgs& args, std::int64_t m0, std::int64_t count) {
  switch (count) {
    case 1: return integer_tile<1>(args, m0);
    case 2: return integer_tile<2>(args, m0);
    case 3: return integer_tile<3>(args, m0);
    case 4: return integer_tile<4>(args, m0);
    case 5: return integer_tile<5>(args, m0);
    case 6: return integer_tile<6>(args, m0);
    case 7: return integer_tile<7>(args, m0);
    case 8: return integer_tile<8>(args, m0);
    case 9: return integer_tile<9>(args, m0);
    case 10: return integer_tile<10>(args, m0);
    case 11: return integer_tile<11>(args, m0);
    default: return integer_tile<12>(args, m0);
  }
}

}  // namespace

void panel8_avx512bf16(const QuantisedArgs& args) { quantised_panel<Codes8>(args); }

void panel4_avx512bf16(const QuantisedArgs& args) { quantised_panel<Codes4>(args); }

void panel8a8_avx512bf16(const IntegerArgs& args) {
  for (std::int64_t m = 0; m < args.m;) {
    const std::int64_t left = args.m - m;
    const std::int64_t tiles = (left + kMaxTileRows - 1) / kMaxTileRows;
    const std::int64_t count = (left + tiles - 1) / tiles;
    integer_rows(args, m, count);
    m += count;
  }
}

}  // namespace caption::kernels::cpu
