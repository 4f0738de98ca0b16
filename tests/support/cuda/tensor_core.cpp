#include "tests/support/cuda/tensor_core.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "tensor/dtype.h"
#include "tensor/e4m3.h"

// The loops over columns are compiled for AVX2, too, which has the shifts that they need.
#if defined(__x86_64__)
#define CAPTION_WITH_AVX2 __attribute__((target_clones("avx2", "default")))
#else
#define CAPTION_WITH_AVX2
#endif

namespace caption::cuda_emulator {
namespace {

constexpr int kRows = 16;
constexpr int kColumns = 8;
constexpr int kDepth = 16;
// The exponent of zeros: lower than any sum of two exponents, so a zero never is the largest.
constexpr std::int32_t kZeroExponent = -400;

// A number as sign * magnitude * 2^(exponent - fraction bits of its type).
struct Parts {
  std::int32_t magnitude;
  std::int32_t exponent;
  std::int32_t is_negative;
};

struct Layout {
  int fraction_bits;
  int exponent_bits;
};
constexpr Layout kLayouts[] = {{7, 8}, {10, 5}};  // indexed by HalfType
constexpr Layout kF32Layout = {23, 8};
constexpr Layout kE4M3Layout = {3, 4};
constexpr int kE4M3Bits = 13;  // fraction bits of terms and of sums on Ada

Parts split(std::uint32_t bits, Layout layout) {
  const std::int32_t bias = (1 << (layout.exponent_bits - 1)) - 1;
  const auto field =
      static_cast<std::int32_t>(bits >> layout.fraction_bits & ((1U << layout.exponent_bits) - 1));
  auto magnitude = static_cast<std::int32_t>(bits & ((1U << layout.fraction_bits) - 1));
  if (field != 0) magnitude |= 1 << layout.fraction_bits;
  const std::int32_t exponent = (field == 0 ? 1 : field) - bias;
  return {.magnitude = magnitude,
          .exponent = magnitude == 0 ? kZeroExponent : exponent,
          .is_negative = static_cast<std::int32_t>(
              bits >> (layout.fraction_bits + layout.exponent_bits) & 1U)};
}

// The parts of a row of numbers, for loops over the columns.
struct PartsRow {
  alignas(32) std::int32_t magnitude[kColumns];
  alignas(32) std::int32_t exponent[kColumns];
  alignas(32) std::int32_t is_negative[kColumns];

  void set(int column, const Parts& parts) {
    magnitude[column] = parts.magnitude;
    exponent[column] = parts.exponent;
    is_negative[column] = parts.is_negative;
  }
};

// Sums of the positive and of the negative terms: each is below 2^32, with at most 17 terms below
// 2^27 (a product's significand is below 4).
struct SumsRow {
  alignas(32) std::int32_t largest[kColumns];
  alignas(32) std::uint32_t positive[kColumns];
  alignas(32) std::uint32_t negative[kColumns];
};

// What one step sums: the products of `depth` k from k0, of one row.
struct Step {
  const Parts* a;     // [depth]
  const PartsRow* b;  // [depth]
  int depth;
  int fraction_bits;  // fraction bits that terms are cut to
  int product_bits;   // fraction bits of a product
};

CAPTION_WITH_AVX2 void sum_terms(const Step& step, const PartsRow& c, SumsRow& sums) {
  for (int j = 0; j < kColumns; ++j) sums.largest[j] = c.exponent[j];
  for (int k = 0; k < step.depth; ++k) {
    for (int j = 0; j < kColumns; ++j) {
      sums.largest[j] = std::max(sums.largest[j], step.a[k].exponent + step.b[k].exponent[j]);
    }
  }
  for (int j = 0; j < kColumns; ++j) {
    const auto magnitude = static_cast<std::uint32_t>(c.magnitude[j]);
    const int widened = step.fraction_bits - kF32Layout.fraction_bits;
    const std::uint32_t aligned = widened >= 0 ? magnitude << widened : magnitude >> -widened;
    const std::int32_t drop = std::min(sums.largest[j] - c.exponent[j], 31);
    const std::uint32_t term = aligned >> drop;
    sums.positive[j] = c.is_negative[j] != 0 ? 0 : term;
    sums.negative[j] = c.is_negative[j] != 0 ? term : 0;
  }
  for (int k = 0; k < step.depth; ++k) {
    const Parts a = step.a[k];
    const PartsRow& b = step.b[k];
    for (int j = 0; j < kColumns; ++j) {
      const auto product = static_cast<std::uint32_t>(a.magnitude * b.magnitude[j]);
      const std::int32_t drop = std::min(sums.largest[j] - (a.exponent + b.exponent[j]), 31);
      const std::uint32_t term = (product << (step.fraction_bits - step.product_bits)) >> drop;
      const bool is_negative = (a.is_negative ^ b.is_negative[j]) != 0;
      sums.positive[j] += is_negative ? 0 : term;
      sums.negative[j] += is_negative ? term : 0;
    }
  }
}

// Cuts a finite number towards zero to `bits` fractional bits of its significand; subnormals are
// cut at the same place as the least normal number.
float cut_fraction(float x, int bits) {
  const std::uint32_t mask = ~0U << (kF32Layout.fraction_bits - bits);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & mask);
}

// sum * 2^(exponent - fraction_bits), cut towards zero to f32.
float cut_to_f32(std::int64_t sum, int exponent, int fraction_bits) {
  if (sum == 0) return 0;
  const std::uint32_t sign = sum < 0 ? 0x80000000U : 0;
  const auto magnitude = static_cast<std::uint64_t>(sum < 0 ? -sum : sum);
  const int top = 63 - std::countl_zero(magnitude);
  const int leading = exponent - fraction_bits + top;  // exponent of the leading bit
  if (leading > 127) return std::bit_cast<float>(sign | 0x7F800000U);
  // The unit in the last place is 2^(leading - 23), or 2^-149 of a subnormal.
  const int drop = std::max(leading - 23, -149) - (exponent - fraction_bits);
  const std::uint64_t units = drop >= 64 ? 0 : (drop >= 0 ? magnitude >> drop : magnitude << -drop);
  const std::uint32_t field = leading < -126 ? 0 : static_cast<std::uint32_t>(leading + 127);
  return std::bit_cast<float>(sign | field << 23 | (static_cast<std::uint32_t>(units) & 0x7FFFFFU));
}

void add_step(const Step& step, float (&c)[kColumns]) {
  PartsRow parts;
  for (int j = 0; j < kColumns; ++j) {
    parts.set(j, split(std::bit_cast<std::uint32_t>(c[j]), kF32Layout));
  }
  SumsRow sums;
  sum_terms(step, parts, sums);
  for (int j = 0; j < kColumns; ++j) {
    const std::int64_t sum = static_cast<std::int64_t>(sums.positive[j]) - sums.negative[j];
    c[j] = cut_to_f32(sum, sums.largest[j], step.fraction_bits);
  }
}

float widen(HalfType type, std::uint16_t bits) {
  return type == HalfType::kBF16 ? to_float(BF16{bits}) : to_float(F16{bits});
}

bool is_finite(HalfType type, const MatrixA& a, const MatrixB& b, const MatrixC& c) {
  const std::uint16_t exponent = type == HalfType::kBF16 ? 0x7F80 : 0x7C00;
  const auto is_number = [exponent](std::uint16_t x) { return (x & exponent) != exponent; };
  return std::all_of(&a.element[0][0], &a.element[0][0] + kRows * kDepth, is_number) &&
         std::all_of(&b.element[0][0], &b.element[0][0] + kDepth * kColumns, is_number) &&
         std::all_of(&c.element[0][0], &c.element[0][0] + kRows * kColumns,
                     [](float x) { return std::isfinite(x); });
}

void add_fused(HalfType type, const MatrixA& a, const MatrixB& b, MatrixC& c) {
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kColumns; ++j) {
      for (int k = 0; k < kDepth; ++k) {
        c.element[i][j] =
            std::fma(widen(type, a.element[i][k]), widen(type, b.element[k][j]), c.element[i][j]);
      }
    }
  }
}

void add_fused_e4m3(const MatrixA8& a, const MatrixB8& b, MatrixC& c) {
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kColumns; ++j) {
      for (int k = 0; k < 2 * kDepth; ++k) {
        c.element[i][j] =
            std::fma(from_e4m3(a.element[i][k]), from_e4m3(b.element[k][j]), c.element[i][j]);
      }
    }
  }
}

// As mma_f16() of the columns k0 .. k0 + 15.
void multiply_widened(TensorCoreSums sums, const MatrixA8& a, const MatrixB8& b, int k0,
                      MatrixC& c) {
  MatrixA wide_a;
  MatrixB wide_b;
  for (int k = 0; k < kDepth; ++k) {
    for (int i = 0; i < kRows; ++i) {
      wide_a.element[i][k] = to_f16(from_e4m3(a.element[i][k0 + k])).bits;
    }
    for (int j = 0; j < kColumns; ++j) {
      wide_b.element[k][j] = to_f16(from_e4m3(b.element[k0 + k][j])).bits;
    }
  }
  multiply_add(sums, HalfType::kF16, wide_a, wide_b, c);
}

bool is_finite(const MatrixA8& a, const MatrixB8& b, const MatrixC& c) {
  return std::none_of(&a.element[0][0], &a.element[0][0] + kRows * 2 * kDepth, is_nan_e4m3) &&
         std::none_of(&b.element[0][0], &b.element[0][0] + 2 * kDepth * kColumns, is_nan_e4m3) &&
         std::all_of(&c.element[0][0], &c.element[0][0] + kRows * kColumns,
                     [](float x) { return std::isfinite(x); });
}

void multiply_ada(const MatrixA8& a, const MatrixB8& b, MatrixC& c) {
  PartsRow columns[2 * kDepth];
  for (int k = 0; k < 2 * kDepth; ++k) {
    for (int j = 0; j < kColumns; ++j) columns[k].set(j, split(b.element[k][j], kE4M3Layout));
  }
  for (int i = 0; i < kRows; ++i) {
    Parts row[2 * kDepth];
    for (int k = 0; k < 2 * kDepth; ++k) row[k] = split(a.element[i][k], kE4M3Layout);
    for (int k0 = 0; k0 < 2 * kDepth; k0 += kDepth) {
      add_step({.a = row + k0,
                .b = columns + k0,
                .depth = kDepth,
                .fraction_bits = kE4M3Bits,
                .product_bits = 2 * kE4M3Layout.fraction_bits},
               c.element[i]);
      for (float& sum : c.element[i]) sum = cut_fraction(sum, kE4M3Bits);
    }
  }
}

}  // namespace

void multiply_add_e4m3(TensorCoreSums sums, const MatrixA8& a, const MatrixB8& b, MatrixC& c) {
  if (sums == TensorCoreSums::kFused || !is_finite(a, b, c)) return add_fused_e4m3(a, b, c);
  if (sums == TensorCoreSums::kAmpere) return multiply_ada(a, b, c);
  multiply_widened(sums, a, b, 0, c);
  multiply_widened(sums, a, b, kDepth, c);
}

void multiply_add(TensorCoreSums sums, HalfType type, const MatrixA& a, const MatrixB& b,
                  MatrixC& c) {
  if (sums == TensorCoreSums::kFused || !is_finite(type, a, b, c)) {
    add_fused(type, a, b, c);
    return;
  }
  const Layout layout = kLayouts[static_cast<int>(type)];
  PartsRow columns[kDepth];
  for (int k = 0; k < kDepth; ++k) {
    for (int j = 0; j < kColumns; ++j) columns[k].set(j, split(b.element[k][j], layout));
  }
  const bool is_hopper = sums == TensorCoreSums::kHopper;
  const int depth = is_hopper ? 16 : 8;
  for (int i = 0; i < kRows; ++i) {
    Parts row[kDepth];
    for (int k = 0; k < kDepth; ++k) row[k] = split(a.element[i][k], layout);
    for (int k0 = 0; k0 < kDepth; k0 += depth) {
      add_step({.a = row + k0,
                .b = columns + k0,
                .depth = depth,
                .fraction_bits = is_hopper ? 25 : 24,
                .product_bits = 2 * layout.fraction_bits},
               c.element[i]);
    }
  }
}

}  // namespace caption::cuda_emulator
