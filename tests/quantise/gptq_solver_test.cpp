// GPTQ against GPTQModel; the goldens are made by scripts/make_goldens_calibrated.py, which runs
// its classes.
#include "quantise/gptq_solver.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "quantise/format.h"
#include "quantise/rounding.h"
#include "tests/quantise/calibrated_golden.h"
#include "tests/support/tested_tiers.h"

namespace caption::quantise {
namespace {

GptqOrder order_named(const std::string& name) {
  if (name == "stored") return GptqOrder::kStored;
  return name == "activation" ? GptqOrder::kActivation : GptqOrder::kGroupsByActivation;
}

// Normal numbers; with `outliers` every 29th column of them is 20 times larger.
Tensor draw(std::int64_t rows, std::int64_t columns, unsigned seed, bool outliers = false) {
  Tensor matrix(DType::kF32, {rows, columns});
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    matrix.as<float>()[i] = normal(engine) * (outliers && i % columns % 29 == 3 ? 20.0F : 1.0F);
  }
  return matrix;
}

// Inputs of which neighbouring columns are correlated.
Tensor draw_inputs(std::int64_t rows, std::int64_t columns, unsigned seed) {
  Tensor inputs = draw(rows, columns, seed, true);
  for (std::int64_t n = 0; n < rows; ++n) {
    float* const x = inputs.as<float>() + n * columns;
    for (std::int64_t k = 1; k < columns; ++k) x[k] += 0.8F * x[k - 1];
  }
  return inputs;
}

InputMoments moments_of(Stream& stream, ConstView inputs) {
  InputMoments moments(inputs.dim(1));
  moments.add(stream, inputs);
  return moments;
}

std::int64_t group_of(const RoundedMatrix& rounded, std::int64_t k) {
  return rounded.group_of.empty() ? k / rounded.group_columns
                                  : rounded.group_of[static_cast<std::size_t>(k)];
}

// Weights minus the values of the codes.
Tensor difference(ConstView weight, const RoundedMatrix& rounded) {
  Tensor result(DType::kF32, weight.shape());
  std::copy_n(weight.as<float>(), weight.num_elements(), result.as<float>());
  for (std::int64_t n = 0; n < rounded.rows; ++n) {
    for (std::int64_t k = 0; k < rounded.columns; ++k) {
      const auto group = static_cast<std::size_t>(n * rounded.groups() + group_of(rounded, k));
      const auto at = static_cast<std::size_t>(n * rounded.columns + k);
      result.as<float>()[at] -=
          rounded.scales[group] * static_cast<float>(rounded.codes[at] - rounded.zeros[group]);
    }
  }
  return result;
}

double loss_of(Stream& stream, const Tensor& weight, const RoundedMatrix& rounded,
               const InputMoments& moments) {
  return mean_squared_output(stream, difference(weight.view(), rounded).view(), moments);
}

void compare(Stream& stream, const CalibratedGolden& golden) {
  const InputMoments moments = moments_of(stream, golden.inputs().view());
  GptqOptions options;
  options.group_columns = golden.options.require_int("group_columns", 0, 128);
  options.symmetric = golden.options.get_bool("symmetric", true);
  options.order = order_named(golden.options.require_string("order"));
  const GptqHessian hessian(stream, moments, options);
  CHECK(hessian.damping() == 0.05);
  const GptqSolution solution = solve_gptq(stream, golden.tensor("weight"), hessian);
  const RoundedMatrix& ours = solution.matrix;
  const auto codes = golden.numbers<std::uint8_t>("codes");
  const auto g_idx = golden.numbers<std::int32_t>("g_idx");
  const auto scales = golden.numbers<float>("scales");
  const auto zeros = golden.numbers<float>("zeros");
  REQUIRE(ours.codes.size() == codes.size());
  REQUIRE(ours.scales.size() == scales.size());
  for (std::int64_t k = 0; k < ours.columns; ++k) {
    CHECK(group_of(ours, k) == g_idx[static_cast<std::size_t>(k)]);
  }
  std::size_t equal = 0;
  for (std::size_t i = 0; i < codes.size(); ++i) equal += ours.codes[i] == codes[i] ? 1 : 0;
  double scale_error = 0;
  for (std::size_t i = 0; i < scales.size(); ++i) {
    scale_error =
        std::max(scale_error, std::abs(static_cast<double>(ours.scales[i] / scales[i]) - 1));
    CHECK(ours.zeros[i] == zeros[i]);
  }
  CHECK(scale_error <= 1e-5);
  CHECK(static_cast<double>(equal) >= 0.999 * static_cast<double>(codes.size()));
  // The tool's loss is that of all rows, with the damped H and divided by the number of inputs.
  double squares = 0;
  const Tensor errors = difference(golden.tensor("weight"), ours);
  for (std::int64_t i = 0; i < errors.num_elements(); ++i) {
    const double error = hessian.is_dead(i % ours.columns) ? 0 : errors.as<float>()[i];
    squares += error * error;
  }
  const auto rows = static_cast<double>(ours.rows);
  const double damped = solution.loss * rows + hessian.added() * squares / 2;
  CHECK(damped / static_cast<double>(moments.num_rows()) ==
        doctest::Approx(static_cast<double>(golden.numbers<float>("loss")[0])).epsilon(1e-3));
}

}  // namespace

TEST_SUITE_BEGIN("quantise/gptq_solver");

// The tool multiplies by the factor of an inverse and this solver by the factor itself, both in
// f32: a corrected weight differs by a few units of its 24 bits times the condition of H, and a
// code with it only where w / scale lies that close to half a step. One such code changes what
// follows in its row. So a few codes in a thousand may differ, and the loss hardly.
TEST_CASE("chooses the codes of GPTQModel") {
  for (const CpuTier tier : testing::TestedTiers()) {
    CAPTURE(cpu_tier_name(tier));
    ThreadPool pool(2);
    Stream stream(pool, tier);
    int num_compared = 0;
    for (const CalibratedGolden& golden : read_calibrated_goldens("gptq")) {
      CAPTURE(golden.name);
      compare(stream, golden);
      ++num_compared;
    }
    CHECK(num_compared == 6);
  }
}

TEST_CASE("loses less than rounding to nearest, and says how much") {
  ThreadPool pool(2);
  Stream stream(pool);
  for (const std::int64_t columns : {96, 200, 384}) {
    const Tensor weight = draw(40, columns, 1);
    const InputMoments moments = moments_of(stream, draw_inputs(300, columns, 2).view());
    for (const bool symmetric : {true, false}) {
      const double nearest =
          loss_of(stream, weight, round_gptq(pool, weight.view(), 64, symmetric), moments);
      for (const GptqOrder order :
           {GptqOrder::kStored, GptqOrder::kActivation, GptqOrder::kGroupsByActivation}) {
        CAPTURE(columns);
        CAPTURE(symmetric);
        CAPTURE(static_cast<int>(order));
        const GptqHessian hessian(stream, moments,
                                  {.group_columns = 64, .symmetric = symmetric, .order = order});
        const GptqSolution solution = solve_gptq(stream, weight.view(), hessian);
        const double loss = loss_of(stream, weight, solution.matrix, moments);
        CHECK(loss < 0.9 * nearest);
        CHECK(solution.loss == doctest::Approx(loss).epsilon(1e-3));
      }
    }
  }
}

TEST_CASE("rounds to nearest where inputs are not correlated") {
  ThreadPool pool(2);
  Stream stream(pool);
  constexpr std::int64_t kColumns = 168;
  Tensor inputs = Tensor::zeros(DType::kF32, {kColumns, kColumns});
  for (std::int64_t k = 0; k < kColumns; ++k) inputs.as<float>()[k * kColumns + k] = 3;
  const InputMoments moments = moments_of(stream, inputs.view());
  const Tensor weight = draw(17, kColumns, 3);
  for (const bool symmetric : {true, false}) {
    const RoundedMatrix nearest = round_gptq(pool, weight.view(), 32, symmetric);
    // All squares are equal, so every order is that of the file.
    for (const GptqOrder order :
         {GptqOrder::kStored, GptqOrder::kActivation, GptqOrder::kGroupsByActivation}) {
      const GptqHessian hessian(stream, moments,
                                {.group_columns = 32, .symmetric = symmetric, .order = order});
      const RoundedMatrix solved = solve_gptq(stream, weight.view(), hessian).matrix;
      CHECK(solved.codes == nearest.codes);
      CHECK(solved.scales == nearest.scales);
      CHECK(solved.zeros == nearest.zeros);
    }
  }
}

TEST_CASE("rounds to nearest without inputs, or with inputs that are all zero") {
  ThreadPool pool(1);
  Stream stream(pool);
  const Tensor weight = draw(9, 96, 4);
  const RoundedMatrix nearest = round_gptq(pool, weight.view(), 32);
  const Tensor zeros = Tensor::zeros(DType::kF32, {5, 96});
  for (const std::int64_t rows : {0, 5}) {
    const InputMoments moments = moments_of(stream, zeros.view().rows(0, rows));
    const GptqHessian hessian(stream, moments, {.group_columns = 32});
    CHECK(hessian.is_zero());
    const GptqSolution solution = solve_gptq(stream, weight.view(), hessian);
    CHECK(solution.matrix.codes == nearest.codes);
    CHECK(solution.matrix.scales == nearest.scales);
    CHECK(solution.loss == 0);
  }
}

// Sums of products do not depend on the order of columns, so the bits are equal.
TEST_CASE("act-order is the stored order of a matrix whose columns are sorted") {
  ThreadPool pool(2);
  Stream stream(pool);
  constexpr std::int64_t kColumns = 200;
  const Tensor weight = draw(24, kColumns, 5);
  const Tensor inputs = draw_inputs(256, kColumns, 6);
  const GptqHessian hessian(stream, moments_of(stream, inputs.view()),
                            {.group_columns = 64, .order = GptqOrder::kActivation});
  const RoundedMatrix solved = solve_gptq(stream, weight.view(), hessian).matrix;
  const auto sorted = [&](const Tensor& matrix) {
    Tensor result(DType::kF32, matrix.shape());
    for (std::int64_t i = 0; i < matrix.num_elements(); ++i) {
      const std::int64_t row = i / kColumns * kColumns;
      result.as<float>()[i] =
          matrix.as<float>()[row + hessian.order()[static_cast<std::size_t>(i % kColumns)]];
    }
    return result;
  };
  const GptqHessian sorted_hessian(stream, moments_of(stream, sorted(inputs).view()),
                                   {.group_columns = 64, .order = GptqOrder::kStored});
  const RoundedMatrix expected = solve_gptq(stream, sorted(weight).view(), sorted_hessian).matrix;
  CHECK(solved.scales == expected.scales);
  std::size_t differing = 0;
  for (std::int64_t n = 0; n < 24; ++n) {
    for (std::size_t k = 0; k < kColumns; ++k) {
      const std::int32_t column = hessian.order()[k];
      const auto row = static_cast<std::size_t>(n * kColumns);
      differing += solved.codes[row + static_cast<std::size_t>(column)] != expected.codes[row + k];
      CHECK(solved.group_of[static_cast<std::size_t>(column)] == static_cast<std::int32_t>(k / 64));
    }
  }
  CHECK(differing == 0);
}

TEST_CASE("the same bits with any number of threads, in parts and from bf16") {
  Tensor weight = draw(33, 160, 7);
  Tensor stored(DType::kBF16, weight.shape());
  for (std::int64_t i = 0; i < weight.num_elements(); ++i) {
    stored.as<BF16>()[i] = to_bf16(weight.as<float>()[i]);
    weight.as<float>()[i] = to_float(stored.as<BF16>()[i]);
  }
  const Tensor inputs = draw_inputs(2100, 160, 8);
  const auto solve = [&](int num_threads, ConstView matrix) {
    ThreadPool pool(num_threads);
    Stream stream(pool);
    const GptqHessian hessian(stream, moments_of(stream, inputs.view()), {});
    return solve_gptq(stream, matrix, hessian);
  };
  const GptqSolution one = solve(1, weight.view());
  for (const GptqSolution& other : {solve(3, weight.view()), solve(2, stored.view())}) {
    CHECK(one.matrix.codes == other.matrix.codes);
    CHECK(one.matrix.scales == other.matrix.scales);
    CHECK(one.loss == other.loss);
  }
  // A row of a matrix does not depend on the others.
  const GptqSolution part = solve(2, weight.view().rows(0, 5));
  CHECK(std::equal(part.matrix.codes.begin(), part.matrix.codes.end(), one.matrix.codes.begin()));
}

TEST_CASE("damping grows where inputs say too little") {
  ThreadPool pool(1);
  Stream stream(pool);
  Tensor inputs(DType::kF32, {64, 96});
  for (std::int64_t i = 0; i < inputs.num_elements(); ++i) {
    inputs.as<float>()[i] = static_cast<float>(1 + i / 96 % 7);  // equal columns
  }
  const InputMoments moments = moments_of(stream, inputs.view());
  const GptqHessian damped(stream, moments, {.group_columns = 32, .damping = 1e-9});
  CHECK(damped.damping() == doctest::Approx(0.01));
  const Tensor weight = draw(8, 96, 9);
  const double loss = solve_gptq(stream, weight.view(), damped).loss;
  CHECK(std::isfinite(loss));
  CHECK(loss < loss_of(stream, weight, round_gptq(pool, weight.view(), 32), moments));
}

TEST_CASE("moments are the sums of products, whatever the parts") {
  ThreadPool pool(2);
  Stream stream(pool);
  constexpr std::int64_t kColumns = 150;
  const Tensor wide = draw_inputs(1500, kColumns + 7, 13);
  const ConstView inputs = wide.view().columns(3, kColumns);  // strided rows
  const InputMoments all = moments_of(stream, inputs);
  InputMoments parts = moments_of(stream, inputs.rows(0, 700));
  parts.merge(moments_of(stream, inputs.rows(700, 800)));
  CHECK(all.num_rows() == 1500);
  CHECK(parts.num_rows() == 1500);
  for (std::int64_t i = 0; i < kColumns; i += 7) {
    for (std::int64_t j = 0; j < kColumns; ++j) {
      double sum = 0;
      double magnitudes = 0;
      for (std::int64_t n = 0; n < 1500; ++n) {
        const float* const x = inputs.as<float>() + n * inputs.row_stride();
        sum += static_cast<double>(x[i]) * x[j];
        magnitudes += std::abs(static_cast<double>(x[i]) * x[j]);
      }
      // At most 1024 products in sums of at least 16 lanes, each of at most 64 + 4 additions in
      // f32, and the products' own rounding.
      const double bound = 70 * 0x1p-24 * magnitudes / 1500;
      CHECK(std::abs(all.mean(i, j) - sum / 1500) <= bound);
      CHECK(std::abs(parts.mean(i, j) - sum / 1500) <= bound);
      CHECK(all.mean(i, j) == all.mean(j, i));
    }
  }
}

TEST_CASE("refuses numbers that are not finite, and options out of range") {
  ThreadPool pool(2);
  Stream stream(pool);
  InputMoments moments = moments_of(stream, draw_inputs(64, 64, 10).view());
  const double before = moments.mean(3, 5);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Tensor inputs = draw(20, 64, 11);
    inputs.as<float>()[19 * 64 + 63] = bad;
    CHECK_THROWS_WITH_AS(moments.add(stream, inputs.view()),
                         "an input of the layer is not a finite number; download the model again, "
                         "or quantise it without --calibrate",
                         Error);
    Tensor weight = draw(8, 64, 12);
    weight.as<float>()[100] = bad;
    const GptqHessian hessian(stream, moments, {.group_columns = 64});
    CHECK_THROWS_WITH_AS(solve_gptq(stream, weight.view(), hessian),
                         "a weight is not a finite number; download the model again", Error);
  }
  CHECK(moments.mean(3, 5) == before);
  CHECK(moments.num_rows() == 64);
  for (const double damping : {0.0, 1.0, -0.1, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_WITH_AS(GptqHessian(stream, moments, {.damping = damping}),
                         "quantize: gptq takes a damping between 0 and 1", Error);
  }
  for (const std::int64_t group : {-1, 96, 256}) {
    CHECK_THROWS_WITH_AS(GptqHessian(stream, moments, {.group_columns = group}),
                         doctest::Contains("groups of whole rows or of a number of columns"),
                         Error);
  }
}

TEST_SUITE_END();

}  // namespace caption::quantise
