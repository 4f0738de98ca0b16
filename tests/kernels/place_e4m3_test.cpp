// Numbers of e4m3 that the CPU multiplies as they are; tests/kernels/quantised_linear_test.cpp has
// their products with any activations.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "backend/mirror.h"
#include "base/error.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/linear.h"
#include "kernels/weight.h"
#include "tensor/e4m3.h"
#include "tests/kernels/random_codes.h"
#include "tests/kernels/testing.h"

namespace caption::kernels {
namespace {

using namespace caption::testing;

// The codes that are not NaN.
std::vector<std::uint8_t> all_codes() {
  std::vector<std::uint8_t> codes;
  for (int code = 0; code < 256; ++code) {
    if (!is_nan_e4m3(static_cast<std::uint8_t>(code))) {
      codes.push_back(static_cast<std::uint8_t>(code));
    }
  }
  return codes;
}

// A matrix [N, 2] whose rows hold `codes` in turn, with scales of 1; row n has codes n and n + 1.
QuantisedMatrix matrix_of(const std::vector<std::uint8_t>& codes) {
  const auto rows = static_cast<std::int64_t>(codes.size());
  QuantisedMatrix matrix;
  matrix.num_columns = 2;
  matrix.group_columns = 2;
  matrix.has_e4m3_codes = true;
  matrix.codes = Tensor(DType::kI8, {rows, 2});
  matrix.scales = Tensor(DType::kF32, {rows, 1});
  for (std::int64_t n = 0; n < rows; ++n) {
    matrix.codes.as<std::int8_t>()[2 * n] =
        static_cast<std::int8_t>(codes[static_cast<std::size_t>(n)]);
    matrix.codes.as<std::int8_t>()[2 * n + 1] =
        static_cast<std::int8_t>(codes[static_cast<std::size_t>((n + 1) % rows)]);
    matrix.scales.as<float>()[n] = 1;
  }
  return matrix;
}

Weight place(Stream& stream, const QuantisedMatrix& matrix) {
  return place_e4m3(stream, matrix.num_rows(), [&](std::int64_t first, std::int64_t count) {
    return slice(matrix, first, count);
  });
}

TEST_SUITE_BEGIN("kernels/place_e4m3");

TEST_CASE("every number is multiplied exactly, in either column, by one row as by many") {
  const std::vector<std::uint8_t> codes = all_codes();
  const QuantisedMatrix matrix = matrix_of(codes);
  for_each_stream([&](Stream& stream) {
    const Weight weight = place(stream, matrix);
    for (const std::int64_t num_rows : {2, 40}) {
      // Even rows select the first column, odd ones the second.
      Tensor x = Tensor::zeros(DType::kF32, {num_rows, 2});
      for (std::int64_t m = 0; m < num_rows; ++m) x.as<float>()[2 * m + m % 2] = 1;
      Tensor y(DType::kF32, {num_rows, matrix.num_rows()});
      if (num_rows == 2) {
        for (std::int64_t m = 0; m < num_rows; ++m) {
          linear(stream, x.view().rows(m, 1), weight, ConstView{}, y.view().rows(m, 1));
        }
      } else {
        linear(stream, x.view(), weight, ConstView{}, y.view());
      }
      std::int64_t unequal = 0;
      for (std::int64_t m = 0; m < num_rows; ++m) {
        for (std::int64_t n = 0; n < matrix.num_rows(); ++n) {
          const float wanted = matrix.code_value(n, m % 2);
          unequal += y.as<float>()[m * matrix.num_rows() + n] == wanted ? 0 : 1;
        }
      }
      CHECK(unequal == 0);
    }
  });
}

TEST_CASE("a matrix of e4m3 takes a byte for each number, and its scales") {
  ThreadPool pool(1);
  Stream stream(pool);
  QuantisedMatrix matrix = random_matrix(Kind::kE4M3, 65, 257, 128);
  const Weight weight = place(stream, matrix);
  CHECK(weight.size_bytes() == 96 * (258 + 3 * 4));
  CHECK(weight.form().describe() == "panels of e4m3 in groups of 128 columns");
  CHECK(weight.rounds_input());
  CHECK_FALSE(weight.is_borrowed());
  CodeLayout layout{.is_8_bit = true, .group_columns = 128};
  CHECK(weight.size_bytes() == placed_bytes(stream.context(), 65, 257, layout));
  // Scales that bf16 holds take two bytes.
  matrix.scales = converted(converted(matrix.scales, DType::kBF16), DType::kF32);
  matrix.number_dtypes.scales = layout.numbers.scales = DType::kBF16;
  CHECK(place(stream, matrix).size_bytes() == 96 * (258 + 3 * 2));
  CHECK(placed_bytes(stream.context(), 65, 257, layout) == 96 * (258 + 3 * 2));
  // Integers of 8 bits are multiplied by another kernel.
  const QuantisedMatrix integers = random_matrix(Kind::k8, 65, 257, 128);
  const Weight other = place_quantised(
      stream, MatrixFormat::kInt8, 65,
      [&](std::int64_t first, std::int64_t count) { return slice(integers, first, count); });
  CHECK_FALSE(weight.form().is_like(other.form()));
}

TEST_CASE("groups of columns that panels cannot have are not taken") {
  const auto takes = [](std::int64_t columns, std::int64_t group) {
    return takes_e4m3(Context{}, columns, {.is_8_bit = true, .group_columns = group});
  };
  CHECK(takes(300, 2));
  CHECK(takes(300, 128));
  CHECK(takes(300, 256));
  CHECK(takes(301, 301));
  CHECK_FALSE(takes(300, 1));
  CHECK_FALSE(takes(300, 99));
  CHECK_FALSE(takes(300, 130));
  CHECK_FALSE(takes_e4m3(Context{.device = Device::kCuda}, 300, {.group_columns = 128}));
}

TEST_CASE("a matrix of e4m3 on the mirror has the same numbers") {
  const QuantisedMatrix matrix = random_matrix(Kind::kE4M3, 33, 127, 32);
  for (const CpuTier tier : TestedTiers()) {
    ThreadPool pool(2);
    Stream stream(Context{.device = Device::kMirror, .cpu_tier = tier}, pool);
    const Weight weight = place(stream, matrix);
    CHECK(weight.device() == Device::kMirror);
    const MirrorAccess access;
    std::vector<float> row(127);
    std::int64_t unequal = 0;
    for (std::int64_t n = 0; n < 33; ++n) {
      cpu::PackedWeight::of(weight).unpack_row(n, row.data());
      for (std::int64_t k = 0; k < 127; ++k) {
        unequal += row[static_cast<std::size_t>(k)] == matrix.value(n, k) ? 0 : 1;
      }
    }
    CHECK(unequal == 0);
  }
}

TEST_CASE("a NaN is refused as reading refuses it, wherever it is") {
  for_each_stream([](Stream& stream) {
    // 16 columns are packed at a time, and then the rest; rows of 2,048 bytes are gathered first.
    for (const std::int64_t columns : {1, 6, 16, 17, 31, 40, 70, 2048, 4110}) {
      CAPTURE(columns);
      for (const std::int64_t row : {0, 31, 64, 69}) {
        QuantisedMatrix matrix = random_matrix(Kind::kE4M3, 70, columns, 128);
        std::int8_t& code =
            matrix.codes.as<std::int8_t>()[row * columns + (row * 37 + 5) % columns];
        code = static_cast<std::int8_t>(row % 2 == 0 ? 0xFF : 0x7F);
        const auto borrow = [&](std::int64_t first, std::int64_t count) {
          QuantisedMatrix part = slice(matrix, first, count);
          part.codes = Tensor();
          part.file_codes = {.is_4_bit = false, .num_rows = count};
          for (std::int64_t n = first; n < first + count; ++n) {
            part.file_codes.rows.push_back(
                static_cast<const std::uint8_t*>(matrix.codes.view().raw()) + n * columns);
          }
          return part;
        };
        const auto read = [&](std::int64_t first, std::int64_t count) {
          if (first <= row && row < first + count && code != 0x7E) {
            throw Error(ErrorCode::kBadModel, "a NaN was read");
          }
          return slice(matrix, first, count);
        };
        CHECK_THROWS_WITH_AS(place_e4m3(stream, 70, {read, borrow}), "a NaN was read", Error);
        code = 0x7E;
        CHECK_NOTHROW(place_e4m3(stream, 70, {read, borrow}));
      }
    }
  });
}

TEST_CASE("codes that are not e4m3 are refused") {
  ThreadPool pool(1);
  Stream stream(pool);
  const QuantisedMatrix integers = random_matrix(Kind::k8, 2, 4, 4);
  CHECK_THROWS_WITH_AS(place(stream, integers), doctest::Contains("or of other codes"), Error);
}

TEST_SUITE_END();

}  // namespace
}  // namespace caption::kernels
