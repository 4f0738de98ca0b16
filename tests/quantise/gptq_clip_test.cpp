// Groups that GPTQ clips, and its correction of errors on AWQ's scales: what `awq --calibrate` and
// `gptq --calibrate` round with. Nothing here is compared with a tool; the properties follow from
// the formulas.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "quantise/awq_search.h"
#include "quantise/gptq_solver.h"
#include "quantise/rounding.h"
#include "tensor/dtype.h"
#include "tests/quantise/drawn_matrix.h"

namespace caption::quantise {
namespace {

using testing::draw;

constexpr std::int64_t kGroup = 32;
constexpr GptqOptions kAwq = {.group_columns = kGroup, .symmetric = false, .clips = true};
constexpr GptqOptions kGptq = {.group_columns = kGroup, .symmetric = true, .clips = true};

// Mixed inputs, of which every 17th is 20 times larger. All draws share the mixing.
Tensor draw_inputs(std::int64_t rows, std::int64_t columns, unsigned seed) {
  const Tensor mixing = draw(columns, columns, 1000);
  const Tensor drawn = draw(rows, columns, seed);
  Tensor inputs = drawn.clone();
  for (std::int64_t t = 0; t < rows; ++t) {
    for (std::int64_t k = 0; k < columns; ++k) {
      float sum = 0;
      for (std::int64_t j = 0; j < columns; ++j) {
        sum += drawn.as<float>()[t * columns + j] * mixing.as<float>()[k * columns + j];
      }
      float& x = inputs.as<float>()[t * columns + k];
      x += sum / std::sqrt(static_cast<float>(columns));
      if (k % 17 == 2) x *= 20;
    }
  }
  return inputs;
}

InputMoments moments_of(Stream& stream, ConstView inputs) {
  InputMoments moments(inputs.dim(1));
  moments.add(stream, inputs);
  return moments;
}

// Inputs of which each has a single column k that is not 0, with the value k % 5 + 1.
InputMoments uncorrelated_moments(Stream& stream, std::int64_t columns) {
  Tensor inputs = Tensor::zeros(DType::kF32, {columns, columns});
  for (std::int64_t k = 0; k < columns; ++k) {
    inputs.as<float>()[k * columns + k] = static_cast<float>(k % 5 + 1);
  }
  return moments_of(stream, inputs.view());
}

Tensor values_of(const RoundedMatrix& rounded) {
  Tensor values(DType::kF32, {rounded.rows, rounded.columns});
  for (std::int64_t i = 0; i < values.num_elements(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto group = static_cast<std::size_t>(i / rounded.group_columns);
    values.as<float>()[i] =
        rounded.scales[group] * static_cast<float>(rounded.codes[at] - rounded.zeros[group]);
  }
  return values;
}

double loss_of(Stream& stream, const Tensor& weight, const Tensor& values,
               const InputMoments& moments) {
  Tensor difference = values.clone();
  for (std::int64_t i = 0; i < weight.num_elements(); ++i) {
    difference.as<float>()[i] -= weight.as<float>()[i];
  }
  return mean_squared_output(stream, std::as_const(difference).view(), moments);
}

struct Group {
  std::span<const float> weights;
  std::int64_t first_column = 0;
  float scale = 0;  // of the whole range
  float zero = 0;
};

// The error of a group whose columns k count (k % 5 + 1)^2 plus what damping adds.
double weighted_error(const Group& group, float scale, double added) {
  double sum = 0;
  for (std::size_t i = 0; i < group.weights.size(); ++i) {
    const double code = std::clamp(
        std::nearbyint(static_cast<double>(group.weights[i] / scale)) + group.zero, 0.0, 15.0);
    const double error = (code - group.zero) * scale - group.weights[i];
    const auto input =
        static_cast<double>((group.first_column + static_cast<std::int64_t>(i)) % 5 + 1);
    sum += error * error * (input * input + added);
  }
  return sum;
}

}  // namespace

TEST_SUITE_BEGIN("quantise/gptq_clip");

// Without correlations nothing is corrected, so the candidates can be tried one by one. Errors that
// are equal to 1e-5 may be taken for one another: the solver's sums are in f32.
TEST_CASE("a group gets the scale with the least weighted error, in f16") {
  GptqOptions options;
  SUBCASE("with zeros") { options = kAwq; }
  SUBCASE("symmetric") { options = kGptq; }
  ThreadPool pool(2);
  Stream stream(pool);
  constexpr std::int64_t kColumns = 160;
  const InputMoments moments = uncorrelated_moments(stream, kColumns);
  const GptqHessian hessian(stream, moments, options);
  // H is twice the mean of the products.
  const double added = hessian.added() * kColumns / 2;
  const Tensor weight = draw(24, kColumns, 1);
  const RoundedMatrix clipped = solve_gptq(stream, weight.view(), hessian).matrix;
  const RoundedMatrix whole = round_gptq(pool, weight.view(), kGroup, options.symmetric);
  CHECK(clipped.zeros == whole.zeros);
  std::size_t num_clipped = 0;
  for (std::size_t g = 0; g < whole.scales.size(); ++g) {
    CAPTURE(g);
    const Group group = {
        .weights = std::span(weight.as<float>() + static_cast<std::int64_t>(g) * kGroup, kGroup),
        .first_column = static_cast<std::int64_t>(g) * kGroup % kColumns,
        .scale = whole.scales[g],
        .zero = static_cast<float>(whole.zeros[g])};
    double least = std::numeric_limits<double>::infinity();
    bool is_candidate = false;
    for (int i = 0; i < 10; ++i) {
      const float scale = to_float(to_f16(group.scale * (1 - static_cast<float>(i) / 20)));
      least = std::min(least, weighted_error(group, scale, added));
      is_candidate = is_candidate || scale == clipped.scales[g];
      num_clipped += i > 0 && scale == clipped.scales[g] ? 1 : 0;
    }
    CHECK(is_candidate);
    CHECK(weighted_error(group, clipped.scales[g], added) <= least * (1 + 1e-5));
  }
  CHECK(num_clipped > whole.scales.size() / 4);
  CHECK(loss_of(stream, weight, values_of(clipped), moments) <
        loss_of(stream, weight, values_of(whole), moments));
}

TEST_CASE("on AWQ's scales, corrected codes lose less than those that are nearest") {
  ThreadPool pool(2);
  Stream stream(pool);
  constexpr std::int64_t kColumns = 192;
  const Tensor weight = draw(48, kColumns, 2);
  Tensor inputs = draw_inputs(400, kColumns, 3);
  Tensor others = draw_inputs(400, kColumns, 4);
  InputMagnitudes magnitudes(kColumns);
  magnitudes.add(std::as_const(inputs).view());
  const InputMoments before = moments_of(stream, inputs.view());
  const ConstView weights[] = {weight.view()};
  const AwqScales scales =
      search_scales(pool, weights, magnitudes.means(), linear_loss(stream, weight.view(), before),
                    {.group_columns = kGroup});
  Tensor scaled = weight.clone();
  multiply_columns(pool, scaled.view(), scales.scales);
  for (Tensor* const rows : {&inputs, &others}) {
    for (std::int64_t i = 0; i < rows->num_elements(); ++i) {
      rows->as<float>()[i] /= scales.scales[static_cast<std::size_t>(i % kColumns)];
    }
  }
  const InputMoments moments = moments_of(stream, inputs.view());
  const InputMoments unseen = moments_of(stream, others.view());
  Tensor nearest(DType::kF32, scaled.shape());
  pseudo_quantise(pool, std::as_const(scaled).view(), kGroup, nearest.view());
  const GptqHessian hessian(stream, moments, kAwq);
  const GptqSolution solution = solve_gptq(stream, std::as_const(scaled).view(), hessian);
  const Tensor values = values_of(solution.matrix);
  const double loss = loss_of(stream, scaled, values, moments);
  // What was searched is the loss of the nearest codes.
  const double searched = *std::min_element(scales.losses.begin(), scales.losses.end());
  CHECK(loss_of(stream, scaled, nearest, moments) == doctest::Approx(searched).epsilon(1e-3));
  CHECK(loss < 0.8 * searched);
  CHECK(solution.loss == doctest::Approx(loss).epsilon(1e-3));
  CHECK(loss_of(stream, scaled, values, unseen) < loss_of(stream, scaled, nearest, unseen));
}

TEST_CASE("groups of one sign, of zeros and of the smallest numbers have scales and codes") {
  ThreadPool pool(1);
  Stream stream(pool);
  constexpr std::int64_t kColumns = 4 * kGroup;
  Tensor weight = draw(4, kColumns, 5);
  for (std::int64_t i = 0; i < weight.num_elements(); ++i) {
    float& number = weight.as<float>()[i];
    switch (i % kColumns / kGroup) {
      case 0: number = std::abs(number); break;
      case 1: number = -std::abs(number); break;
      case 2: number = 0; break;
      default: number *= 1e-30F;
    }
  }
  GptqOptions options;
  SUBCASE("with zeros") { options = kAwq; }
  SUBCASE("symmetric") { options = kGptq; }
  const GptqHessian hessian(stream, uncorrelated_moments(stream, kColumns), options);
  const RoundedMatrix solved = solve_gptq(stream, std::as_const(weight).view(), hessian).matrix;
  for (std::size_t g = 0; g < solved.scales.size(); ++g) {
    CAPTURE(g);
    const float scale = solved.scales[g];
    CHECK(scale > 0);
    CHECK(scale == to_float(to_f16(scale)));
    if (options.symmetric) CHECK(solved.zeros[g] == 8);
    if (!options.symmetric && g % 4 == 0) CHECK(solved.zeros[g] == 0);
    if (!options.symmetric && g % 4 == 1) CHECK(solved.zeros[g] == 15);
  }
  const Tensor values = values_of(solved);
  for (std::int64_t i = 0; i < weight.num_elements(); ++i) {
    if (i % kColumns / kGroup >= 2) CHECK(values.as<float>()[i] == 0);
  }
}

TEST_CASE("refuses weights that f16 does not hold, and whole rows") {
  ThreadPool pool(2);
  Stream stream(pool);
  const InputMoments moments = uncorrelated_moments(stream, 64);
  Tensor weight = draw(8, 64, 6);
  weight.as<float>()[77] = 70000;
  const GptqHessian hessian(stream, moments, kAwq);
  CHECK_THROWS_WITH_AS(solve_gptq(stream, std::as_const(weight).view(), hessian),
                       doctest::Contains("is beyond the range of f16"), Error);
  CHECK_THROWS_WITH_AS(GptqHessian(stream, moments, {.group_columns = 0, .clips = true}),
                       "quantize: gptq takes groups that are clipped, not whole rows", Error);
}

TEST_SUITE_END();

}  // namespace caption::quantise
