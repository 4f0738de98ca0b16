#include "weights/quantise.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"

using caption::DType;
using caption::MatrixFormat;
using caption::QuantisedMatrix;
using caption::Tensor;
using caption::weights::quantise;

namespace {

Tensor random_rows(std::int64_t rows, std::int64_t columns) {
  Tensor tensor(DType::kF32, {rows, columns});
  std::mt19937 engine(7);
  std::normal_distribution<float> normal(0.01F, 0.02F);
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) tensor.as<float>()[i] = normal(engine);
  return tensor;
}

constexpr MatrixFormat kFormats[] = {MatrixFormat::kInt8, MatrixFormat::kInt8Row,
                                     MatrixFormat::kInt4, MatrixFormat::kNf4};

// Largest distance of a value from its weight, in scales: half a step; for nf4 half its widest gap,
// 0.304; plus the roundings of scale, offset and division.
double worst_in_scales(MatrixFormat format) {
  return (format == MatrixFormat::kNf4 ? 0.15191 : 0.5) + 1e-4;
}

// The decision tree of bitsandbytes (csrc/kernels.cu, dQuantizeNF4) as published: each level
// decides one bit of the code by a midpoint.
unsigned published_nf4_code(float x) {
  if (x > 0.03979014977812767F) {
    if (x > 0.3893125355243683F) {
      if (x > 0.6427869200706482F) return x > 0.8614784181118011F ? 15 : 14;
      return x > 0.5016634166240692F ? 13 : 12;
    }
    if (x > 0.2035212516784668F) return x > 0.2920137718319893F ? 11 : 10;
    return x > 0.1202552504837513F ? 9 : 8;
  }
  if (x > -0.33967943489551544F) {
    if (x > -0.13791173323988914F) return x > -0.045525018125772476F ? 7 : 6;
    return x > -0.23460740596055984F ? 5 : 4;
  }
  if (x > -0.6106329262256622F) return x > -0.4599952697753906F ? 3 : 2;
  return x > -0.8480964004993439F ? 1 : 0;
}

unsigned code_of(const QuantisedMatrix& matrix, std::int64_t row, std::int64_t column) {
  const std::uint8_t both = matrix.codes.as<std::uint8_t>()[row * matrix.codes.dim(1) + column / 2];
  return column % 2 == 0 ? both & 15u : both >> 4u;
}

}  // namespace

TEST_SUITE_BEGIN("weights/quantise");

TEST_CASE("a weight is off by at most half a step of its group's scale") {
  for (const auto& [rows, columns] : {std::pair{1, 1}, {3, 7}, {2, 128}, {5, 129}, {4, 640}}) {
    const Tensor weights = random_rows(rows, columns);
    for (const MatrixFormat format : kFormats) {
      CAPTURE(static_cast<int>(format));
      CAPTURE(columns);
      const QuantisedMatrix matrix = quantise(weights.view(), format);
      REQUIRE(matrix.num_rows() == rows);
      REQUIRE(matrix.num_columns == columns);
      double worst = 0;
      for (std::int64_t n = 0; n < rows; ++n) {
        for (std::int64_t k = 0; k < columns; ++k) {
          const std::int64_t group = n * matrix.num_groups() + k / matrix.group_columns;
          const double scale = matrix.scales.as<float>()[group];
          const double off = std::abs(static_cast<double>(matrix.value(n, k)) -
                                      static_cast<double>(weights.as<float>()[n * columns + k]));
          // A group of one weight, or of equal ones, has scale 0 in int4 and is exact through its
          // offset.
          worst = std::max(worst, scale > 0 ? off / scale : off / 1e-9);
        }
      }
      CHECK(worst <= worst_in_scales(format));
    }
  }
}

TEST_CASE("e4m3 rows have the nearest numbers, a scale per row, and use the whole range") {
  for (const auto& [rows, columns] : {std::pair{1, 1}, {3, 7}, {5, 129}, {4, 640}}) {
    CAPTURE(columns);
    const Tensor weights = random_rows(rows, columns);
    const QuantisedMatrix matrix = quantise(weights.view(), MatrixFormat::kE4M3Row);
    REQUIRE(matrix.has_e4m3_codes);
    REQUIRE(matrix.num_groups() == 1);
    for (std::int64_t n = 0; n < rows; ++n) {
      const double scale = matrix.scales.as<float>()[n];
      double largest = 0;
      for (std::int64_t k = 0; k < columns; ++k) {
        const double w = weights.as<float>()[n * columns + k];
        const double off = std::abs(static_cast<double>(matrix.value(n, k)) - w);
        // Half of an eighth of the power of two below, or half of the subnormal step; the scale,
        // w / scale and the value are rounded to f32.
        CHECK(off <= std::max(std::abs(w) / 16, scale * 0x1p-10) * (1 + 1e-5) + std::abs(w) * 4e-7);
        largest = std::max(largest, std::abs(static_cast<double>(matrix.code_value(n, k))));
      }
      CHECK(largest == 448);
    }
  }
  const Tensor zeros = Tensor::zeros(DType::kF32, {1, 130});
  const QuantisedMatrix matrix = quantise(zeros.view(), MatrixFormat::kE4M3Row);
  for (std::int64_t k = 0; k < 130; ++k) CHECK(matrix.value(0, k) == 0);
}

// The step of int4_a8 is an integer: the larger of the two that are tried covers the range of a
// group, and the other one is chosen only where the sum of squared errors is smaller.
TEST_CASE(
    "int4_a8: the errors of a group are at most those of its larger step; the numbers fit in 8 "
    "bits") {
  for (const auto& [rows, columns] : {std::pair{1, 1}, {3, 7}, {2, 128}, {5, 129}, {4, 640}}) {
    CAPTURE(columns);
    Tensor weights = random_rows(rows, columns);
    weights.as<float>()[0] = 0.5F;  // an outlier: the other groups of its row have small steps
    const QuantisedMatrix matrix = quantise(weights.view(), MatrixFormat::kInt4A8);
    for (std::int64_t n = 0; n < rows; ++n) {
      const double scale = matrix.scales.as<float>()[n];
      for (std::int64_t g = 0; g < matrix.num_groups(); ++g) {
        const float* const first = weights.as<float>() + n * columns + g * 128;
        const std::int64_t count = std::min<std::int64_t>(128, columns - g * 128);
        const auto [min, max] = std::minmax_element(first, first + count);
        // Half of the larger step, half a unit of its base's rounding, and f32 roundings.
        const double step = std::floor(static_cast<double>(*max - *min) / scale / 15) + 1;
        const double worst = scale * (std::max(step, 2.0) / 2 + 0.5 + 1e-4);
        double squares = 0;
        for (std::int64_t k = g * 128; k < g * 128 + count; ++k) {
          const double off = static_cast<double>(matrix.value(n, k)) -
                             static_cast<double>(weights.as<float>()[n * columns + k]);
          squares += off * off;
          const int number = matrix.eight_bits(n, k);
          CHECK(number >= -128);
          CHECK(number <= 127);
        }
        CHECK(squares <= static_cast<double>(count) * worst * worst);
      }
    }
  }
  const Tensor zeros = Tensor::zeros(DType::kF32, {1, 130});
  const QuantisedMatrix matrix = quantise(zeros.view(), MatrixFormat::kInt4A8);
  for (std::int64_t k = 0; k < 130; ++k) CHECK(matrix.value(0, k) == 0);
}

TEST_CASE("a group's extremes use the whole range of codes") {
  const Tensor weights = random_rows(6, 256);
  const QuantisedMatrix bytes = quantise(weights.view(), MatrixFormat::kInt8);
  const QuantisedMatrix nibbles = quantise(weights.view(), MatrixFormat::kInt4);
  for (std::int64_t n = 0; n < 6; ++n) {
    for (std::int64_t first = 0; first < 256; first += 128) {
      float largest = 0;
      float lowest = 8;
      float highest = -8;
      for (std::int64_t k = first; k < first + 128; ++k) {
        largest = std::max(largest, std::abs(bytes.code_value(n, k)));
        lowest = std::min(lowest, nibbles.code_value(n, k));
        highest = std::max(highest, nibbles.code_value(n, k));
      }
      CHECK(largest == 127);
      CHECK(lowest == -8);
      CHECK(highest == 7);
    }
  }
}

TEST_CASE("zeros and constants stay what they are") {
  Tensor rows = Tensor::zeros(DType::kF32, {2, 200});
  for (std::int64_t k = 0; k < 200; ++k) rows.as<float>()[200 + k] = 0.25F;
  for (const MatrixFormat format : kFormats) {
    const QuantisedMatrix matrix = quantise(rows.view(), format);
    for (std::int64_t k = 0; k < 200; ++k) {
      CHECK(matrix.value(0, k) == 0);
      CHECK(std::abs(matrix.value(1, k) - 0.25F) <= 0.25F * 0x1p-22F);
    }
  }
}

TEST_CASE("nf4's codes and scales are bitsandbytes'") {
  constexpr std::int64_t kRows = 200;
  constexpr std::int64_t kColumns = 256;
  const Tensor weights = random_rows(kRows, kColumns);
  const QuantisedMatrix matrix = quantise(weights.view(), MatrixFormat::kNf4);
  for (std::int64_t n = 0; n < kRows; ++n) {
    for (std::int64_t first = 0; first < kColumns; first += 64) {
      const float* const block = weights.as<float>() + n * kColumns + first;
      float largest = 0;
      for (int k = 0; k < 64; ++k) largest = std::max(largest, std::abs(block[k]));
      REQUIRE(matrix.scales.as<float>()[n * matrix.num_groups() + first / 64] == largest);
      const float reciprocal = 1.0F / largest;
      for (int k = 0; k < 64; ++k) {
        REQUIRE(code_of(matrix, n, first + k) == published_nf4_code(block[k] * reciprocal));
      }
    }
  }
}

TEST_CASE("an nf4 weight at a midpoint of two values has the lower code") {
  constexpr float kMidpoints[] = {
      -0.8480964004993439F,  -0.6106329262256622F,  -0.4599952697753906F,   -0.33967943489551544F,
      -0.23460740596055984F, -0.13791173323988914F, -0.045525018125772476F, 0.03979014977812767F,
      0.1202552504837513F,   0.2035212516784668F,   0.2920137718319893F,    0.3893125355243683F,
      0.5016634166240692F,   0.6427869200706482F,   0.8614784181118011F};
  Tensor row(DType::kF32, {1, 46});
  row.as<float>()[0] = 1.0F;  // determines the scale
  for (int i = 0; i < 15; ++i) {
    row.as<float>()[1 + 3 * i] = std::nextafter(kMidpoints[i], -1.0F);
    row.as<float>()[2 + 3 * i] = kMidpoints[i];
    row.as<float>()[3 + 3 * i] = std::nextafter(kMidpoints[i], 1.0F);
  }
  const QuantisedMatrix matrix = quantise(row.view(), MatrixFormat::kNf4);
  for (unsigned i = 0; i < 15; ++i) {
    CAPTURE(i);
    CHECK(code_of(matrix, 0, 1 + 3 * i) == i);
    CHECK(code_of(matrix, 0, 2 + 3 * i) == i);
    CHECK(code_of(matrix, 0, 3 + 3 * i) == i + 1);
  }
}

TEST_CASE("its size is known beforehand") {
  for (const auto& [rows, columns] : {std::pair{3, 7}, {2, 128}, {5, 129}, {3, 192}}) {
    const Tensor weights = random_rows(rows, columns);
    for (const MatrixFormat format : kFormats) {
      // The blocks of an nf4 file continue across the ends of rows; groups here do not.
      if (format == MatrixFormat::kNf4 && columns % 64 != 0) continue;
      const QuantisedMatrix matrix = quantise(weights.view(), format);
      CHECK(static_cast<std::size_t>(matrix_bytes(rows, columns, format)) ==
            matrix.codes.size_bytes() + matrix.scales.size_bytes() + matrix.offsets.size_bytes());
    }
  }
}

TEST_CASE("a weight that is not a number is refused") {
  Tensor rows = random_rows(2, 5);
  rows.as<float>()[7] = std::numeric_limits<float>::quiet_NaN();
  CHECK_THROWS_WITH_AS(quantise(rows.view(), MatrixFormat::kNf4),
                       doctest::Contains("not a finite number"), caption::Error);
}

TEST_SUITE_END();
