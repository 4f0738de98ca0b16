#include "weights/quantise.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"

using caption::DType;
using caption::QuantisedMatrix;
using caption::Tensor;
using caption::weights::quantise;
using caption::weights::quantised_bytes;
using caption::weights::QuantisedFormat;

namespace {

Tensor random_rows(std::int64_t rows, std::int64_t columns) {
  Tensor tensor(DType::kF32, {rows, columns});
  std::mt19937 engine(7);
  std::normal_distribution<float> normal(0.01F, 0.02F);
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) tensor.as<float>()[i] = normal(engine);
  return tensor;
}

constexpr QuantisedFormat kFormats[] = {QuantisedFormat::kInt8, QuantisedFormat::kInt8Row,
                                        QuantisedFormat::kInt4, QuantisedFormat::kNf4};

// How far a value may be from its weight, in scales: half a step, and nf4's widest gap, 0.304,
// halved; beside them the roundings of scale, offset and division.
double worst_in_scales(QuantisedFormat format) {
  return (format == QuantisedFormat::kNf4 ? 0.153 : 0.5) + 1e-4;
}

}  // namespace

TEST_SUITE_BEGIN("weights/quantise");

TEST_CASE("a weight is off by at most half a step of its group's scale") {
  for (const auto& [rows, columns] : {std::pair{1, 1}, {3, 7}, {2, 128}, {5, 129}, {4, 640}}) {
    const Tensor weights = random_rows(rows, columns);
    for (const QuantisedFormat format : kFormats) {
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
          // A group of one weight, or of equal ones, has the scale 0 in int4: exact by its offset.
          worst = std::max(worst, scale > 0 ? off / scale : off / 1e-9);
        }
      }
      CHECK(worst <= worst_in_scales(format));
    }
  }
}

TEST_CASE("a group's extremes use the whole range of codes") {
  const Tensor weights = random_rows(6, 256);
  const QuantisedMatrix bytes = quantise(weights.view(), QuantisedFormat::kInt8);
  const QuantisedMatrix nibbles = quantise(weights.view(), QuantisedFormat::kInt4);
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
  for (const QuantisedFormat format : kFormats) {
    const QuantisedMatrix matrix = quantise(rows.view(), format);
    for (std::int64_t k = 0; k < 200; ++k) {
      CHECK(matrix.value(0, k) == 0);
      CHECK(std::abs(matrix.value(1, k) - 0.25F) <= 0.25F * 0x1p-22F);
    }
  }
}

TEST_CASE("its size is known beforehand") {
  for (const auto& [rows, columns] : {std::pair{3, 7}, {2, 128}, {5, 129}}) {
    const Tensor weights = random_rows(rows, columns);
    for (const QuantisedFormat format : kFormats) {
      const QuantisedMatrix matrix = quantise(weights.view(), format);
      CHECK(static_cast<std::size_t>(quantised_bytes(rows, columns, format)) ==
            matrix.codes.size_bytes() + matrix.scales.size_bytes() + matrix.offsets.size_bytes());
    }
  }
}

TEST_CASE("a weight that is not a number is refused") {
  Tensor rows = random_rows(2, 5);
  rows.as<float>()[7] = std::numeric_limits<float>::quiet_NaN();
  CHECK_THROWS_WITH_AS(quantise(rows.view(), QuantisedFormat::kNf4),
                       doctest::Contains("not a finite number"), caption::Error);
}

TEST_SUITE_END();
