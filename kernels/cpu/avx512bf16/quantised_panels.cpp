// Panels of quantised weights with AVX512-BF16 and VNNI.
//
// Codes are widened to bf16 in registers, one pair of columns at a time: 8-bit codes by way of f32,
// 4-bit codes by a look-up in a table of 32 numbers (the 16-entry codebook stored twice, so that
// bit 4 of the index is ignored). The bytes of e4m3 numbers are looked up in two tables of 128.
// With one row the widening is as fast as memory delivers codes; with eight rows it overlaps with
// the dot products.
#include <immintrin.h>

#include "kernels/cpu/avx512/simd.h"
#include "kernels/cpu/avx512bf16/codes.h"
#include "kernels/cpu/avx512bf16/panels.h"
#include "kernels/cpu/internal/fetch_ahead.h"
#include "kernels/cpu/internal/group_scales.h"
#include "kernels/cpu/internal/quad_groups.h"

namespace caption::kernels::cpu {
namespace {

// Maximum rows of a tile: with more rows the compiler spills registers.
constexpr std::int64_t kMaxTileRows = 8;

constexpr std::int64_t kQuadBytes = 4 * kPanelColumns;  // bytes of a quad of 8-bit weights

struct Group {
  std::int64_t index;
  std::int64_t first_pair, end_pair;
};

template <Element kScales, int kRows, class Codes>
void group_tile(const QuantisedArgs& args, const Group& group, std::int64_t m0,
                const Codes& codes) {
  __m512 sums[kRows][2];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) sums[i][0] = sums[i][1] = _mm512_setzero_ps();
  const std::uint16_t* const a = args.a + m0 * args.a_stride;
  for (std::int64_t pair = group.first_pair; pair < group.end_pair; ++pair) {
    __m512i first;
    __m512i last;
    codes.load(pair, first, last);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      int two;
      __builtin_memcpy(&two, a + i * args.a_stride + 2 * pair, sizeof two);
      const auto both = reinterpret_cast<__m512bh>(_mm512_set1_epi32(two));
      sums[i][0] = _mm512_dpbf16_ps(sums[i][0], both, reinterpret_cast<__m512bh>(first));
      sums[i][1] = _mm512_dpbf16_ps(sums[i][1], both, reinterpret_cast<__m512bh>(last));
    }
  }
  constexpr Element kRead = kReadScales<kScales>;
  alignas(64) float scales[kPanelColumns];
  alignas(64) float offsets[kPanelColumns];
  const GroupNumbers numbers{scales_of<Avx512, kScales>(args, group.index, scales),
                             offsets_of<Avx512, kScales>(args, group.index, offsets)};
  if (numbers.offsets == nullptr) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      add_group<Avx512, kRead, false>(args, {group.index, m0 + i, 0}, sums[i][0], sums[i][1],
                                      numbers);
    }
    return;
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    add_group<Avx512, kRead, true>(args, {group.index, m0 + i, 0}, sums[i][0], sums[i][1], numbers);
  }
}

template <Element kScales, class Codes>
void group_rows(const QuantisedArgs& args, const Group& group, std::int64_t m0, std::int64_t count,
                const Codes& codes) {
  switch (count) {
    case 1: return group_tile<kScales, 1>(args, group, m0, codes);
    case 2: return group_tile<kScales, 2>(args, group, m0, codes);
    case 3: return group_tile<kScales, 3>(args, group, m0, codes);
    case 4: return group_tile<kScales, 4>(args, group, m0, codes);
    case 5: return group_tile<kScales, 5>(args, group, m0, codes);
    case 6: return group_tile<kScales, 6>(args, group, m0, codes);
    case 7: return group_tile<kScales, 7>(args, group, m0, codes);
    default: return group_tile<kScales, 8>(args, group, m0, codes);
  }
}

// Returns the height of the next tile when rows_left rows remain: tiles are nearly equal in height
// and have at most kMaxTileRows rows.
std::int64_t next_height(std::int64_t rows_left) {
  const std::int64_t tiles = (rows_left + kMaxTileRows - 1) / kMaxTileRows;
  return (rows_left + tiles - 1) / tiles;
}

template <class Codes, Element kScales>
void quantised_panel(const QuantisedArgs& args) {
  const Codes codes(args);
  for (std::int64_t m = 0; m < args.m;) {
    const std::int64_t count = next_height(args.m - m);
    Group group{};
    for (; group.first_pair < args.num_pairs; group.first_pair += args.group_pairs, ++group.index) {
      const std::int64_t end = group.first_pair + args.group_pairs;
      group.end_pair = end < args.num_pairs ? end : args.num_pairs;
      group_rows<kScales>(args, group, m, count, codes);
    }
    m += count;
  }
}

template <class Codes>
void quantised_panel(const QuantisedArgs& args) {
  call_with_scales<Avx512>(
      args, [&](auto scales) { quantised_panel<Codes, decltype(scales)::kValue>(args); });
}

// Calls use(quad, first, last) with the 8-bit weights of every four columns: the first and the last
// 16 features.
template <int kRows, class Use>
void for_each_quad(const IntegerArgs& args, const Use& use) {
  const std::int64_t ahead = far_ahead_bytes(args.m > kMaxTileRows);
  for (std::int64_t quad = 0; quad < args.num_quads; ++quad) {
    const std::uint8_t* const from = args.panel + quad * kQuadBytes;
    if constexpr (kRows >= kFarAheadRows) {
      fetch_far_ahead(from, ahead);
      fetch_far_ahead(from + 64, ahead);
    }
    use(quad, _mm512_loadu_si512(from), _mm512_loadu_si512(from + 64));
  }
}

// Weights in the first-level cache.
struct WidenedArgs : IntegerArgs {};

template <int kRows, class Use>
void for_each_quad(const WidenedArgs& args, const Use& use) {
  for (std::int64_t quad = 0; quad < args.num_quads; ++quad) {
    const std::uint8_t* const from = args.panel + quad * kQuadBytes;
    use(quad, _mm512_loadu_si512(from), _mm512_loadu_si512(from + 64));
  }
}

template <int kRows, class Use>
void for_each_quad(const Integer4Args& args, const Use& use) {
  for_each_quad_group(args, [&](const QuadGroup& group) {
    const Codes4A8 codes(args, group);
    for (std::int64_t quad = group.first_quad; quad < group.end_quad; ++quad) {
      __m512i first;
      __m512i last;
      codes.load(quad, first, last);
      use(quad, first, last);
    }
  });
}

// Codes whose weights of 8 bits are also written to `widened` [num_quads, kQuadBytes].
struct WideningArgs : Integer4Args {
  std::uint8_t* widened = nullptr;
};

template <int kRows, class Use>
void for_each_quad(const WideningArgs& args, const Use& use) {
  const Integer4Args& codes = args;
  for_each_quad<kRows>(codes, [&](std::int64_t quad, __m512i first, __m512i last) {
    std::uint8_t* const to = args.widened + quad * kQuadBytes;
    _mm512_storeu_si512(to, first);
    _mm512_storeu_si512(to + 64, last);
    use(quad, first, last);
  });
}

// c (+)= the product of kRows rows.
template <int kRows, class Args>
void integer_tile(const Args& args, std::int64_t m0, bool add) {
  __m512i sums[kRows][2];
  std::int32_t* const c = args.c + m0 * args.c_stride;
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    sums[i][0] = add ? _mm512_loadu_si512(c + i * args.c_stride) : _mm512_setzero_si512();
    sums[i][1] = add ? _mm512_loadu_si512(c + i * args.c_stride + 16) : _mm512_setzero_si512();
  }
  const std::int8_t* const a = args.a + m0 * args.a_stride;
  for_each_quad<kRows>(args, [&](std::int64_t quad, __m512i first, __m512i last) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      int four;
      __builtin_memcpy(&four, a + i * args.a_stride + 4 * quad, sizeof four);
      const __m512i all = _mm512_set1_epi32(four);
      sums[i][0] = _mm512_dpbusd_epi32(sums[i][0], first, all);
      sums[i][1] = _mm512_dpbusd_epi32(sums[i][1], last, all);
    }
  });
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    _mm512_storeu_si512(c + i * args.c_stride, sums[i][0]);
    _mm512_storeu_si512(c + i * args.c_stride + 16, sums[i][1]);
  }
}

template <class Args>
void integer_rows(const Args& args, std::int64_t m0, std::int64_t count, bool add) {
  switch (count) {
    case 1: return integer_tile<1>(args, m0, add);
    case 2: return integer_tile<2>(args, m0, add);
    case 3: return integer_tile<3>(args, m0, add);
    case 4: return integer_tile<4>(args, m0, add);
    case 5: return integer_tile<5>(args, m0, add);
    case 6: return integer_tile<6>(args, m0, add);
    case 7: return integer_tile<7>(args, m0, add);
    default: return integer_tile<8>(args, m0, add);
  }
}

// Multiplies the rows from m0 on.
template <class Args>
void integer_panel(const Args& args, std::int64_t m0, bool add) {
  for (std::int64_t m = m0; m < args.m;) {
    const std::int64_t count = next_height(args.m - m);
    integer_rows(args, m, count, add);
    m += count;
  }
}

// The quads [first, first + count), which begin with a group.
Integer4Args part_of(const Integer4Args& args, std::int64_t first, std::int64_t count) {
  Integer4Args part = args;
  part.a += 4 * first;
  part.codes += first * 2 * kPanelColumns;
  part.steps += first / args.group_quads * 2 * kPanelColumns;
  part.num_quads = count;
  return part;
}

// Several tiles of rows: the first one widens the codes while it multiplies, the others read the
// weights from the first-level cache. To widen all codes before the first tile takes longer, since
// nothing is multiplied meanwhile.
void widened_panel(const Integer4Args& args) {
  constexpr std::int64_t kWidenedQuads = 128;
  static_assert(kWidenedQuads >= kMaxGroupQuads);
  alignas(64) std::uint8_t widened[kWidenedQuads * kQuadBytes];
  const std::int64_t most = kWidenedQuads / args.group_quads * args.group_quads;
  const std::int64_t height = next_height(args.m);
  for (std::int64_t first = 0; first < args.num_quads; first += most) {
    const std::int64_t left = args.num_quads - first;
    const Integer4Args part = part_of(args, first, left < most ? left : most);
    integer_rows(WideningArgs{part, widened}, 0, height, first > 0);
    integer_panel(WidenedArgs{{.a = part.a,
                               .a_stride = part.a_stride,
                               .panel = widened,
                               .num_quads = part.num_quads,
                               .c = part.c,
                               .c_stride = part.c_stride,
                               .m = part.m}},
                  height, first > 0);
  }
}

}  // namespace

void panel8_avx512bf16(const QuantisedArgs& args) { quantised_panel<Codes8>(args); }

void panel4_avx512bf16(const QuantisedArgs& args) { quantised_panel<Codes4>(args); }

void panel_e4m3_avx512bf16(const QuantisedArgs& args) { quantised_panel<CodesE4M3>(args); }

void panel8a8_avx512bf16(const IntegerArgs& args) { integer_panel(args, 0, false); }

void panel4a8_avx512bf16(const Integer4Args& args) {
  if (args.m > kMaxTileRows) return widened_panel(args);
  integer_panel(args, 0, false);
}

}  // namespace caption::kernels::cpu
