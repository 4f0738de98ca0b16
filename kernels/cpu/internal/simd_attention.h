// kernels/cpu/internal/simd_attention.h: AttentionTier with panels of f32 as templates over the
// register width. `Simd` is described in simd_gemm.h; `Lanes` has what only attention needs:
// transpose() of kWidth registers, maximum() of two and largest() of one.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention_tier.h"
#include "kernels/cpu/internal/simd_exp.h"
#include "kernels/cpu/internal/simd_few_queries.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

template <Element element>
constexpr std::int64_t kElementBytes = element == Element::kF32  ? 4
                                       : element == Element::kI8 ? 1
                                                                 : 2;

// Static, so that each tier's file compiles a separate copy with its instruction set.
static inline const char* row_of(const void* base, std::int64_t row_bytes, std::int64_t slot) {
  return static_cast<const char*>(base) + slot * row_bytes;
}

template <class Simd, Element element>
void prefetch_row(const PackArgs& args, std::int64_t j, std::int64_t at) {
  if (args.next_slots == nullptr || at * kElementBytes<element> % 64 != 0) return;
  Simd::template prefetch<element>(row_of(args.next_base, args.row_bytes, args.next_slots[j]), at);
}

// Writes kWidth keys from key `first` on as kWidth columns of a panel, from `column` on; the last
// key is repeated where there are fewer.
template <class Simd, class Lanes, Element element>
void pack_key_columns(const PackArgs& args, std::int64_t first, float* column) {
  constexpr int kWidth = Simd::kWidth;
  const char* keys[kWidth];
  for (int i = 0; i < kWidth; ++i) {
    const std::int64_t j = first + i < args.count ? first + i : args.count - 1;
    keys[i] = row_of(args.base, args.row_bytes, args.slots[j]);
  }
  typename Simd::Register rows[kWidth];
  std::int64_t d = 0;
  for (; d + kWidth <= args.dim; d += kWidth) {
    for (int i = 0; i < kWidth && first + i < args.count; ++i) {
      prefetch_row<Simd, element>(args, first + i, d);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kWidth; ++i) rows[i] = Simd::template load<element>(keys[i], d);
    Lanes::transpose(rows);
#pragma GCC unroll 16
    for (int i = 0; i < kWidth; ++i) Simd::store(column + (d + i) * kPanelColumns, rows[i]);
  }
  if (d == args.dim) return;
  const int rest = static_cast<int>(args.dim - d);
  for (int i = 0; i < kWidth; ++i) rows[i] = Simd::template load_part<element>(keys[i], d, rest);
  Lanes::transpose(rows);
  for (int i = 0; i < rest; ++i) Simd::store(column + (d + i) * kPanelColumns, rows[i]);
}

template <class Simd, class Lanes, Element element>
void pack_keys(const PackArgs& args) {
  auto* panel = static_cast<float*>(args.panels);
  for (std::int64_t j = 0; j < args.count; j += kPanelColumns, panel += args.dim * kPanelColumns) {
    for (std::int64_t i = 0; i < kPanelColumns; i += Simd::kWidth) {
      pack_key_columns<Simd, Lanes, element>(args, j + i, panel + i);
    }
  }
}

template <class Simd, Element element>
void pack_values(const PackArgs& args) {
  constexpr int kWidth = Simd::kWidth;
  for (std::int64_t j = 0; j < args.count; ++j) {
    const char* const row = row_of(args.base, args.row_bytes, args.slots[j]);
    float* to = static_cast<float*>(args.panels) + j * kPanelColumns;
    for (std::int64_t d = 0; d < args.dim; d += kPanelColumns, to += args.count * kPanelColumns) {
      for (std::int64_t i = 0; i < kPanelColumns; i += kWidth) {
        const std::int64_t left = args.dim - d - i;
        typename Simd::Register x = Simd::zero();
        if (left >= kWidth) {
          x = Simd::template load<element>(row, d + i);
        } else if (left > 0) {
          x = Simd::template load_part<element>(row, d + i, static_cast<int>(left));
        }
        Simd::store(to + i, x);
        if (left > 0) prefetch_row<Simd, element>(args, j, d + i);
      }
    }
  }
}

template <class Simd, int kRows, int kPanels>
void float_tile(const FloatPanelArgs& args, std::int64_t m0, std::int64_t panel) {
  using Register = typename Simd::Register;
  constexpr int kPerPanel = static_cast<int>(kPanelColumns) / Simd::kWidth;
  constexpr int kRegisters = kPanels * kPerPanel;
  Register sums[kRows][kRegisters];
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kRegisters; ++j) sums[i][j] = Simd::zero();
  }
  const float* const a = args.a + m0 * args.a_stride;
  const std::int64_t panel_elements = args.depth * kPanelColumns;
  const float* const b = args.panels + panel * panel_elements;
  for (std::int64_t k = 0; k < args.depth; ++k) {
    Register columns[kRegisters];
    for (int j = 0; j < kRegisters; ++j) {
      columns[j] = Simd::load_floats(b + j / kPerPanel * panel_elements + k * kPanelColumns +
                                     j % kPerPanel * Simd::kWidth);
    }
    for (int i = 0; i < kRows; ++i) {
      const Register factor = Simd::broadcast(a[i * args.a_stride + k]);
      for (int j = 0; j < kRegisters; ++j) {
        sums[i][j] = Simd::multiply_add(factor, columns[j], sums[i][j]);
      }
    }
  }
  float* const c = args.c + m0 * args.c_stride + panel * kPanelColumns;
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kRegisters; ++j) {
      Simd::store(c + i * args.c_stride + j * Simd::kWidth, sums[i][j]);
    }
  }
}

// Runs the tile with `count` rows, 1 to kRows.
template <class Simd, int kRows, int kPanels>
void float_rows(const FloatPanelArgs& args, std::int64_t m0, std::int64_t count,
                std::int64_t panel) {
  if constexpr (kRows > 1) {
    if (count < kRows) return float_rows<Simd, kRows - 1, kPanels>(args, m0, count, panel);
  }
  float_tile<Simd, kRows, kPanels>(args, m0, panel);
}

// Tiles use as many registers of sums as fit (24 of 32, or 12 of 16) and are nearly equal in
// height. With few rows two panels are multiplied at a time, to have enough independent sums to
// hide the latency.
template <class Simd>
void float_panel_gemm(const FloatPanelArgs& args) {
  constexpr int kRows = Simd::kWidth == 16 ? 12 : 3;
  constexpr int kFewRows = Simd::kWidth == 16 ? 4 : 1;
  std::int64_t panel = 0;
  if (args.m <= kFewRows) {
    for (; panel + 2 <= args.num_panels; panel += 2) {
      float_rows<Simd, kFewRows, 2>(args, 0, args.m, panel);
    }
  }
  for (; panel < args.num_panels; ++panel) {
    for (std::int64_t m = 0; m < args.m;) {
      const std::int64_t left = args.m - m;
      const std::int64_t tiles = (left + kRows - 1) / kRows;
      const std::int64_t count = (left + tiles - 1) / tiles;
      float_rows<Simd, kRows, 1>(args, m, count, panel);
      m += count;
    }
  }
}

// x = x * factors; returns the maximum of these and `max`. A NaN is skipped; exp() propagates it.
template <class Simd, class Lanes>
float scale_and_find_max(float* x, const float* factors, std::int64_t n, float max) {
  using Register = typename Simd::Register;
  Register largest = Simd::broadcast(max);
  std::int64_t i = 0;
  for (; i + Simd::kWidth <= n; i += Simd::kWidth) {
    const Register y = Simd::multiply(Simd::load_floats(x + i), Simd::load_floats(factors + i));
    Simd::store(x + i, y);
    largest = Lanes::maximum(y, largest);
  }
  float result = Lanes::largest(largest);
  for (; i < n; ++i) {
    x[i] *= factors[i];
    result = x[i] > result ? x[i] : result;
  }
  return result;
}

template <class Simd, class Lanes>
SoftmaxResult softmax(const SoftmaxArgs& args) {
  const std::int64_t n = args.num_visible;
  float* const x = args.scores;
  const float max = scale_and_find_max<Simd, Lanes>(x, args.factors, n, args.max);
  const float sum = exp_sum<Simd>(x, n, max);
  if (args.v_scales != nullptr) {
    std::int64_t i = 0;
    for (; i + Simd::kWidth <= n; i += Simd::kWidth) {
      Simd::store(x + i,
                  Simd::multiply(Simd::load_floats(x + i), Simd::load_floats(args.v_scales + i)));
    }
    for (; i < n; ++i) x[i] *= args.v_scales[i];
  }
  for (std::int64_t i = n; i < args.count; ++i) x[i] = 0;
  return {max, sum};
}

template <class Simd>
void scale_add(float* y, float factor, const float* x, std::int64_t n) {
  const typename Simd::Register factors = Simd::broadcast(factor);
  std::int64_t i = 0;
  for (; i + Simd::kWidth <= n; i += Simd::kWidth) {
    Simd::store(y + i,
                Simd::multiply_add(Simd::load_floats(y + i), factors, Simd::load_floats(x + i)));
  }
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    Simd::store_part(y + i,
                     Simd::multiply_add(Simd::load_part_floats(y + i, rest), factors,
                                        Simd::load_part_floats(x + i, rest)),
                     rest);
  }
}

template <class Simd, class Lanes, Element element>
constexpr PagePacker kPacker = {.keys = pack_keys<Simd, Lanes, element>,
                                .values = pack_values<Simd, element>};

template <class Simd, class Lanes>
constexpr AttentionTier kAttentionTier = {
    .pack = {kPacker<Simd, Lanes, Element::kF32>, kPacker<Simd, Lanes, Element::kBF16>,
             kPacker<Simd, Lanes, Element::kF16>, kPacker<Simd, Lanes, Element::kI8>},
    .float_panel_gemm = float_panel_gemm<Simd>,
    .softmax = softmax<Simd, Lanes>,
    .scale_add = scale_add<Simd>,
    .query_panels = {},
    .few_queries = {kFewQueryProducts<Simd, Lanes, Element::kF32>,
                    kFewQueryProducts<Simd, Lanes, Element::kBF16>,
                    kFewQueryProducts<Simd, Lanes, Element::kF16>,
                    kFewQueryProducts<Simd, Lanes, Element::kI8>}};

}  // namespace caption::kernels::cpu
