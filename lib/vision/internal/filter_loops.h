// vision/internal/filter_loops.h: the inner loops of the uint8 filter, one version per instruction
// set. All versions give the same bits, because they sum integers.
//
// Files compiled with -mavx512... include this header, so it includes nothing but <cstdint>: the
// linker could keep their copy of an inline standard function, which would crash on other CPUs.
#pragma once

#include <cstdint>

namespace caption::vision::internal {

inline constexpr int kChannels = 3;
// Number of rows that are filtered at once along their width, interleaved: one register of the
// widest tier holds this many int32.
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
  // Filters along the width. `in` is a strip [pixels from begin_in on, kChannels, kStripRows],
  // `out` a strip [num_out, kChannels, kStripRows].
  void (*columns)(const AxisTaps& taps, const std::int32_t* in, int begin_in, std::uint8_t* out);
  // Filters along the height. `in` holds rows of row_bytes bytes from row begin_in on, `out`
  // num_out rows of row_bytes bytes.
  void (*rows)(const AxisTaps& taps, const std::uint8_t* in, int begin_in, std::int64_t row_bytes,
               std::uint8_t* out);
};

const FilterLoops& filter_loops_reference();
const FilterLoops& filter_loops_avx2();    // x86-64 only; the CPU must have AVX2
const FilterLoops& filter_loops_avx512();  // x86-64 only; the CPU must have AVX-512 F, BW, DQ, VL

}  // namespace caption::vision::internal
