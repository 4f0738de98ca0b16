// Packs queries, keys and values for attention of panels of queries, and writes its outputs.
#include <immintrin.h>

#include "kernels/cpu/avx512/lanes.h"
#include "kernels/cpu/avx512bf16/column_softmax.h"
#include "kernels/cpu/avx512bf16/panels.h"

namespace caption::kernels::cpu {
namespace {

constexpr std::int64_t kPairElements = 2 * kPanelQueries;

__mmask16 first_lanes(std::int64_t count) {
  return count >= kLanes ? __mmask16{0xFFFF} : static_cast<__mmask16>((1U << count) - 1U);
}

// Interleaves the first or, with `half` 1, the last 16 elements of two rows of 32.
__m512i interleave(__m512i even, __m512i odd, int half) {
  const __m512i order = _mm512_add_epi16(
      _mm512_set_epi32(0x002F000F, 0x002E000E, 0x002D000D, 0x002C000C, 0x002B000B, 0x002A000A,
                       0x00290009, 0x00280008, 0x00270007, 0x00260006, 0x00250005, 0x00240004,
                       0x00230003, 0x00220002, 0x00210001, 0x00200000),
      _mm512_set1_epi16(static_cast<short>(16 * half)));
  return _mm512_permutex2var_epi16(even, order, odd);
}

// Loads up to 32 bf16, `left` of which exist; the others are zeros.
__m512i load_halves(const std::uint16_t* from, std::int64_t left) {
  if (left >= 32) return _mm512_loadu_si512(from);
  if (left <= 0) return _mm512_setzero_si512();
  return _mm512_maskz_loadu_epi16((__mmask32{1} << left) - 1U, from);
}

// 32 dimensions of a query, rounded to bf16.
__m512i round_query(const float* q, std::int64_t left) {
  const __m512 low = _mm512_maskz_loadu_ps(first_lanes(left), q);
  const __m512 high = left <= kLanes
                          ? _mm512_setzero_ps()
                          : _mm512_maskz_loadu_ps(first_lanes(left - kLanes), q + kLanes);
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

void pack_queries(const PackQueriesArgs& args) {
  const std::int64_t num_pairs = args.depth / 2;
  for (std::int64_t m = 0; m < kPanelQueries; m += kLanes) {
    for (std::int64_t pair = 0; pair < num_pairs; pair += kLanes) {
      const std::int64_t left = args.dim - 2 * pair;
      __m512i pairs[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        const bool exists = m + i < args.count && left > 0;
        pairs[i] = exists ? round_query(args.q + (m + i) * args.q_stride + 2 * pair, left)
                          : _mm512_setzero_si512();
      }
      transpose_dwords(pairs);
      const std::int64_t count = num_pairs - pair < kLanes ? num_pairs - pair : kLanes;
      std::uint16_t* const to = args.panel + pair * kPairElements + 2 * m;
      for (std::int64_t i = 0; i < count; ++i)
        _mm512_storeu_si512(to + i * kPairElements, pairs[i]);
    }
  }
}

void pack_keys(const PackRowsArgs& args) {
  for (std::int64_t j = 0; j < args.count; ++j) {
    const std::uint16_t* const from = args.from + j * args.from_stride;
    std::uint16_t* const to = args.to + j * args.depth;
    for (std::int64_t d = 0; d < args.depth; d += 32) {
      const __m512i row = load_halves(from + d, args.dim - d);
      if (args.depth - d >= 32) {
        _mm512_storeu_si512(to + d, row);
      } else {
        _mm512_mask_storeu_epi16(to + d, (__mmask32{1} << (args.depth - d)) - 1U, row);
      }
    }
  }
}

// Transposes 32 keys, of which `count` exist, by 32 dimensions, of which `dim` exist.
void transpose_values(const PackRowsArgs& args, std::int64_t first, std::int64_t d) {
  const std::int64_t count = args.count - first;
  __m512i low[16];
  __m512i high[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    const std::uint16_t* const from = args.from + (first + 2 * i) * args.from_stride + d;
    const __m512i even = 2 * i < count ? load_halves(from, args.dim - d) : _mm512_setzero_si512();
    const __m512i odd = 2 * i + 1 < count ? load_halves(from + args.from_stride, args.dim - d)
                                          : _mm512_setzero_si512();
    low[i] = interleave(even, odd, 0);
    high[i] = interleave(even, odd, 1);
  }
  transpose_dwords(low);
  transpose_dwords(high);
  std::uint16_t* const to = args.to + d * kPanelValueStride + first;
  for (std::int64_t i = 0; i < kLanes && d + i < args.dim; ++i) {
    _mm512_storeu_si512(to + i * kPanelValueStride, low[i]);
  }
  for (std::int64_t i = 0; i < kLanes && d + kLanes + i < args.dim; ++i) {
    _mm512_storeu_si512(to + (kLanes + i) * kPanelValueStride, high[i]);
  }
}

void pack_values(const PackRowsArgs& args) {
  for (std::int64_t first = 0; first < args.count; first += 32) {
    for (std::int64_t d = 0; d < args.dim; d += 32) transpose_values(args, first, d);
  }
}

// Products on this tier's panel_gemm.
class PanelProducts {
 public:
  explicit PanelProducts(const PanelBlockArgs& args) : args_(args) {}
  void multiply_keys(const std::uint16_t* queries) const {
    panel_gemm_avx512bf16({.a = args_.keys,
                           .a_stride = args_.depth,
                           .panels = queries,
                           .num_pairs = args_.depth / 2,
                           .num_panels = 1,
                           .c = args_.scores,
                           .c_stride = kPanelQueries,
                           .m = args_.count},
                          false);
  }
  void multiply_values(float* outputs) const {
    panel_gemm_avx512bf16({.a = args_.values,
                           .a_stride = kPanelValueStride,
                           .panels = args_.probabilities,
                           .num_pairs = (args_.count + 1) / 2,
                           .num_panels = 1,
                           .c = outputs,
                           .c_stride = kPanelQueries,
                           .m = args_.dim},
                          !args_.is_first);
  }

 private:
  const PanelBlockArgs& args_;
};

void write_outputs(const WriteOutputsArgs& args) {
  for (std::int64_t m = 0; m < args.count; m += kLanes) {
    const __m512 sums = _mm512_loadu_ps(args.sums + m);
    for (std::int64_t d = 0; d < args.dim; d += kLanes) {
      __m512 rows[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        const float* const from = args.outputs + (d + i) * kPanelQueries + m;
        rows[i] =
            d + i < args.dim ? _mm512_div_ps(_mm512_loadu_ps(from), sums) : _mm512_setzero_ps();
      }
      Avx512Lanes::transpose(rows);
      const __mmask16 lanes = first_lanes(args.dim - d);
      for (std::int64_t i = 0; i < kLanes && m + i < args.count; ++i) {
        _mm512_mask_storeu_ps(args.y + (m + i) * args.y_stride + d, lanes, rows[i]);
      }
    }
  }
}

}  // namespace

QueryPanelTier query_panels_avx512bf16() {
  return {.pack_queries = pack_queries,
          .pack_keys = pack_keys,
          .pack_values = pack_values,
          .attend_block = attend_block<PanelProducts>,
          .write_outputs = write_outputs,
          .depth_multiple = 2};
}

}  // namespace caption::kernels::cpu
