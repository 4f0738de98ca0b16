// Reference implementation of AttentionTier in plain loops.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/tier.h"
#include "tensor/dtype.h"

namespace caption::kernels::cpu {
namespace {

// Returns row j of the pages as elements of type T.
template <class T>
const T* row_of(const PackArgs& args, std::int64_t j) {
  return reinterpret_cast<const T*>(static_cast<const char*>(args.base) +
                                    args.slots[j] * args.row_bytes);
}

template <class T>
void pack_keys(const PackArgs& args) {
  auto* panel = static_cast<float*>(args.panels);
  for (std::int64_t j = 0; j < args.count; j += kPanelColumns, panel += args.dim * kPanelColumns) {
    std::fill_n(panel, args.dim * kPanelColumns, 0.0F);
    for (std::int64_t i = 0; i < std::min(kPanelColumns, args.count - j); ++i) {
      const T* const row = row_of<T>(args, j + i);
      for (std::int64_t d = 0; d < args.dim; ++d) panel[d * kPanelColumns + i] = to_float(row[d]);
    }
  }
}

template <class T>
void pack_values(const PackArgs& args) {
  auto* panel = static_cast<float*>(args.panels);
  for (std::int64_t d = 0; d < args.dim; d += kPanelColumns) {
    for (std::int64_t j = 0; j < args.count; ++j, panel += kPanelColumns) {
      const T* const row = row_of<T>(args, j);
      const std::int64_t width = std::min(kPanelColumns, args.dim - d);
      std::fill_n(panel + width, kPanelColumns - width, 0.0F);
      for (std::int64_t i = 0; i < width; ++i) panel[i] = to_float(row[d + i]);
    }
  }
}

void float_panel_gemm(const FloatPanelArgs& args) {
  for (std::int64_t m = 0; m < args.m; ++m) {
    for (std::int64_t panel = 0; panel < args.num_panels; ++panel) {
      const float* const b = args.panels + panel * args.depth * kPanelColumns;
      float* const c = args.c + m * args.c_stride + panel * kPanelColumns;
      std::fill_n(c, kPanelColumns, 0.0F);
      for (std::int64_t k = 0; k < args.depth; ++k) {
        const float a = args.a[m * args.a_stride + k];
        for (std::int64_t n = 0; n < kPanelColumns; ++n) c[n] += a * b[k * kPanelColumns + n];
      }
    }
  }
}

SoftmaxResult softmax(const SoftmaxArgs& args) {
  float* const x = args.scores;
  float max = args.max;
  for (std::int64_t j = 0; j < args.num_visible; ++j) {
    x[j] *= args.factors[j];
    max = std::max(max, x[j]);
  }
  const float sum = reference_tier().exp_sum(x, args.num_visible, max);
  if (args.v_scales != nullptr) {
    for (std::int64_t j = 0; j < args.num_visible; ++j) x[j] *= args.v_scales[j];
  }
  std::fill(x + args.num_visible, x + args.count, 0.0F);
  return {max, sum};
}

void scale_add(float* y, float factor, const float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = y[i] * factor + x[i];
}

template <class T>
constexpr PagePacker kPacker = {.keys = pack_keys<T>, .values = pack_values<T>};

}  // namespace

const AttentionTier& reference_attention() {
  static constexpr AttentionTier kTier = {
      .pack = {kPacker<float>, kPacker<BF16>, kPacker<F16>, kPacker<std::int8_t>},
      .float_panel_gemm = float_panel_gemm,
      .softmax = softmax,
      .scale_add = scale_add,
      .query_panels = {},
      .few_queries = {}};
  return kTier;
}

}  // namespace caption::kernels::cpu
