// kernels/cpu/internal/quad_groups.h: Tier::panel4a8 by way of a panel of 8-bit weights.
//
// Layout    the codes of a chunk of columns are widened to a panel of panel8a8() (16 KiB: they stay
//           in the first-level cache while all rows use them), multiplied, and the sums added to c.
// Numerics  exact, as panel8a8().
//
// The functions are static, so that each tier's file compiles a separate copy with its instruction
// set; templates that are given their lambdas are then local, too.
#pragma once

#include <cstdint>

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

// A group of columns.
struct QuadGroup {
  std::int64_t index, first_quad, end_quad;
};

// Calls work(group) for the groups in ascending order.
template <class Work>
void for_each_quad_group(const Integer4Args& args, const Work& work) {
  QuadGroup group{};
  for (; group.first_quad < args.num_quads; group.first_quad += args.group_quads, ++group.index) {
    const std::int64_t end = group.first_quad + args.group_quads;
    group.end_quad = end < args.num_quads ? end : args.num_quads;
    work(group);
  }
}

// Writes the codes of a group as weights of 8 bits.
static inline void widen_codes4(const Integer4Args& args, const QuadGroup& group,
                                std::uint8_t* panel) {
  constexpr std::int64_t kHalf = 2 * kPanelColumns;  // bytes of four columns of 16 features
  std::uint8_t steps[2 * kHalf];
  std::uint8_t bases[2 * kHalf];
  const std::uint8_t* const of_group = args.steps + group.index * 2 * kPanelColumns;
  for (std::int64_t i = 0; i < 2 * kHalf; ++i) {
    steps[i] = of_group[i / 4];
    bases[i] = of_group[kPanelColumns + i / 4];
  }
  for (std::int64_t quad = group.first_quad; quad < group.end_quad; ++quad, panel += 2 * kHalf) {
    const std::uint8_t* const codes = args.codes + quad * kHalf;
    for (std::int64_t i = 0; i < kHalf; ++i) {
      panel[i] = static_cast<std::uint8_t>((codes[i] & 15u) * steps[i] + bases[i]);
    }
    for (std::int64_t i = 0; i < kHalf; ++i) {
      panel[kHalf + i] =
          static_cast<std::uint8_t>((codes[i] >> 4) * steps[kHalf + i] + bases[kHalf + i]);
    }
  }
}

// `multiply` is the tier's panel8a8().
static inline void panel4a8_by_chunks(const Integer4Args& args,
                                      void (*multiply)(const IntegerArgs&)) {
  constexpr std::int64_t kChunkGroups = 4;
  constexpr std::int64_t kChunkRows = 16;
  alignas(64) std::uint8_t panel[kChunkGroups * kMaxGroupQuads * 4 * kPanelColumns];
  alignas(64) std::int32_t sums[kChunkRows * kPanelColumns];
  std::int64_t first = 0;  // first quad of the chunk
  for_each_quad_group(args, [&](const QuadGroup& group) {
    widen_codes4(args, group, panel + (group.first_quad - first) * 4 * kPanelColumns);
    if (group.end_quad < args.num_quads && (group.index + 1) % kChunkGroups != 0) return;
    for (std::int64_t m = 0; m < args.m; m += kChunkRows) {
      const std::int64_t rows = args.m - m < kChunkRows ? args.m - m : kChunkRows;
      multiply({.a = args.a + m * args.a_stride + 4 * first,
                .a_stride = args.a_stride,
                .panel = panel,
                .num_quads = group.end_quad - first,
                .c = sums,
                .c_stride = kPanelColumns,
                .m = rows});
      for (std::int64_t r = 0; r < rows; ++r) {
        std::int32_t* const c = args.c + (m + r) * args.c_stride;
        for (std::int64_t n = 0; n < kPanelColumns; ++n) {
          c[n] = (first == 0 ? 0 : c[n]) + sums[r * kPanelColumns + n];
        }
      }
    }
    first = group.end_quad;
  });
}

}  // namespace caption::kernels::cpu
