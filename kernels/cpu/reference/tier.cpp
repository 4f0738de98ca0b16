// Reference implementation of Tier in plain loops; the other tiers are tested against it.
#include "kernels/cpu/tier.h"
#include "kernels/cpu/group_numbers.h"
#include "kernels/cpu/internal/quad_groups.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "tensor/dtype.h"
#include "tensor/e4m3.h"

namespace caption::kernels::cpu {
namespace {

// The number of partial sums equals the lanes of an AVX-512 register: a compiler can vectorise
// them, and the error grows with k / 16 instead of k.
constexpr int kLanes = kNormLanes;

template <class T>
float dot_of_vectors(const float* a, const T* b, std::int64_t k) {
  float lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= k; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * to_float(b[i + lane]);
  }
  for (int lane = 0; i < k; ++i, ++lane) lanes[lane] += a[i] * to_float(b[i]);
  return sum_of_lanes(lanes);
}

template <class T>
void dot(const GemmArgs& args) {
  // A row of b is multiplied by all rows of a while it is in the cache.
  for (std::int64_t n = 0; n < args.n; ++n) {
    const T* const b = static_cast<const T*>(args.b) + n * args.b_stride;
    for (std::int64_t m = 0; m < args.m; ++m) {
      args.c[m * args.c_stride + n] = dot_of_vectors(args.a + m * args.a_stride, b, args.k);
    }
  }
}

float exp_sum(float* x, std::int64_t n, float shift) {
  float lanes[kLanes] = {};
  for (std::int64_t i = 0; i < n; ++i) {
    x[i] = std::exp(x[i] - shift);
    lanes[i % kLanes] += x[i];
  }
  return sum_of_lanes(lanes);
}

void gelu(const float* x, float* y, std::int64_t n) {
  constexpr float kInverseSqrt2 = 1.0F / std::numbers::sqrt2_v<float>;
  for (std::int64_t i = 0; i < n; ++i) y[i] = 0.5F * x[i] * (1.0F + std::erf(x[i] * kInverseSqrt2));
}

// 1 + tanh(z) = 2 / (1 + exp(-2 z)): this form has no cancellation for negative x.
void gelu_tanh(const float* x, float* y, std::int64_t n) {
  constexpr float kSqrt8OverPi =
      2.0F * std::numbers::sqrt2_v<float> * std::numbers::inv_sqrtpi_v<float>;
  for (std::int64_t i = 0; i < n; ++i) {
    const float power = -kSqrt8OverPi * x[i] * (1.0F + 0.044715F * (x[i] * x[i]));
    y[i] = x[i] / (1.0F + std::exp(power));
  }
}

IntegerRow to_int8(const float* x, std::int8_t* codes, std::int64_t n) {
  float largest = 0;
  bool is_finite = true;
  for (std::int64_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::abs(x[i]));
    is_finite &= std::isfinite(x[i]);
  }
  if (!is_finite) {
    std::fill_n(codes, n, std::int8_t{0});
    return {.scale = std::numeric_limits<float>::quiet_NaN(), .sum = 0};
  }
  const float inverse = largest > kSmallestMagnitude ? 127.0F / largest : 0.0F;
  std::int32_t sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    codes[i] = static_cast<std::int8_t>(std::nearbyint(x[i] * inverse));
    sum += codes[i];
  }
  return {.scale = largest / 127.0F, .sum = sum};
}

void scale_integers(const IntegerScaleArgs& args) {
  for (std::int64_t m = 0; m < args.m; ++m) {
    const IntegerRow row = args.rows[m];
    for (std::int64_t n = 0; n < kPanelColumns; ++n) {
      const std::int32_t sum = args.sums[m * kPanelColumns + n] - 128 * row.sum;
      args.y[m * args.y_stride + n] = static_cast<float>(sum) * (row.scale * args.scales[n]);
    }
  }
}

void add_bias(const BiasArgs& args) {
  for (std::int64_t m = 0; m < args.m; ++m) {
    const float* const x = args.x + m * args.x_stride;
    float* const y = args.y + m * args.y_stride;
    for (std::int64_t n = 0; n < args.n; ++n) {
      const float sum = (x[n] + args.bias[n]) * (args.scale == nullptr ? 1.0F : args.scale[n]);
      y[n] = args.add ? y[n] + sum : sum;
    }
  }
}

// Returns the sum of term(x[i]) over a row.
template <class Term>
float sum_of_terms(const float* x, std::int64_t n, Term term) {
  float lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += term(x[i + lane]);
  }
  for (int lane = 0; i < n; ++i, ++lane) lanes[lane] += term(x[i]);
  return sum_of_lanes(lanes);
}

void rms_norm(const NormArgs& args) {
  const float squares = sum_of_terms(args.x, args.n, [](float v) { return v * v; });
  const float factor = 1.0F / std::sqrt(squares / static_cast<float>(args.n) + args.eps);
  for (std::int64_t i = 0; i < args.n; ++i) args.y[i] = args.x[i] * factor * args.weight[i];
}

void layer_norm(const NormArgs& args) {
  const auto n = static_cast<float>(args.n);
  const float mean = sum_of_terms(args.x, args.n, [](float v) { return v; }) / n;
  for (std::int64_t i = 0; i < args.n; ++i) args.y[i] = args.x[i] - mean;
  const float variance = sum_of_terms(args.y, args.n, [](float v) { return v * v; }) / n;
  const float factor = 1.0F / std::sqrt(variance + args.eps);
  for (std::int64_t i = 0; i < args.n; ++i) {
    args.y[i] = args.y[i] * factor * args.weight[i] + args.bias[i];
  }
}

void rotate(const RotateArgs& args) {
  for (std::int64_t i = 0; i < args.n; ++i) {
    const float a = args.low[i];
    const float b = args.high[i];
    args.low[i] = a * args.cosines[i] - b * args.sines[i];
    args.high[i] = b * args.cosines[i] + a * args.sines[i];
  }
}

void swish(const SwishArgs& args) {
  for (std::int64_t i = 0; i < args.n; ++i) {
    const float value = args.x[i] / (1.0F + std::exp(-args.beta * args.x[i]));
    args.y[i] = args.factor == nullptr ? value : value * args.factor[i];
  }
}

}  // namespace

// Products and sums are f32. The dot-product instructions flush subnormals and round products and
// additions differently, so their results differ by rounding.
void panel_gemm_reference(const PanelArgs& args) {
  const auto widen = [](std::uint16_t bits) { return to_float(BF16{bits}); };
  for (std::int64_t panel = 0; panel < args.num_panels; ++panel) {
    const std::uint16_t* const b = args.panels + panel * args.num_pairs * 2 * kPanelColumns;
    for (std::int64_t m = 0; m < args.m; ++m) {
      const std::uint16_t* const a = args.a + m * args.a_stride;
      float* const c = args.c + m * args.c_stride + panel * kPanelColumns;
      for (std::int64_t n = 0; n < kPanelColumns; ++n) c[n] = 0;
      for (std::int64_t pair = 0; pair < args.num_pairs; ++pair) {
        const float even = widen(a[2 * pair]);
        const float odd = widen(a[2 * pair + 1]);
        const std::uint16_t* const columns = b + pair * 2 * kPanelColumns;
        for (std::int64_t n = 0; n < kPanelColumns; ++n) {
          c[n] += even * widen(columns[2 * n]) + odd * widen(columns[2 * n + 1]);
        }
      }
    }
  }
}

namespace {

// code(pair, n, c) returns the weight of feature n and column 2 * pair + c before scaling.
template <class Code>
void quantised_panel(const QuantisedArgs& args, const Code& code) {
  for (std::int64_t m = 0; m < args.m; ++m) {
    const std::uint16_t* const a = args.a + m * args.a_stride;
    float* const c = args.c + m * args.c_stride;
    for (std::int64_t n = 0; n < kPanelColumns; ++n) c[n] = 0;
    std::int64_t group = 0;
    for (std::int64_t first = 0; first < args.num_pairs; first += args.group_pairs, ++group) {
      const std::int64_t end = std::min(args.num_pairs, first + args.group_pairs);
      for (std::int64_t n = 0; n < kPanelColumns; ++n) {
        float sum = 0;
        for (std::int64_t pair = first; pair < end; ++pair) {
          sum += to_float(BF16{a[2 * pair]}) * code(pair, n, 0) +
                 to_float(BF16{a[2 * pair + 1]}) * code(pair, n, 1);
        }
        const std::int64_t at = group * kPanelColumns + n;
        c[n] += scale_at(args, at) * sum;
        if (args.offsets == nullptr) continue;
        c[n] += offset_at(args, at) * args.a_sums[m * args.a_sums_stride + group];
      }
    }
  }
}

}  // namespace

void panel8_reference(const QuantisedArgs& args) {
  quantised_panel(args, [&](std::int64_t pair, std::int64_t n, std::int64_t column) {
    const std::int64_t at = pair * 2 * kPanelColumns + panel8_position(n, column);
    return static_cast<float>(static_cast<std::int8_t>(args.codes[at]));
  });
}

void panel_e4m3_reference(const QuantisedArgs& args) {
  quantised_panel(args, [&](std::int64_t pair, std::int64_t n, std::int64_t column) {
    return from_e4m3(args.codes[pair * 2 * kPanelColumns + panel8_position(n, column)]);
  });
}

void panel4_reference(const QuantisedArgs& args) {
  quantised_panel(args, [&](std::int64_t pair, std::int64_t n, std::int64_t column) {
    const unsigned both = args.codes[pair * kPanelColumns + panel4_position(n, column)];
    return to_float(BF16{args.codebook[n < 16 ? both & 15u : both >> 4u]});
  });
}

namespace {

// Adds the products of four columns, of weights [kPanelColumns, 4].
void add_quad(const std::int8_t* a, const std::uint8_t* b, std::int32_t* c) {
  for (std::int64_t n = 0; n < kPanelColumns; ++n) {
    c[n] += a[0] * b[4 * n] + a[1] * b[4 * n + 1] + a[2] * b[4 * n + 2] + a[3] * b[4 * n + 3];
  }
}

}  // namespace

void panel8a8_reference(const IntegerArgs& args) {
  for (std::int64_t m = 0; m < args.m; ++m) {
    std::int32_t* const c = args.c + m * args.c_stride;
    for (std::int64_t n = 0; n < kPanelColumns; ++n) c[n] = 0;
    for (std::int64_t quad = 0; quad < args.num_quads; ++quad) {
      add_quad(args.a + m * args.a_stride + 4 * quad, args.panel + quad * 4 * kPanelColumns, c);
    }
  }
}

void panel4a8_reference(const Integer4Args& args) {
  for (std::int64_t m = 0; m < args.m; ++m) {
    for (std::int64_t n = 0; n < kPanelColumns; ++n) args.c[m * args.c_stride + n] = 0;
  }
  for_each_quad_group(args, [&](const QuadGroup& group) {
    const std::uint8_t* const steps = args.steps + group.index * 2 * kPanelColumns;
    const std::uint8_t* const bases = steps + kPanelColumns;
    for (std::int64_t quad = group.first_quad; quad < group.end_quad; ++quad) {
      const std::uint8_t* const codes = args.codes + quad * 2 * kPanelColumns;
      std::uint8_t weights[4 * kPanelColumns];
      for (std::int64_t n = 0; n < kPanelColumns; ++n) {
        for (std::int64_t column = 0; column < 4; ++column) {
          const unsigned both = codes[quad4_position(n, column)];
          const unsigned code = n < kPanelColumns / 2 ? both & 15u : both >> 4u;
          weights[4 * n + column] = static_cast<std::uint8_t>(steps[n] * code + bases[n]);
        }
      }
      for (std::int64_t m = 0; m < args.m; ++m) {
        add_quad(args.a + m * args.a_stride + 4 * quad, weights, args.c + m * args.c_stride);
      }
    }
  });
}

void to_bf16_reference(const float* x, std::uint16_t* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = to_bf16(x[i]).bits;
}

void round_numbers_reference(const void* x, Element element, std::uint16_t* y, std::int64_t n) {
  const auto round = [&](const auto* numbers) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = to_bf16(to_float(numbers[i])).bits;
  };
  if (element == Element::kF16) return round(static_cast<const F16*>(x));
  round(static_cast<const float*>(x));
}

const Tier& reference_tier() {
  static const Tier kTier = {.dot = {dot<float>, dot<BF16>, dot<F16>, dot<std::int8_t>},
                             .reads_tiled_rows = false,
                             .needs_code_sums = false,
                             .panel_gemm = panel_gemm_reference,
                             .panel8 = panel8_reference,
                             .panel4 = panel4_reference,
                             .panel_e4m3 = panel_e4m3_reference,
                             .panel8a8 = panel8a8_reference,
                             .panel4a8 = panel4a8_reference,
                             .to_bf16 = to_bf16_reference,
                             .round_numbers = round_numbers_reference,
                             .pack_dwords = pack_dwords_reference,
                             .pack_words = pack_words_reference,
                             .pack_e4m3 = pack_e4m3_reference,
                             .pack_nibbles = pack_nibbles_reference,
                             .pack_nibble_quads = pack_nibble_quads_reference,
                             .pack_words_of_columns = nullptr,
                             .pack_words_of_rows = nullptr,
                             .pack_ordered_words = nullptr,
                             .pack_blocks = nullptr,
                             .pack_scales = pack_scales_reference,
                             .finish_packing = [] {},
                             .to_int8 = to_int8,
                             .scale_integers = scale_integers,
                             .add_bias = add_bias,
                             .rms_norm = rms_norm,
                             .layer_norm = layer_norm,
                             .rotate = rotate,
                             .exp_sum = exp_sum,
                             .swish = swish,
                             .gelu = gelu,
                             .gelu_tanh = gelu_tanh,
                             .attention = reference_attention()};
  return kTier;
}

}  // namespace caption::kernels::cpu
