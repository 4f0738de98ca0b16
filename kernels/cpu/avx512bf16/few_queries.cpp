// Products of few queries with rows of pages of bf16 and i8, without panels: rows are read once, in
// the order in which pages lie in memory, and multiplied where the panels' product would have
// written and read them again. Each sum is that of the panels' product, in its order.
#include <immintrin.h>

#include "kernels/cpu/avx512bf16/page_rows.h"
#include "kernels/cpu/avx512bf16/panels.h"
#include "kernels/cpu/internal/few_rows.h"

namespace caption::kernels::cpu {
namespace {

// Two adjacent elements of a row of bf16 in all lanes.
[[gnu::always_inline]] inline __m512bh broadcast_pair(const std::uint16_t* pair) {
  int two;
  __builtin_memcpy(&two, pair, sizeof two);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(two));
}

[[gnu::always_inline]] inline __m512 add_pairs(__m512 sum, __m512bh of_query, __m512i pairs) {
  return _mm512_dpbf16_ps(sum, of_query, reinterpret_cast<__m512bh>(pairs));
}

// Two heads at a time, to have enough independent sums to hide the latency.
template <class Rows, int kQueries>
void score(const FewQueriesArgs& args) {
  constexpr int kHeads = 2;
  const auto* const queries = static_cast<const std::uint16_t*>(args.a);
  const std::int64_t num_pairs = (args.dim + 1) / 2;
  const std::int64_t head_bytes = args.dim * Rows::kBytes;
  for (std::int64_t first = 0; first < args.count; first += kFewKeys) {
    const FewRows<Rows> group(args, first);
    for (std::int64_t head = 0; head < args.num_heads; head += kHeads) {
      __m512 sums[kHeads][kQueries];
      for (auto& of_head : sums) {
        for (__m512& sum : of_head) sum = _mm512_setzero_ps();
      }
      for (std::int64_t pair = 0; pair < num_pairs; pair += Rows::kColumnPairs) {
#pragma GCC unroll 2
        for (int h = 0; h < kHeads; ++h) {
          if (head + h >= args.num_heads) break;
          const std::int64_t of_head = pair * 2 * Rows::kBytes;
          const std::int64_t at = (head + h) * head_bytes + of_head;
          for (const char* const row : group.next) prefetch(row + at);
          __m512i columns[16];
          load_columns([&](int i) { return group.rows[i] + at; }, head_bytes - of_head, columns);
          const std::uint16_t* const a = queries + (head + h) * kQueries * args.a_stride + 2 * pair;
          Rows::for_pairs(
              columns, [&](int i, __m512i pairs) __attribute__((always_inline)) {
                if (pair + i >= num_pairs) return;
#pragma GCC unroll 8
                for (int m = 0; m < kQueries; ++m) {
                  sums[h][m] =
                      add_pairs(sums[h][m], broadcast_pair(a + m * args.a_stride + 2 * i), pairs);
                }
              });
        }
      }
#pragma GCC unroll 2
      for (int h = 0; h < kHeads; ++h) {
        if (head + h >= args.num_heads) break;
        float* const c = args.c + (head + h) * kQueries * args.c_stride + first;
        for (int m = 0; m < kQueries; ++m) _mm512_storeu_ps(c + m * args.c_stride, sums[h][m]);
      }
    }
  }
}

// The sums of a head's queries over the rows of a group, for the dimensions [d, d + 64 kBlocks).
template <class Rows, int kQueries, int kBlocks>
void weigh_group(const FewQueriesArgs& args, const FewRows<Rows>& group, std::int64_t first,
                 std::int64_t head, std::int64_t d) {
  constexpr int kRegisters = 4 * kBlocks;
  const std::int64_t head_bytes = args.dim * Rows::kBytes;
  const std::int64_t count = args.count - first < kFewKeys ? args.count - first : kFewKeys;
  const auto* const a =
      static_cast<const std::uint16_t*>(args.a) + head * kQueries * args.a_stride + first;
  float* const c = args.c + head * kQueries * args.c_stride + d;
  __m512 sums[kQueries][kRegisters];
#pragma GCC unroll 8
  for (int m = 0; m < kQueries; ++m) {
#pragma GCC unroll 8
    for (int i = 0; i < kRegisters; ++i) {
      const bool has_sum = first > 0 && d + i * kLanes < args.dim;
      sums[m][i] =
          has_sum ? _mm512_loadu_ps(c + m * args.c_stride + i * kLanes) : _mm512_setzero_ps();
    }
  }
  for (std::int64_t j = 0; j < count; j += 2) {
#pragma GCC unroll 2
    for (int block = 0; block < kBlocks; ++block) {
      const std::int64_t of_head = (d + block * 64) * Rows::kBytes;
      if (of_head >= head_bytes) break;
      const std::int64_t at = head * head_bytes + of_head;
      for (std::int64_t line = 0; line < 64 * Rows::kBytes; line += 64) {
        prefetch(group.next[j] + at + line);
        prefetch(group.next[j + 1] + at + line);
      }
      __m512i pairs[4] = {};
      Rows::pair_rows({group.rows[j] + at, j + 1 < count ? group.rows[j + 1] + at : nullptr,
                       head_bytes - of_head},
                      pairs);
#pragma GCC unroll 8
      for (int m = 0; m < kQueries; ++m) {
        const __m512bh weights = broadcast_pair(a + m * args.a_stride + j);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          sums[m][block * 4 + i] = add_pairs(sums[m][block * 4 + i], weights, pairs[i]);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < kQueries; ++m) {
#pragma GCC unroll 8
    for (int i = 0; i < kRegisters; ++i) {
      if (d + i * kLanes >= args.dim) break;
      _mm512_storeu_ps(c + m * args.c_stride + i * kLanes, sums[m][i]);
    }
  }
}

template <class Rows, int kQueries>
void weigh(const FewQueriesArgs& args) {
  constexpr int kBlocks = kQueries <= 2 ? 2 : 1;  // 64 dimensions each, <= 24 registers of sums
  for (std::int64_t first = 0; first < args.count; first += kFewKeys) {
    const FewRows<Rows> group(args, first);
    for (std::int64_t head = 0; head < args.num_heads; ++head) {
      for (std::int64_t d = 0; d < args.dim; d += 64 * kBlocks) {
        weigh_group<Rows, kQueries, kBlocks>(args, group, first, head, d);
      }
    }
  }
}

// Calls the version for args.m queries.
template <class Rows, int kQueries = static_cast<int>(kFewQueries)>
void score_few(const FewQueriesArgs& args) {
  if constexpr (kQueries > 1) {
    if (args.m < kQueries) return score_few<Rows, kQueries - 1>(args);
  }
  score<Rows, kQueries>(args);
}

template <class Rows, int kQueries = static_cast<int>(kFewQueries)>
void weigh_few(const FewQueriesArgs& args) {
  if constexpr (kQueries > 1) {
    if (args.m < kQueries) return weigh_few<Rows, kQueries - 1>(args);
  }
  weigh<Rows, kQueries>(args);
}

}  // namespace

void set_few_queries_avx512bf16(AttentionTier& tier) {
  tier.few_queries[static_cast<int>(Element::kBF16)] = {.score = score_few<Bf16Rows>,
                                                        .weigh = weigh_few<Bf16Rows>};
  tier.few_queries[static_cast<int>(Element::kI8)] = {.score = score_few<Int8Rows>,
                                                      .weigh = weigh_few<Int8Rows>};
}

}  // namespace caption::kernels::cpu
