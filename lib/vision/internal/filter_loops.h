// vision/internal/filter_loops.h: the inner loops of the uint8 filter, one version per instruction
// set and the same bits from all: sums of integers.
//
// Included by files with -mavx512..., so it includes nothing but <cstdint> (style.md §2.4).
#pragma once

#include <cstdint>

namespace caption::vision::internal {

inline constexpr int kChannels = 3;
// Rows that are filtered at once along their width, a number of each side by side: a register of
// the widest tier in int32.
inline constexpr int kStripRows = 16;

// The filter along one axis. Output i is
//   clamp((2^(precision_bits - 1) + sum_t weights[i][t] * in[first_in[i] + t]) >> precision_bits)
struct AxisTaps {
  const int* first_in = nullptr;
  const int* num_taps = nullptr;
  const std::int16_t* weights = nullptr;  // [num_out, max_taps]
  std::int64_t max_taps = 0;
  int num_out = 0;
  int precision_bits = 0;
};

struct FilterLoops {
  // Along the width. `in` is a strip [pixels from begin_in on, kChannels, kStripRows], `out` a
  // strip [num_out, kChannels, kStripRows].
  void (*columns)(const AxisTaps& taps, const std::int32_t* in, int begin_in, std::uint8_t* out);
  // Along the height. `in` is rows of row_bytes from row begin_in on, `out` rows of row_bytes.
  void (*rows)(const AxisTaps& taps, const std::uint8_t* in, int begin_in, std::int64_t row_bytes,
               std::uint8_t* out);
};

const FilterLoops& filter_loops_reference();
const FilterLoops& filter_loops_avx2();    // x86-64 only; the CPU must have AVX2
const FilterLoops& filter_loops_avx512();  // x86-64 only; the CPU must have AVX-512 F, BW, DQ, VL

}  // namespace caption::vision::internal
