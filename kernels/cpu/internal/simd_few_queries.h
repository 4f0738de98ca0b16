// kernels/cpu/internal/simd_few_queries.h: FewQueries in f32 as templates over the register width
// (simd_attention.h describes `Simd` and `Lanes`).
//
// Each sum is that of float_panel_gemm(), in its order.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention_tier.h"
#include "kernels/cpu/internal/few_rows.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

// Prefetches the 64 bytes of a row from element `at` on if `at` is a multiple of 64 bytes, so that
// no bytes are prefetched twice.
template <class Simd, Element element>
void prefetch_few(const char* row, std::int64_t at) {
  constexpr std::int64_t kBytes = element == Element::kF32 ? 4 : element == Element::kI8 ? 1 : 2;
  if (at * kBytes % 64 == 0) Simd::template prefetch<element>(row, at);
}

// The scores of kWidth rows from row `first` of the group on, for a head that begins with element
// `head` of a row.
template <class Simd, class Lanes, Element element, int kQueries>
void score_columns(const FewQueriesArgs& args, const FewRows<Simd>& group, int first,
                   std::int64_t head, const float* a, float* c) {
  using Register = typename Simd::Register;
  constexpr int kWidth = Simd::kWidth;
  Register sums[kQueries];
#pragma GCC unroll 8
  for (int m = 0; m < kQueries; ++m) sums[m] = Simd::zero();
  for (std::int64_t d = 0; d < args.dim; d += kWidth) {
    const std::int64_t left = args.dim - d;
    Register rows[kWidth];
#pragma GCC unroll 16
    for (int i = 0; i < kWidth; ++i) {
      prefetch_few<Simd, element>(group.next[first + i], head + d);
      const char* const row = group.rows[first + i];
      rows[i] = left >= kWidth
                    ? Simd::template load<element>(row, head + d)
                    : Simd::template load_part<element>(row, head + d, static_cast<int>(left));
    }
    Lanes::transpose(rows);
#pragma GCC unroll 16
    for (int i = 0; i < kWidth; ++i) {
      if (i >= left) break;
#pragma GCC unroll 8
      for (int m = 0; m < kQueries; ++m) {
        sums[m] =
            Simd::multiply_add(Simd::broadcast(a[m * args.a_stride + d + i]), rows[i], sums[m]);
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < kQueries; ++m) Simd::store(c + m * args.c_stride, sums[m]);
}

template <class Simd, class Lanes, Element element, int kQueries>
void score(const FewQueriesArgs& args) {
  for (std::int64_t first = 0; first < args.count; first += kFewKeys) {
    const FewRows<Simd> group(args, first);
    for (std::int64_t head = 0; head < args.num_heads; ++head) {
      const float* const a = static_cast<const float*>(args.a) + head * kQueries * args.a_stride;
      float* const c = args.c + head * kQueries * args.c_stride + first;
      for (int i = 0; i < kFewKeys; i += Simd::kWidth) {
        score_columns<Simd, Lanes, element, kQueries>(args, group, i, head * args.dim, a, c + i);
      }
    }
  }
}

// The sums of a head's queries over the rows of a group, for kRegisters registers of dimensions
// from dimension d on.
template <class Simd, Element element, int kQueries, int kRegisters>
void weigh_group(const FewQueriesArgs& args, const FewRows<Simd>& group, std::int64_t first,
                 std::int64_t head, std::int64_t d) {
  using Register = typename Simd::Register;
  constexpr std::int64_t kWidth = Simd::kWidth;
  const std::int64_t count = args.count - first < kFewKeys ? args.count - first : kFewKeys;
  const float* const a =
      static_cast<const float*>(args.a) + head * kQueries * args.a_stride + first;
  float* const c = args.c + head * kQueries * args.c_stride + d;
  Register sums[kQueries][kRegisters];
#pragma GCC unroll 8
  for (int m = 0; m < kQueries; ++m) {
#pragma GCC unroll 8
    for (int i = 0; i < kRegisters; ++i) {
      const bool has_sum = first > 0 && d + i * kWidth < args.dim;
      sums[m][i] = has_sum ? Simd::load_floats(c + m * args.c_stride + i * kWidth) : Simd::zero();
    }
  }
  for (std::int64_t j = 0; j < count; ++j) {
#pragma GCC unroll 8
    for (int i = 0; i < kRegisters; ++i) {
      const std::int64_t left = args.dim - d - i * kWidth;
      if (left <= 0) break;
      const std::int64_t at = head * args.dim + d + i * kWidth;
      prefetch_few<Simd, element>(group.next[j], at);
      const Register x = left >= kWidth ? Simd::template load<element>(group.rows[j], at)
                                        : Simd::template load_part<element>(group.rows[j], at,
                                                                            static_cast<int>(left));
#pragma GCC unroll 8
      for (int m = 0; m < kQueries; ++m) {
        sums[m][i] = Simd::multiply_add(Simd::broadcast(a[m * args.a_stride + j]), x, sums[m][i]);
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < kQueries; ++m) {
#pragma GCC unroll 8
    for (int i = 0; i < kRegisters; ++i) {
      if (d + i * kWidth >= args.dim) break;
      Simd::store(c + m * args.c_stride + i * kWidth, sums[m][i]);
    }
  }
}

// At most 12 of 16 registers hold sums, or 24 of 32.
template <class Simd, Element element, int kQueries>
void weigh(const FewQueriesArgs& args) {
  constexpr int kSums = Simd::kWidth == 16 ? 24 : 12;
  constexpr int kMost = Simd::kWidth == 16 ? 8 : 4;
  constexpr int kRegisters = kSums / kQueries < kMost ? kSums / kQueries : kMost;
  for (std::int64_t first = 0; first < args.count; first += kFewKeys) {
    const FewRows<Simd> group(args, first);
    for (std::int64_t head = 0; head < args.num_heads; ++head) {
      for (std::int64_t d = 0; d < args.dim; d += kRegisters * Simd::kWidth) {
        weigh_group<Simd, element, kQueries, kRegisters>(args, group, first, head, d);
      }
    }
  }
}

// Calls the version for args.m queries.
template <class Simd, class Lanes, Element element, int kQueries = static_cast<int>(kFewQueries)>
void score_few(const FewQueriesArgs& args) {
  if constexpr (kQueries > 1) {
    if (args.m < kQueries) return score_few<Simd, Lanes, element, kQueries - 1>(args);
  }
  score<Simd, Lanes, element, kQueries>(args);
}

template <class Simd, Element element, int kQueries = static_cast<int>(kFewQueries)>
void weigh_few(const FewQueriesArgs& args) {
  if constexpr (kQueries > 1) {
    if (args.m < kQueries) return weigh_few<Simd, element, kQueries - 1>(args);
  }
  weigh<Simd, element, kQueries>(args);
}

template <class Simd, class Lanes, Element element>
constexpr FewQueries kFewQueryProducts = {.score = score_few<Simd, Lanes, element>,
                                          .weigh = weigh_few<Simd, element>};

}  // namespace caption::kernels::cpu
