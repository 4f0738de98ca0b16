// Dense layers of e4m3 numbers on the emulated GPU.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/codes.h"
#include "kernels/cuda/dense_layer.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "tensor/e4m3.h"
#include "tests/cuda/dense_testing.h"
#include "tests/kernels/random_codes.h"

using caption::Context;
using caption::DType;
using caption::from_e4m3;
using caption::MatrixFormat;
using caption::QuantisedMatrix;
using caption::Stream;
using caption::Tensor;
using caption::to_e4m3;
using caption::cuda_emulator::TensorCoreSums;
using caption::kernels::LinearPart;
using caption::kernels::Weight;
using caption::kernels::cuda::CodeBlocks;
using caption::kernels::cuda::e4m3_slice_columns;
using caption::kernels::cuda::kE4M3StepColumns;
using caption::kernels::cuda::multiply_codes;
using namespace caption::testing;

namespace {

constexpr CodeBlocks kAllBlocks[] = {CodeBlocks::kFewRows, CodeBlocks::kSmall, CodeBlocks::kLarge};

Context gpu_of(TensorCoreSums sums) {
  return {.device = caption::Device::kCuda,
          .compute_capability = sums == TensorCoreSums::kHopper ? 90 : 89};
}

// Random codes of all numbers, subnormal ones too, and scales.
QuantisedMatrix random_e4m3(std::int64_t n, std::int64_t k) {
  std::mt19937 engine(static_cast<unsigned>(n * 1000 + k));
  QuantisedMatrix matrix;
  matrix.num_columns = k;
  matrix.group_columns = k;
  matrix.has_e4m3_codes = true;
  matrix.codes = Tensor(DType::kI8, {n, k});
  for (std::int64_t i = 0; i < n * k; ++i) {
    auto code = static_cast<std::uint8_t>(engine() >> 13);
    if (caption::is_nan_e4m3(code)) code ^= 1;
    matrix.codes.as<std::int8_t>()[i] = static_cast<std::int8_t>(code);
  }
  matrix.scales = random_f32({n, 1}, static_cast<unsigned>(k));
  return matrix;
}

Weight place(Stream& stream, const QuantisedMatrix& matrix) {
  const auto rows = [&](std::int64_t first, std::int64_t count) {
    QuantisedMatrix some = slice(matrix, first, count);
    some.has_e4m3_codes = true;
    return some;
  };
  return caption::kernels::place_quantised(stream, MatrixFormat::kE4M3Row, matrix.num_rows(), rows);
}

// x * matrix^T + bias, with x and y strided.
Tensor product(const QuantisedMatrix& matrix, const Tensor& x, const Tensor& bias,
               CodeBlocks blocks, TensorCoreSums sums, std::uint64_t seed) {
  const DeviceTensor device_x(x, x.dim(1) + 4 - x.dim(1) % 4);
  const DeviceTensor device_bias(bias);
  const DeviceTensor y(DType::kF32, {x.dim(0), matrix.num_rows()}, matrix.num_rows() + 1);
  run_with({.seed = seed, .sums = sums}, gpu_of(sums), [&](Stream& stream) {
    const Weight weight = place(stream, matrix);
    const LinearPart part{weight, device_bias.view(), y.view()};
    multiply_codes(stream, {.x = device_x.view(), .parts = {&part, 1}}, blocks);
  });
  return y.to_host();
}

// A row of x as codes and their scale.
struct CodedRow {
  std::vector<std::uint8_t> codes;
  float scale = 0;
};
CodedRow coded_row(const Tensor& x, std::int64_t row) {
  const std::int64_t k = x.dim(1);
  const float* const from = x.as<float>() + row * k;
  float largest = 0;
  for (std::int64_t i = 0; i < k; ++i) largest = std::max(largest, std::abs(from[i]));
  CodedRow coded;
  coded.scale = largest / 448.0F;
  const float inverse = largest == 0 ? 0 : 448.0F / largest;
  for (std::int64_t i = 0; i < k; ++i) coded.codes.push_back(to_e4m3(from[i] * inverse));
  return coded;
}

// The power of two by which a tensor core aligns a number: that of the least normal number for
// subnormal ones.
double power_of(std::uint8_t code) { return std::ldexp(1.0, std::max(code >> 3 & 15, 1) - 7); }

// What a step of 64 columns may lose: it is four steps of 16 products on Ada and Hopper, in which
// 17 terms are cut below the fraction of the largest, and the sum is cut below its own.
double step_error(TensorCoreSums sums, double magnitude, double largest_power) {
  const double bound = std::max(magnitude, largest_power) * 1.01;  // sums may exceed it by as much
  if (sums == TensorCoreSums::kAmpere) return 4 * (17 + 1) * 0x1p-13 * bound;
  if (sums == TensorCoreSums::kHopper) return 4 * (17 * 0x1p-25 + 0x1p-23) * bound;
  return 64 * 0x1p-24 * bound;
}

struct Expected {
  double value = 0;
  double tolerance = 0;
};
Expected expected(const CodedRow& x, const QuantisedMatrix& matrix, std::int64_t feature,
                  float bias, TensorCoreSums sums) {
  const std::int64_t k = matrix.num_columns;
  const auto* const codes =
      reinterpret_cast<const std::uint8_t*>(matrix.codes.as<std::int8_t>()) + feature * k;
  double sum = 0;
  double all = 0;
  double lost = 0;
  for (std::int64_t begin = 0; begin < k; begin += kE4M3StepColumns) {
    double magnitude = 0;
    double power = 0;
    for (std::int64_t i = begin; i < std::min<std::int64_t>(k, begin + kE4M3StepColumns); ++i) {
      const std::uint8_t code = x.codes[static_cast<std::size_t>(i)];
      const double term = static_cast<double>(from_e4m3(code)) * from_e4m3(codes[i]);
      sum += term;
      magnitude += std::abs(term);
      if (term != 0) power = std::max(power, power_of(code) * power_of(codes[i]));
    }
    all += magnitude;
    lost += step_error(sums, magnitude, power);
  }
  // At most 16 steps are added to a slice, slices to the sum, and three factors and the bias round.
  const auto slices = static_cast<double>((k + 1023) / 1024 + 4);
  const double scale =
      static_cast<double>(x.scale) * static_cast<double>(matrix.scales.as<float>()[feature]);
  Expected want{.value = sum * scale + bias};
  want.tolerance = std::abs(scale) * (lost + (16 + slices + 4) * 0x1p-24 * 1.01 * (all + lost)) +
                   0x1p-24 * (std::abs(want.value) + std::abs(bias));
  return want;
}

struct Case {
  std::int64_t m, n, k;
};
// Rows and features around the edges of blocks and of warps; fewer columns than a step, than the
// slices of all warps and than the stages under way, and more; columns beyond a step.
constexpr Case kCases[] = {{1, 1, 1},     {33, 17, 33},   {63, 65, 96},
                           {65, 20, 201}, {129, 130, 65}, {64, 250, 330},
                           {8, 16, 128},  {130, 15, 700}, {9, 33, 1100}};

}  // namespace

TEST_SUITE_BEGIN("cuda/fp8");

TEST_CASE("sums are within what tensor cores may cut, in every block and order of threads") {
  std::uint64_t seed = 0;
  for (const Case& c : kCases) {
    CAPTURE(c.m);
    CAPTURE(c.k);
    const QuantisedMatrix matrix = random_e4m3(c.n, c.k);
    const Tensor x = random_f32({c.m, c.k}, 1);
    const Tensor bias = random_f32({c.n}, 2);
    const TensorCoreSums sums = kArithmetics[seed / 3 % std::size(kArithmetics)];
    const Tensor got = product(matrix, x, bias, CodeBlocks::kFewRows, sums, seed++);
    int wrong = 0;
    for (std::int64_t m = 0; m < c.m; ++m) {
      const CodedRow row = coded_row(x, m);
      for (std::int64_t n = 0; n < c.n; ++n) {
        const Expected want = expected(row, matrix, n, bias.as<float>()[n], sums);
        if (!(std::abs(got.as<float>()[m * c.n + n] - want.value) <= want.tolerance)) ++wrong;
      }
    }
    CHECK(wrong == 0);
    CHECK(same_bits(product(matrix, x, bias, CodeBlocks::kSmall, sums, seed++), got));
    CHECK(same_bits(product(matrix, x, bias, CodeBlocks::kLarge, sums, seed++), got));
  }
}

TEST_CASE("a row has the same bits alone and beside others, in each arithmetic") {
  // Five slices, of which the last is a part; the second pass of a warp begins in it.
  constexpr std::int64_t kColumns = 4500;
  CHECK(e4m3_slice_columns(4544) == 1024);
  CHECK(e4m3_slice_columns(1024) == 256);
  CHECK(e4m3_slice_columns(64) == 64);
  const QuantisedMatrix matrix = random_e4m3(19, kColumns);
  const Tensor x = random_f32({70, kColumns}, 4);
  const Tensor bias = random_f32({19}, 2);
  for (const TensorCoreSums sums : kArithmetics) {
    const Tensor want = product(matrix, x, bias, CodeBlocks::kAsNeeded, sums, 3);
    for (const std::int64_t rows : {1, 8, 9, 32, 33}) {
      CAPTURE(rows);
      const Tensor got = product(matrix, first_rows(x, rows), bias, CodeBlocks::kAsNeeded, sums,
                                 static_cast<std::uint64_t>(rows));
      CHECK(same_bits(got, first_rows(want, rows)));
    }
    CHECK(same_bits(product(matrix, x, bias, CodeBlocks::kFewRows, sums, 5), want));
  }
  const auto of = [&](TensorCoreSums sums) {
    return product(matrix, first_rows(x, 1), bias, CodeBlocks::kFewRows, sums, 0);
  };
  CHECK_FALSE(same_bits(of(TensorCoreSums::kAmpere), of(TensorCoreSums::kHopper)));
}

TEST_CASE("the largest numbers do not saturate, and rows without finite numbers change no others") {
  constexpr std::int64_t kColumns = 4096;
  QuantisedMatrix matrix = random_e4m3(3, kColumns);
  std::fill_n(matrix.codes.as<std::int8_t>(), matrix.codes.num_elements(), std::int8_t{0x7E});
  std::fill_n(matrix.scales.as<float>(), 3, 0.5F);
  Tensor x = random_f32({34, kColumns}, 1);
  std::fill_n(x.as<float>(), kColumns, 0.75F);
  std::fill_n(x.as<float>() + kColumns, kColumns, -3e38F);
  std::fill_n(x.as<float>() + 2 * kColumns, kColumns, 0.0F);
  x.as<float>()[3 * kColumns + 5] = std::numeric_limits<float>::quiet_NaN();
  x.as<float>()[4 * kColumns + 4095] = std::numeric_limits<float>::infinity();
  const Tensor bias = random_f32({3}, 2);
  for (const CodeBlocks blocks : kAllBlocks) {
    const Tensor got = product(matrix, x, bias, blocks, TensorCoreSums::kHopper, 1);
    for (std::int64_t i = 0; i < got.num_elements(); ++i) {
      const float y = got.as<float>()[i];
      const float of_bias = bias.as<float>()[i % 3];
      if (i / 3 == 0) CHECK(y == doctest::Approx(4096 * 0.75 * 224 + of_bias).epsilon(1e-6));
      if (i / 3 == 1) CHECK((std::isinf(y) && y < 0));  // -3e38 * 4,096 * 224
      if (i / 3 == 2) CHECK(y == of_bias);
      CHECK(std::isnan(y) == (i / 3 == 3 || i / 3 == 4));
    }
  }
}

TEST_CASE("parts in one launch, sums that are added and swiglu have the bits of few rows") {
  std::uint64_t seed = 7;
  const QuantisedMatrix matrices[] = {random_e4m3(75, 200), random_e4m3(18, 200),
                                      random_e4m3(75, 200)};
  const auto run = [&](CodeBlocks blocks) {
    return multiply_parts({.seed = seed++}, gpu_of(TensorCoreSums::kAmpere), blocks,
                          [&](Stream& stream, int i) { return place(stream, matrices[i]); });
  };
  const std::vector<Tensor> want = run(CodeBlocks::kFewRows);
  for (const CodeBlocks blocks : {CodeBlocks::kSmall, CodeBlocks::kLarge}) {
    const std::vector<Tensor> got = run(blocks);
    for (std::size_t i = 0; i < want.size(); ++i) CHECK(same_bits(got[i], want[i]));
  }
}

TEST_CASE("neither codes nor x are moved twice over, nor banks met twice") {
  const DeviceTensor x(random_f32({128, 512}, 6));
  const DeviceTensor few(random_f32({16, 512}, 6));
  const DeviceTensor y(DType::kF32, {128, 256});
  std::optional<Weight> weight;
  run_with({}, gpu_of(TensorCoreSums::kAmpere),
           [&](Stream& stream) { weight.emplace(place(stream, random_e4m3(256, 512))); });
  for (const CodeBlocks blocks : kAllBlocks) {
    const bool is_few = blocks == CodeBlocks::kFewRows;
    const LinearPart part{*weight, {}, is_few ? y.view().rows(0, 16) : y.view()};
    check_wastes_nothing(
        [&](Stream& stream) {
          multiply_codes(stream, {.x = (is_few ? few : x).view(), .parts = {&part, 1}}, blocks);
        },
        4);
  }
}

TEST_CASE(
    "a weight has the bytes that are planned, its rows can be looked up, old GPUs refuse it") {
  run_with({}, gpu_of(TensorCoreSums::kAmpere), [](Stream& stream) {
    const QuantisedMatrix matrix = random_e4m3(37, 700);
    const Weight weight = place(stream, matrix);
    CHECK(weight.rounds_input());
    CHECK(weight.form().describe() == "tiles of e4m3 for activations of 8 bits");
    CHECK(weight.size_bytes() == caption::kernels::placed_bytes(stream.context(), 37, 700,
                                                                MatrixFormat::kE4M3Row,
                                                                DType::kF32));
    CHECK(weight.form().is_like(place(stream, random_e4m3(5, 700)).form()));
    Tensor ids(DType::kI32, {37});
    for (int i = 0; i < 37; ++i) ids.as<std::int32_t>()[i] = 36 - i;
    const DeviceTensor device_ids(ids);
    const DeviceTensor y(DType::kF32, {37, 700});
    caption::kernels::embedding(stream, device_ids.view(), weight, y.view());
    const Tensor got = y.to_host();
    int wrong = 0;
    for (std::int64_t i = 0; i < got.num_elements(); ++i) {
      if (got.as<float>()[i] != matrix.value(36 - i / 700, i % 700)) ++wrong;
    }
    CHECK(wrong == 0);
  });
  run_with({}, Context{.device = caption::Device::kCuda, .compute_capability = 86},
           [](Stream& stream) {
             CHECK_THROWS_WITH_AS(place(stream, random_e4m3(3, 70)),
                                  doctest::Contains("use --dtype w8a8"), caption::Error);
           });
}

TEST_SUITE_END();
